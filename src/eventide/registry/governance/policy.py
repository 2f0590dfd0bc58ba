"""Who owns a subject and what it may be called: checked when a subject gets a new version."""

from __future__ import annotations

import re
from functools import lru_cache

from eventide.registry import faults
from eventide.registry.records import Proposal
from eventide.registry.store import Session

REQUIRE_OWNER = "policy.require_owner"
LONGEST_PATTERN = 500


def owner_of(session: Session, subject: str) -> dict[str, str] | None:
    """The owner of the longest prefix that the subject begins with."""
    covering = [owner for owner in session.owners() if subject.startswith(owner["prefix"])]
    return max(covering, key=lambda owner: len(owner["prefix"]), default=None)


def refuse_by_policy(session: Session, proposal: Proposal) -> None:
    """Raise the fault of a registration that the registry's own rules do not allow."""
    rules = [rule for rule in session.naming_rules() if proposal.subject.startswith(rule["prefix"])]
    for rule in rules:
        if not _compiled(rule["pattern"]).fullmatch(proposal.subject):
            raise faults.name_refused(proposal.subject, rule["pattern"], rule["hint"])
    if session.fact(REQUIRE_OWNER) == "true" and owner_of(session, proposal.subject) is None:
        properties = (proposal.metadata or {}).get("properties", {})
        if not properties.get("owner"):
            raise faults.owner_missing(proposal.subject)


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)
