"""What a store must offer, whatever database it is."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol

from eventide.errors import EventideError
from eventide.registry.store.session import Session


class StoreUnavailable(EventideError):
    """The database is down, locked for too long, or out of room; what was asked for was not stored."""


class StoreRefused(EventideError):
    """The database will never let us in as it was asked: an address that is none, or missing rights."""


class Store(Protocol):
    """A database that holds one registry. Any number of processes may share it."""

    @property
    def speaks_cheaply(self) -> bool:
        """Is `revision` cheap enough to be asked before every answer from memory?"""

    def read(self) -> AbstractContextManager[Session]:
        """One consistent view of everything, for the calling thread."""

    def write(self) -> AbstractContextManager[Session]:
        """The only writer among all processes; commits at the end, or nothing of it happened."""

    def revision(self) -> int:
        """A number that changes whenever something already readable by id was deleted or replaced."""

    def close(self) -> None:
        """Let go of every connection."""
