"""Patience: trying the same delivery again while the far end is unavailable, for a bounded time."""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from eventide.errors import SinkUnavailable
from eventide.log import note

Result = TypeVar("Result")


class FailedTries:
    """How often a far end did not take a delivery: in this thread, and in the whole process."""

    def __init__(self) -> None:
        self.all = 0
        self._mine = threading.local()

    @property
    def count(self) -> int:
        """Those of this thread."""
        return getattr(self._mine, "count", 0)

    def add(self) -> None:
        """One more."""
        self._mine.count = self.count + 1
        self.all += 1


failed_tries = FailedTries()


@dataclass(frozen=True)
class Retry:
    """How long to go on trying: pauses double from `first` to `longest`, each cut at random so that writers spread out.

    Only `SinkUnavailable` is tried again; every other error is raised at once.

    >>> tries = iter([SinkUnavailable("busy"), None])
    >>> def once():
    ...     if error := next(tries):
    ...         raise error
    ...     return "stored"
    >>> Retry(first=0.001).run(once)
    'stored'
    """

    give_up_after: float = 60.0
    """Seconds from the first failure until the error is raised; 0 never tries again."""
    first: float = 0.1
    longest: float = 5.0
    clock: Callable[[], float] = field(default=time.monotonic, repr=False, compare=False)
    sleep: Callable[[float], None] = field(default=time.sleep, repr=False, compare=False)

    def run(self, action: Callable[[], Result]) -> Result:
        """Do it until it succeeds, fails for good, or the time is up."""
        started = None
        pause = self.first
        tries = 0
        while True:
            try:
                result = action()
            except SinkUnavailable as error:
                tries += 1
                failed_tries.add()
                now = self.clock()
                started = now if started is None else started
                left = started + self.give_up_after - now
                if left <= 0:
                    raise SinkUnavailable(
                        f"{error} (gave up after {now - started:.0f} s and {tries} tries; the batch is not committed, "
                        "so nothing is lost: start the pipeline again and it is delivered again)"
                    ) from error
                wait = min(pause * random.uniform(0.5, 1.0), left)  # noqa: S311 (spreads load, guards no secret)
                note(__name__, f"try failed, next in {wait:.1f} s:", logging.WARNING, tries=tries, error=str(error))
                self.sleep(wait)
                pause = min(pause * 2, self.longest)
                continue
            if started is not None:
                note(__name__, "taken at last", tries=tries + 1, after_s=round(self.clock() - started, 1))
            return result
