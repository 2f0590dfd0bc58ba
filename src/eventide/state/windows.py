"""The windows that a state holds: open ones, and those that have closed and are kept for late rows. Told by its parts, without its pipeline."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import polars as pl

from eventide.kernel.columns import END, SLICE, TIME
from eventide.kernel.session_layers import standing
from eventide.kernel.view import START
from eventide.model.time import MAX_TIME, MIN_TIME, plus, saturate
from eventide.model.window import Bounds, Session, Sliding, Window
from eventide.state.ledger import Ledger
from eventide.state.state import State
from eventide.state.store import Part, PartKind
from eventide.wording import window_in

CUT = {PartKind.PARTIAL: SLICE, PartKind.STANDING: TIME}
"""Parts that windows are put together from, with the column that says from which slice on."""
Ends = list[tuple[int, int, int]]
"""Ends of windows, as ranges: first, last and step."""


@dataclass(frozen=True)
class OutputWindows:
    """The windows of one output. Windows over different keys count once; of sessions each is one."""

    output: str
    said: str
    """What it reads, in its user's words."""
    window: Window | None
    """None: it gives pairs of a join, which have no windows."""
    allowed: int
    ends: Ends

    def open(self, watermark: int | None) -> int:
        """Windows whose end W has not reached."""
        return self.between(watermark, MAX_TIME)

    def retained(self, watermark: int | None) -> int:
        """Windows that have closed, and take late rows still."""
        return 0 if watermark is None else self.between(plus(watermark, -self.allowed), watermark)

    def between(self, after: int | None, upto: int) -> int:
        """Windows that end after one time and not after another."""
        low = MIN_TIME if after is None else after
        return sum(_on_grid(*ends, low, upto) for ends in self.ends)


def output_windows(state: State) -> list[OutputWindows]:
    """Of each output the windows that the newest commit holds something for."""
    ledger, found = state.ledger, []
    for name, facts in (state.definition or {}).get("outputs", {}).items():
        said = facts.get("aggregation") or (state.definition or {})["settings"]["stream"]["window"]
        window = window_in(said)
        found.append(OutputWindows(name, said, window, facts["allowed"], _ends(state, window, parts_of(ledger, name))))
    return found


def parts_of(ledger: Ledger, output: str) -> list[Part]:
    """The parts that an output is told from."""
    aggregation = ledger.reads.get(output, "")
    return [part for part in ledger.parts if part.aggregation == aggregation and part.output in ("", output)]


def open_windows(state: State, output: str, window: Window) -> list[Bounds]:
    """The bounds of an output's windows that W has not closed; those of several keys once."""
    ledger = state.ledger
    parts, mark = parts_of(ledger, output), ledger.frontier.watermark
    if isinstance(window, Session):
        found = {bounds for lives in _sessions(state, parts) for bounds in lives.select(START, END).iter_rows()}
    else:
        ends = {end for first, last, step in _ends(state, window, parts) for end in range(first, last + 1, step)}
        found = {(saturate(end - window.size), end) for end in ends}
    return sorted(bounds for bounds in found if mark is None or bounds[1] > mark)


def _ends(state: State, window: Window | None, parts: list[Part]) -> Ends:
    if window is None:
        return []
    if isinstance(window, Session):
        return [(end, end, 1) for lives in _sessions(state, parts) for end in lives[END]]
    starts: set[int] = set()
    for kind, column in CUT.items():
        starts.update(_column(state, [part for part in parts if part.kind == kind], column))
    return _ranges(window, sorted(starts))


def _sessions(state: State, parts: list[Part]) -> Iterator[pl.DataFrame]:
    """The sessions that live, each output's and each bucket's by themselves."""
    parts = [part for part in parts if part.kind == PartKind.SESSIONS]
    for own in {(part.output, part.bucket) for part in parts}:
        layers = sorted((part for part in parts if (part.output, part.bucket) == own), key=lambda part: part.batch)
        lives = standing(state.store.read(layers))
        if lives is not None:
            yield lives


def _column(state: State, parts: list[Part], column: str) -> list[int]:
    if not parts:
        return []
    frames = state.store.read(parts, [column])
    return pl.concat([frame[column] for frame in frames]).drop_nulls().to_list()


def _ranges(window: Sliding, starts: Iterable[int]) -> Ends:
    """The ends of all windows that hold one of these times, each once; times come in order."""
    found: Ends = []
    for start in starts:
        first, last = window.first_end(start), window.last_end(start)
        if found and first <= found[-1][1] + window.slide:
            found[-1] = (found[-1][0], max(last, found[-1][1]), window.slide)
        else:
            found.append((first, last, window.slide))
    return found


def _on_grid(first: int, last: int, step: int, after: int, upto: int) -> int:
    """How many of first, first + step, …, last lie after one time and not after another.

    >>> _on_grid(10, 50, 10, 10, 40)
    3
    """
    low, high = max(first, first + (after - first) // step * step + step), min(last, upto)
    return max(0, (high - low) // step + 1)


__all__ = ["OutputWindows", "open_windows", "output_windows", "parts_of"]
