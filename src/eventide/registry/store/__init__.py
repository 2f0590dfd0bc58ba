"""Where the registry keeps things: SQLite in a file by default, PostgreSQL by URL."""

from eventide.registry.store.base import Store, StoreRefused, StoreUnavailable
from eventide.registry.store.lookups import Alike, End, Question
from eventide.registry.store.opened import open_store
from eventide.registry.store.session import Session
from eventide.registry.store.writer import Writer

__all__ = ["Alike", "End", "Question", "Session", "Store", "StoreRefused", "StoreUnavailable", "Writer", "open_store"]
