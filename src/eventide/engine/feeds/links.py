"""Links among directories: by one that leads back to a directory above it files would be read again and again, under ever longer names."""

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


def turned_back(directory: str, root: str) -> str | None:
    """Where a directory below a root lies in itself, by a link that came while a run was at work: that link."""
    root, here = root.rstrip("/"), os.path.realpath(root)
    if not directory.startswith(f"{root}/"):
        return None
    below = directory[len(root) + 1 :]
    if os.path.realpath(directory) == os.path.normpath(f"{here}/{below}"):
        return None  # there is no link on the way
    passed, path = {here}, root
    for part in below.split("/"):
        path = f"{path}/{part}"
        real = os.path.realpath(path)
        if real in passed:
            return path
        passed.add(real)
    return None
