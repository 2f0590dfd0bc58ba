"""What a run says of itself after each batch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from eventide.model.event import LaneId
from eventide.model.frontier import slowest

if TYPE_CHECKING:
    from eventide.engine.run import Run


@dataclass(frozen=True)
class SourceProgress:
    """One source's line."""

    name: str
    watermark: int | None
    holder: str | None
    """The lane that its watermark waits for, as source/lane."""
    rows: int
    late: int
    """Rows, since the pipeline's first batch, that came after W had passed the end of their first window in the aggregation of the first output."""
    late_for: Mapping[str, int] = field(default_factory=dict)
    """The same by output, each by the windows that it reads."""
    since: int | None = None
    """The clock of the batch since which the holder is that lane."""


@dataclass(frozen=True)
class BatchReport:
    """A batch's account: W, how far it lags behind the clock, who holds it, and where the rows went."""

    batch: int
    clock: int
    watermark: int | None
    holder: LaneId | None
    rows: dict[str, int]
    outputs: dict[str, dict[str, int]]
    panes: dict[str, int]
    sources: tuple[SourceProgress, ...]

    @property
    def held_by(self) -> str | None:
        """The source and lane that W waits for, as source/lane."""
        return None if self.holder is None else f"{self.sources[self.holder[0]].name}/{self.holder[1]}"

    @property
    def lag(self) -> int | None:
        """How far W is behind the clock, in microseconds."""
        return None if self.watermark is None else max(0, self.clock - self.watermark)


def report(run: Run, panes: Mapping[str, Sequence[str]]) -> BatchReport:
    """The account of the batch that was committed last, which wrote these files of results."""
    ledger, clock = run.ledger, run.last_clock
    holds = {} if run.holds is None else run.holds.sources
    sources = []
    for feed in run.feeds:
        last = slowest({lane: standing for lane, standing in ledger.frontier.lanes.items() if lane[0] == feed.index})
        mark = ledger.frontier.lanes[last].watermark if last else None
        seen = ledger.by_source.get(str(feed.index), Counter())
        held = [f"{feed.source.name}/{lane} ({why})" for (index, lane), why in sorted(run.held.items()) if index == feed.index]
        holder = ", ".join(held) if held else f"{feed.source.name}/{last[1]}" if last else None
        hold = holds.get(feed.index)
        since = hold.since if hold is not None and hold.lane == last else None
        late = {name: ledger.late_from(feed.index, ledger.reads.get(name, "")) for name in ledger.outputs}
        first = late[run.pipeline.outputs[0].name]
        sources.append(SourceProgress(feed.source.name, mark, holder, seen.get("rows", 0), first, late, since))
    return BatchReport(
        ledger.batch,
        clock,
        ledger.frontier.watermark,
        min(run.held, default=slowest(ledger.frontier.lanes)),
        dict(ledger.rows),
        {name: dict(counts) for name, counts in ledger.outputs.items()},
        {name: len(files) for name, files in panes.items()},
        tuple(sources),
    )
