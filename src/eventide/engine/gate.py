"""The gate before a run's batches: it lets one in at a time, remembers what killed one, and once shut lets no more in."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from eventide.errors import EventideError

LONGEST = 500
"""Characters of an error that Spark is told; its own search in a longer text can overflow the JVM's stack."""
TOLD = "the run was told to stop"
INTERRUPTED = f"py4j.protocol.Py4JJavaError: An error occurred while calling: java.lang.InterruptedException: {TOLD}"
"""By these words Spark knows an interruption inside a Python function, and ends a query that was stopped without calling it failed."""


class BatchFailed(EventideError):
    """What Spark is told of a batch that failed, in short; `wait` and `stop` raise the error itself."""


@dataclass
class Gate:
    """Batches pass it one by one."""

    fault: BaseException | None = None
    """What killed a batch, and with it the query."""
    is_shut: bool = False
    _passing: threading.Lock = field(default_factory=threading.Lock, repr=False)
    _inside: int | None = None

    @contextmanager
    def batch(self, stopped: Callable[[], bool]) -> Iterator[None]:
        """Let a batch in, or wait until Spark has taken note that the query is to stop, and interrupt it."""
        with self._passing:
            if not self.is_shut:
                self._inside = threading.get_ident()
                try:
                    yield
                except BaseException as fault:
                    self.fault = fault
                    raise BatchFailed(_short(fault)) from None
                finally:
                    self._inside = None
                return
        _wait(stopped)
        raise BatchFailed(INTERRUPTED)

    @property
    def is_mine(self) -> bool:
        """Whether the caller is inside a batch: it must not wait for the batch to end."""
        return self._inside == threading.get_ident()

    def shut(self) -> None:
        """Let no other batch in, and wait for the one that is inside."""
        self.is_shut = True
        with self._passing:
            pass


def _wait(stopped: Callable[[], bool], seconds: float = 10.0) -> None:
    end = time.monotonic() + seconds
    while not stopped() and time.monotonic() < end:
        time.sleep(0.02)


def _short(fault: BaseException) -> str:
    """An error in a few lines, without the words that Spark searches for.

    >>> print(_short(ValueError("two rows were lost")))
    ValueError: two rows were lost
    """
    text = f"{type(fault).__name__}: {fault}".replace("An error occurred while calling", "an error in")
    return text if len(text) <= LONGEST else text[:LONGEST] + " …"
