"""How a run is doing, a line for each source: in a terminal, in a notebook, or as plain lines one after the other."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from rich.cells import cell_len

from eventide.model.time import show_instant
from eventide.notebook import paragraph, table
from eventide.readable.harmless import LONGEST, harmless
from eventide.readable.spans import rough

if TYPE_CHECKING:
    from eventide.engine.report import BatchReport, SourceProgress

WORTH_TELLING = 60_000_000
"""A lane that has held a watermark for less than a minute is as it should be."""
SHORTEST_LANE = 12
"""Signs of a lane's name that are shown even where its line is longer than the screen."""


class Board:
    """The lines of a run: one for each source, and with several sources one for W."""

    def __init__(self) -> None:
        self.progress: BatchReport | None = None
        self.since = time.monotonic()
        self.rates: dict[str, float] = {}

    def take(self, progress: BatchReport) -> None:
        """The account of the next batch."""
        now = time.monotonic()
        if self.progress is not None:  # rows are counted since the pipeline's first batch, which may have been another run's
            before = {source.name: source.rows for source in self.progress.sources}
            self.rates = {s.name: (s.rows - before[s.name]) / max(now - self.since, 1e-9) for s in progress.sources}
        self.progress, self.since = progress, now

    def lines(self, width: int | None = None) -> list[str]:
        """One line for each source; with several, one more for what they come to. Where one is too long for the screen, who holds W stands below it."""
        progress = self.progress
        if progress is None:
            return ["starting the query …"]
        lines = [line for source in progress.sources for line in self._of(source, progress, width)]
        if len(progress.sources) > 1:
            together = ["all together", f"watermark {_clock(progress.watermark)}"]
            lines += _fitting(together, [], None if progress.held_by is None else ("holder ", progress.held_by, ""), width)
        return lines

    def _of(self, source: SourceProgress, progress: BatchReport, width: int | None) -> list[str]:
        before = [harmless(source.name), f"watermark {_clock(source.watermark)}"]
        before += [] if source.watermark is None else [f"lag {rough(max(0, progress.clock - source.watermark))}"]
        after = [f"{self.rates[source.name]:,.0f}/s"] if self.rates else []
        after += [f"late {source.late / max(1, source.rows):.1%}"]
        return _fitting(before, after, _holder(source, progress.clock), width)

    def html(self) -> str:
        """The same as a table of a notebook."""
        progress = self.progress
        if progress is None:
            return paragraph("no batch so far")
        rates = {name: f"{rate:,.0f}" for name, rate in self.rates.items()}
        rows = [
            (
                s.name, show_instant(s.watermark), "" if s.watermark is None else rough(max(0, progress.clock - s.watermark)),
                "" if s.holder is None else s.holder, "" if s.since is None else rough(progress.clock - s.since),
                rates.get(s.name), s.rows, f"{s.late / max(1, s.rows):.1%}",
            )
            for s in progress.sources
        ]  # fmt: skip
        return table(["source", "watermark", "lag", "held by", "for", "rows/s", "rows", "late"], rows)


Middle = tuple[str, str, str]
"""What stands before a lane's name, the name, and what stands after it."""


def _holder(source: SourceProgress, clock: int) -> Middle | None:
    """The lane that holds a source's watermark, on the line that begins with the source's name."""
    if source.holder is None:
        return None
    lane = source.holder.removeprefix(f"{source.name}/")
    held = 0 if source.since is None else clock - source.since
    return "holder lane " if lane.isdigit() else "holder ", lane, f" for {rough(held)}" if held >= WORTH_TELLING else ""


def _fitting(before: list[str], after: list[str], holder: Middle | None, width: int | None) -> list[str]:
    """One line, or where the screen is too narrow for it a second one for the lane."""
    if holder is None:
        return ["  ".join([*before, *after])]
    head, lane, tail = holder
    line = "  ".join([*before, f"{head}{harmless(lane)}{tail}", *after])
    if width is None or cell_len(line) <= width:
        return [line]
    longest = LONGEST
    while cell_len(below := f"  {head}{harmless(lane, longest)}{tail}") > width and longest > SHORTEST_LANE:
        longest = max(SHORTEST_LANE, longest - (cell_len(below) - width))
    return ["  ".join([*before, *after]), below]


def _clock(mark: int | None) -> str:
    return show_instant(mark).removesuffix("Z").partition(".")[0].partition("T")[2] or show_instant(mark)


__all__ = ["Board"]
