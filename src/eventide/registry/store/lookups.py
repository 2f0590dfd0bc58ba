"""The questions that every registration asks: asked for many registrations at once, and remembered until they are outdated."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from eventide.registry.names import GLOBAL_CONTEXT, Name
from eventide.registry.store.transaction import Row, Statement, Transaction

COLUMNS = "v.subject, v.version, v.id, s.guid, s.kind, s.text, s.refs, s.metadata, s.rules, v.ts, v.deleted"


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings and modes of a subject and of what is above it: whoever asks for one will ask for the others."""

    subject: str

    @property
    def scopes(self) -> tuple[str, str, str]:
        """The subject, its context and the whole registry."""
        return self.subject, Name.parse(self.subject).prefix, f":{GLOBAL_CONTEXT}:"

    @property
    def statement(self) -> Statement:
        """As SQL."""
        return (
            "SELECT 'configs', subject, body FROM configs WHERE subject IN (?, ?, ?) "
            "UNION ALL SELECT 'modes', subject, mode FROM modes WHERE subject IN (?, ?, ?)",
            (*self.scopes, *self.scopes),
        )


@dataclass(frozen=True, slots=True)
class Alike:
    """What a context has of a content: the id it was last given, and the ids of what is the same within a subject."""

    context: str
    guid: str
    lookup: str
    resolved: str | None

    @property
    def statement(self) -> Statement:
        """As SQL."""
        return (
            "SELECT 'same', id FROM guids WHERE context = ? AND guid = ? "
            "UNION ALL SELECT 'alike', id FROM schemas WHERE context = ? AND lookup = ? "
            "UNION ALL SELECT 'alike', id FROM schemas WHERE context = ? AND resolved = ?",
            (self.context, self.guid, self.context, self.lookup, self.context, self.resolved),
        )

    def is_touched_by(self, context: str, guid: str, lookup: str, resolved: str | None) -> bool:
        """Does the answer change when this content gets an id?"""
        same = self.guid == guid or self.lookup == lookup or (resolved is not None and self.resolved == resolved)
        return same and self.context == context


@dataclass(frozen=True, slots=True)
class End:
    """The highest version number of a subject, and its latest version that is not deleted."""

    subject: str

    @property
    def statement(self) -> Statement:
        """As SQL. The numbers first: a planner may otherwise join all versions before it takes the last."""
        last = "SELECT MAX(version) FROM versions WHERE subject = ?"
        live = "SELECT MAX(version) FROM versions WHERE subject = ? AND deleted = 0"
        return (
            f"SELECT e.last, {COLUMNS} FROM (SELECT ({last}) AS last, ({live}) AS live) e "
            "LEFT JOIN versions v ON v.subject = ? AND v.version = e.live "
            "LEFT JOIN schemas s ON s.context = v.context AND s.id = v.id",
            (self.subject, self.subject, self.subject),
        )


Question = Settings | Alike | End


class Lookups:
    """The answers to these questions in one transaction."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction
        self._answers: dict[Question, list[Row]] = {}

    @property
    def asked(self) -> frozenset[Question]:
        """What was asked so far."""
        return frozenset(self._answers)

    def prefetch(self, questions: Iterable[Question]) -> None:
        """Ask all of these together."""
        new = [question for question in dict.fromkeys(questions) if question not in self._answers]
        for question, rows in zip(new, self._transaction.ask_all([q.statement for q in new]), strict=True):
            self._answers[question] = rows

    def __getitem__(self, question: Question) -> list[Row]:
        if question not in self._answers:
            self.prefetch([question])
        return self._answers[question]

    def forget(self, outdated: Callable[[Any], bool] = lambda question: True) -> None:
        """Ask these again, if anybody asks."""
        self._answers = {question: rows for question, rows in self._answers.items() if not outdated(question)}
