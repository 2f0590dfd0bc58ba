"""Optional libraries: brought in when a sink is opened, and named with the command that installs them."""

from __future__ import annotations

import importlib
from typing import Any

from eventide.errors import SinkRefused


def need(module: str, extra: str) -> Any:
    """A library that only one kind of sink wants.

    >>> need("no_such_library", "postgres")
    Traceback (most recent call last):
    ...
    eventide.errors.SinkRefused: no_such_library is not installed here: pip install 'eventide[postgres]'
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name and not module.startswith(error.name):
            raise
        raise SinkRefused(f"{module.partition('.')[0]} is not installed here: pip install 'eventide[{extra}]'") from None
