"""Ctrl-C and SIGTERM: a run ends after the batch at work, with its closing table; a second signal leaves the batch to the next run."""

from __future__ import annotations

import signal
from dataclasses import dataclass, field
from types import FrameType, TracebackType
from typing import Any

EXIT = {signal.SIGINT: 130, signal.SIGTERM: 0}
"""A shell takes 130 for "interrupted"; who sends SIGTERM expects an orderly end."""


class Interrupted(BaseException):
    """A signal came where nothing is at work that could be ended in order."""


@dataclass
class Signals:
    """Takes both signals while it is entered; Spark takes Ctrl-C for itself when it starts, hence `take`."""

    came: signal.Signals | None = None
    at_work: bool = False
    """Whether a query runs: then a first signal only sets `came`, and whoever waits for the query looks at it."""
    _before: dict[signal.Signals, Any] = field(default_factory=dict)

    def __enter__(self) -> Signals:
        self._before = {number: signal.getsignal(number) for number in EXIT}
        self.take()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def take(self) -> None:
        """Handle both signals from now on."""
        for number in EXIT:
            signal.signal(number, self._on_signal)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        first, self.came = self.came is None, self.came or signal.Signals(number)
        if not (first and self.at_work):
            raise Interrupted

    @property
    def exit_code(self) -> int:
        """What the process ends with because of the signal that came."""
        return EXIT[self.came] if self.came is not None else 130
