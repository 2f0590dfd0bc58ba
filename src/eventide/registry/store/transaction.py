"""What is asked and changed in one transaction: changes wait for the next question, and no question is asked twice."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

Row = Sequence[Any]
Statement = tuple[str, Sequence[Any]]
Run = Callable[[str, Sequence[Any]], list[Row]]
Ask = Callable[[Sequence[Statement]], list[list[Row]]]
"""Carries statements out in order, in one round trip if the database allows; gives the rows of each."""

_Question = tuple[str, tuple[Any, ...]]
_CHANGES = ("INSERT ", "UPDATE ", "DELETE ")
_TABLE = re.compile(r"\b(?:FROM|JOIN|INTO|UPDATE)\s+(\w+)")


@lru_cache(maxsize=1024)
def _tables(statement: str) -> frozenset[str]:
    return frozenset(_TABLE.findall(statement))


class Transaction:
    """The statements of one transaction, in their order, with as few round trips as that takes.

    Nobody else changes what it sees, so a question has the same answer until a table that it names is changed. A change
    tells nothing, so it is sent along with the next question or at the end.
    """

    def __init__(self, ask: Ask, first: Sequence[Statement] = ()) -> None:
        self._ask = ask
        self._waiting: list[Statement] = list(first)
        self._remembered: dict[_Question, list[Row]] = {}
        self._by_table: dict[str, list[_Question]] = {}
        self._begun: int | None = None
        """Where the present change begins among those that wait; none if there is no present change."""
        self._failure: BaseException | None = None
        self._is_marked = False
        """Has a part of the present change been sent already, after a savepoint?"""

    def run(self, statement: str, values: Sequence[Any]) -> list[Row]:
        """The rows that a question gives; nothing for a change."""
        if statement.startswith(_CHANGES):
            self._waiting.append((statement, values))
            for table in _tables(statement):
                for known in self._by_table.pop(table, ()):
                    self._remembered.pop(known, None)
            return []
        if not statement.startswith("SELECT "):
            return self._send([(statement, values)])[0]
        key = (statement, tuple(values))
        if key not in self._remembered:
            self._remembered[key] = self._send([(statement, values)])[0]
            for table in _tables(statement):
                self._by_table.setdefault(table, []).append(key)
        return self._remembered[key]

    def ask_all(self, statements: Sequence[Statement]) -> list[list[Row]]:
        """The rows of several questions, together; none of them is remembered."""
        return self._send(list(statements)) if statements else []

    def flush(self, *last: Statement) -> None:
        """Send what waits, and then these.

        Whoever caught a failure of the database cannot go on as if nothing had been: it may have been another's change that
        failed, and a commit would then be a rollback that says nothing.
        """
        if self._failure is not None:
            raise self._failure
        if self._waiting or last:
            self._send(list(last))

    def _send(self, last: list[Statement]) -> list[list[Row]]:
        batch = self._waiting
        if self._begun is not None:
            if self._begun < len(batch) and not self._is_marked:
                batch.insert(self._begun, ("SAVEPOINT change", ()))
                self._is_marked = True
            self._begun = 0
        self._waiting = []
        try:
            return self._ask([*batch, *last])[len(batch) :]
        except BaseException as error:
            self._failure = error
            raise

    def begin_change(self) -> None:
        """From here on, changes can be taken back without those before them."""
        self._begun, self._is_marked = len(self._waiting), False

    def end_change(self) -> None:
        """Keep what was changed since `begin_change`."""
        if self._is_marked:
            self._waiting.append(("RELEASE SAVEPOINT change", ()))
        self._begun = None

    def take_back(self) -> None:
        """Undo what was changed since `begin_change`."""
        del self._waiting[self._begun or 0 :]
        if self._is_marked:
            self._waiting += [("ROLLBACK TO SAVEPOINT change", ()), ("RELEASE SAVEPOINT change", ())]
        self._begun = None
        self._remembered.clear()
        self._by_table.clear()
