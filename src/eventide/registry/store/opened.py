"""A store behind a URL."""

from __future__ import annotations

from pathlib import Path

from eventide.redaction import masked
from eventide.registry.store.base import Store
from eventide.registry.store.sqlite import SqliteStore


def open_store(url: str) -> Store:
    """Open the store behind a URL: `sqlite:///registry.db`, `sqlite://` (in memory) or `postgresql://…`.

    Raises:
        ValueError: another kind of URL.
    """
    if url.startswith(("postgresql://", "postgres://")):
        from eventide.registry.store.postgres import PostgresStore

        return PostgresStore(url)
    if url.startswith("sqlite://"):
        path = url.removeprefix("sqlite://").removeprefix("/")
        if not path or path == ":memory:":
            raise ValueError("the registry keeps what it promised, so it needs a file: sqlite:///registry.db")
        return SqliteStore(Path(path))
    raise ValueError(masked(f"{url!r} is no store; give sqlite:///FILE or postgresql://USER@HOST/DATABASE"))
