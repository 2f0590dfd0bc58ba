"""An address of files: what kind of place it leads to, and how Arrow spells it."""

from __future__ import annotations

import os

OBJECT_STORES = {"s3": "s3", "s3a": "s3", "gs": "gcs", "abfs": "azure", "abfss": "azure"}
"""Places whose files are objects, by scheme, with the extra of Eventide's that reaches them; s3 and s3a are one place."""


def scheme_of(address: str) -> str:
    """What stands before the `://`; empty for a path on a disk of this machine.

    >>> scheme_of("s3a://bucket/state"), scheme_of("/srv/state"), scheme_of("file:/srv/state")
    ('s3a', '', '')
    """
    scheme = address.partition("://")[0] if "://" in address else ""
    return "" if scheme == "file" else scheme


def is_local(address: str) -> bool:
    """Whether an address leads to a disk of this machine."""
    return not scheme_of(address)


def local_path(address: str) -> str:
    """A path on this machine without the scheme that it may have.

    >>> local_path("file:///srv/state"), local_path("state")
    ('/srv/state', 'state')
    """
    return address.removeprefix("file://").removeprefix("file:")


def from_here(address: str) -> str:
    """A path on this machine as it leads from where this process stands now: Spark's processes stand elsewhere. Other addresses are as they are.

    >>> from_here("/srv/state"), from_here("file:///srv/state"), from_here("s3://bucket/state")
    ('/srv/state', 'file:///srv/state', 's3://bucket/state')
    """
    return os.path.abspath(address) if is_local(address) and address == local_path(address) else address


def for_arrow(address: str) -> str:
    """The address as Arrow knows it: Hadoop's names for S3 are its own.

    >>> for_arrow("s3a://bucket/state")
    's3://bucket/state'
    """
    return f"s3://{address.partition('://')[2]}" if scheme_of(address) == "s3a" else address


__all__ = ["OBJECT_STORES", "for_arrow", "from_here", "is_local", "local_path", "scheme_of"]
