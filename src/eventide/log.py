"""What happens inside a run, for who listens: one line for each thing, with its facts apart; nobody hears it who did not ask."""

from __future__ import annotations

import logging
from pathlib import Path

from eventide.redaction import masked


def note(room: str, what: str, level: int = logging.INFO, **facts: object) -> None:
    """Log what happened, under the name of the module that it happened in.

    The facts are in the line for people, and as they are in `record.facts` for who writes JSON. To hear of it:
    `logging.basicConfig(level=logging.INFO)`, or a handler on the logger "eventide".

    >>> import sys
    >>> log = logging.getLogger("eventide.example")
    >>> log.setLevel(logging.INFO); log.addHandler(logging.StreamHandler(sys.stdout))
    >>> note("eventide.example", "batch committed", batch=7, rows=1200)
    batch committed batch=7 rows=1200
    """
    log = logging.getLogger(room)
    if log.isEnabledFor(level):
        safe = {name: masked(str(value)) if isinstance(value, str | Path) else value for name, value in facts.items()}
        said = " ".join([what, *(f"{name}={value}" for name, value in safe.items())])
        log.log(level, "%s", said, extra={"facts": safe})
