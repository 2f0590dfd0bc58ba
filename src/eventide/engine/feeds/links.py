"""Links among directories: one that leads back to a directory above it would have its files read again and again, under ever longer names."""

from __future__ import annotations

import os


def leading_back(directory: str, above: tuple[str, ...] = ()) -> str | None:
    """The first link below a directory that leads to one it lies in; Spark's listing and ours follow links, both up to some forty of them."""
    here = os.path.realpath(directory)
    if here in above:
        return directory
    try:
        with os.scandir(directory) as entries:
            below = sorted(entry.path for entry in entries if entry.is_dir())
    except PermissionError:  # the listing says it
        return None
    return next((found for path in below if (found := leading_back(path, (*above, here))) is not None), None)
