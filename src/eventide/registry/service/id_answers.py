"""Answers by id, ready to send: what decoders ask for, thousands of times a second."""

from __future__ import annotations

import time
from typing import Any

from eventide.registry.store import Store

Key = tuple[tuple[str, ...], bytes, bytes]
"""The prefixes that the asking account may read, the path and the query: what an answer by id depends on."""
_BEHIND_AT_MOST = 1.0  # seconds that another process's delete may take to show in answers by id
Messages = tuple[dict[str, Any], dict[str, Any]]


class IdAnswers:
    """Finished answers by sight, path and query, good for one revision of the store.

    The store's revision changes whenever something readable by id was deleted or replaced, by this process or another;
    then all of them are dropped. An answer is kept only if it was read at the revision that the others are of.
    """

    def __init__(self, store: Store, *, keep: int = 20_000) -> None:
        self._store = store
        self._keep = keep
        self._revision = -1
        self._asked = 0.0
        self._answers: dict[Key, Messages] = {}

    def get(self, key: Key) -> Messages | None:
        """The finished answer, if it still holds."""
        found = self._answers.get(key)
        if found is not None and self._store.speaks_cheaply:
            revision = self._store.revision()
            if revision != self._revision:
                self.move_to(revision)
                return None
        return found

    @property
    def is_due(self) -> bool:
        """Should the store be asked for its revision, because it cannot be asked before every answer?"""
        return not self._store.speaks_cheaply and time.monotonic() - self._asked > _BEHIND_AT_MOST

    def ask(self) -> None:
        """Ask the store whether another process has changed something; not on the event loop."""
        self._asked = time.monotonic()
        self.move_to(self._store.revision())

    def put(self, key: Key, messages: Messages, revision: int) -> None:
        """Keep an answer that was read at a revision."""
        if revision > self._revision:
            self.move_to(revision)
        if revision == self._revision:
            if len(self._answers) >= self._keep:
                self._answers.clear()
            self._answers[key] = messages

    def move_to(self, revision: int) -> None:
        """The store is at this revision now: what was read before it no longer counts."""
        if revision > self._revision:
            self._revision = revision
            self._answers.clear()
