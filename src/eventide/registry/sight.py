"""What one account may see: the one place that decides it, and every question whose answer depends on it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from eventide.registry.names import DEFAULT_CONTEXT, Name
from eventide.registry.records import Entry
from eventide.registry.store import Session


@dataclass(frozen=True, slots=True)
class Sight:
    """The subjects that somebody may read: those that begin with one of the prefixes.

    >>> Sight("billing", ("orders.",)).sees("orders.paid"), Sight("billing", ("orders.",)).sees("staff.pay")
    (True, False)
    """

    who: str
    prefixes: tuple[str, ...]

    @property
    def is_unlimited(self) -> bool:
        """May everything be read?"""
        return "" in self.prefixes

    def sees(self, subject: str) -> bool:
        """May this subject be read?"""
        return any(subject.startswith(prefix) for prefix in self.prefixes)

    def reaches(self, prefix: str) -> bool:
        """Could a subject that begins with this prefix be one that may be read?"""
        return any(prefix.startswith(own) or own.startswith(prefix) for own in self.prefixes)


EVERYTHING = Sight("anonymous", ("",))
"""The sight of whoever may read everything."""


class Seen:
    """The tables as one account sees them: what it may not read is not there.

    Whatever is told to a client comes from here. What the registry has to know to keep its own promises (the next id, who
    refers to a version that is to be deleted) it asks the session itself.
    """

    def __init__(self, session: Session, sight: Sight) -> None:
        self._session = session
        self._sight = sight

    def entry(self, subject: str, version: int, *, deleted: bool = False) -> Entry | None:
        """One version of a subject, or none; with `deleted` also if it was soft deleted."""
        return self._session.entry(subject, version, deleted=deleted) if self._sight.sees(subject) else None

    def latest(self, subject: str) -> Entry | None:
        """The highest version that is not deleted."""
        return self._session.latest(subject) if self._sight.sees(subject) else None

    def entries(self, subject: str, *, deleted: bool = False) -> list[Entry]:
        """All versions of a subject, oldest first."""
        return self._session.entries(subject, deleted=deleted) if self._sight.sees(subject) else []

    def has_subject(self, subject: str, *, deleted: bool) -> bool:
        """Is there such a subject, or, if a whole context is named, any subject in it?"""
        name = Name.parse(subject)
        if self._sight.is_unlimited or name.subject:
            return self._sight.sees(subject) and self._session.has_subject(subject, deleted=deleted)
        return any(deleted or not gone for _, gone in self.subjects(name.context, ""))

    def subjects(self, context: str | None, prefix: str) -> list[tuple[str, bool]]:
        """The subjects that begin with a prefix, each with whether all of its versions are soft deleted."""
        return [found for found in self._session.subjects(context, prefix) if self._sight.sees(found[0])]

    def listing(
        self, context: str | None, prefix: str, *, latest_only: bool, deleted: int | None, offset: int, limit: int
    ) -> list[Entry]:
        """Versions of the subjects that begin with a prefix, by subject and version."""
        if self._sight.is_unlimited:
            return self._session.listing(
                context, prefix, latest_only=latest_only, deleted=deleted, offset=offset, limit=limit
            )  # fmt: skip
        everything = self._session.listing(context, prefix, latest_only=latest_only, deleted=deleted, offset=0, limit=2**31)
        return [entry for entry in everything if self._sight.sees(entry.subject)][offset : offset + limit]

    def contexts(self) -> list[str]:
        """The default context, and every other one that ever had a subject; if not all may be seen, that has one seen."""
        everything = self._session.contexts()
        if self._sight.is_unlimited:
            return everything
        seen = {Name.parse(subject).context for subject, _ in self.subjects(None, "")}
        return [context for context in everything if context == DEFAULT_CONTEXT or context in seen]

    def holders(self, context: str, schema_id: int) -> list[tuple[str, int]]:
        """The subjects that hold an id, each with its version, in the order in which they got it."""
        return [holder for holder in self._session.holders(context, schema_id) if self._sight.sees(holder[0])]

    def holds(self, context: str, schema_id: int) -> bool:
        """Is there an id in a context, held by a subject that may be read?"""
        if self._sight.is_unlimited:
            return self._session.schema(context, schema_id) is not None
        return bool(self.holders(context, schema_id))

    def ids_of(self, guid: str) -> list[tuple[str, int]]:
        """The id of this content in every context that has it."""
        found = self._session.ids_of(guid)
        return found if self._sight.is_unlimited else [place for place in found if self.holds(*place)]

    def referrers(self, subject: str, version: int, *, deleted: bool) -> list[tuple[str, int]]:
        """The (context, id) of every schema that refers to a version."""
        found = self._session.referrers(subject, version, deleted=deleted)
        return found if self._sight.is_unlimited else [place for place in found if self.holds(*place)]

    def owners(self) -> list[dict[str, str]]:
        """The owners of the prefixes that may have a subject to read."""
        return [owner for owner in self._session.owners() if self._sight.reaches(owner["prefix"])]

    def naming_rules(self) -> list[dict[str, str]]:
        """The naming rules of the prefixes that may have a subject to read."""
        return [rule for rule in self._session.naming_rules() if self._sight.reaches(rule["prefix"])]

    def usage(self, **asked: Any) -> list[dict[str, Any]]:
        """Which client decoded which id, when first, when last and how often."""
        found = self._session.usage(**asked)
        return found if self._sight.is_unlimited else [line for line in found if self.holds(line["context"], line["id"])]
