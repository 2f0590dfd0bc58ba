"""Who owns a subject and what it may be called: checked when a subject gets a new version."""

from __future__ import annotations

from eventide.registry import faults
from eventide.registry.patterns import BadPattern, is_whole
from eventide.registry.records import Proposal
from eventide.registry.store import Session

REQUIRE_OWNER = "policy.require_owner"


def owner_of(session: Session, subject: str) -> dict[str, str] | None:
    """The owner of the longest prefix that the subject begins with."""
    covering = [owner for owner in session.owners() if subject.startswith(owner["prefix"])]
    return max(covering, key=lambda owner: len(owner["prefix"]), default=None)


def refuse_by_policy(session: Session, proposal: Proposal) -> None:
    """Raise the fault of a registration that the registry's own rules do not allow."""
    rules = [rule for rule in session.naming_rules() if proposal.subject.startswith(rule["prefix"])]
    for rule in rules:
        try:
            fits = is_whole(rule["pattern"], proposal.subject)
        except BadPattern as error:  # written down before patterns had to be bounded
            raise faults.naming_unusable(rule["prefix"], rule["pattern"], str(error)) from None
        if not fits:
            raise faults.name_refused(proposal.subject, rule["pattern"], rule["hint"])
    if session.fact(REQUIRE_OWNER) == "true" and owner_of(session, proposal.subject) is None:
        properties = (proposal.metadata or {}).get("properties", {})
        if not properties.get("owner"):
            raise faults.owner_missing(proposal.subject)
