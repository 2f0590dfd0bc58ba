"""Directories for what one process computes and reads: they go when it ends."""

from __future__ import annotations

import atexit
import shutil
import tempfile


def scratch(purpose: str) -> str:
    """A new directory among temporary files, removed when the process ends: tables that are read from it are read when they are asked.

    >>> import os
    >>> made = scratch("backfill")
    >>> os.path.basename(made).startswith("eventide-backfill-"), os.listdir(made)
    (True, [])
    """
    made = tempfile.mkdtemp(prefix=f"eventide-{purpose}-")
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return made
