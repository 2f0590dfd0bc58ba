"""A pipeline's meaning with everything else left out: what the oracle, the kernel and the engine all follow."""

from __future__ import annotations

from dataclasses import dataclass

from eventide.model.aggregate import Aggregate
from eventide.model.frontier import SourceTiming
from eventide.model.policy import ACCUMULATING
from eventide.model.trigger import PER_BATCH, EarlyTrigger, LateTrigger
from eventide.model.view import WHOLE, View
from eventide.model.watermark import Strategy
from eventide.model.window import Window


@dataclass(frozen=True)
class SourcePlan:
    """A source's clock: its strategy, the lanes known at the start, and when a silent lane stops counting."""

    strategy: Strategy
    lanes: tuple[str, ...] = ()
    idle_after: int | None = None

    @property
    def timing(self) -> SourceTiming:
        """What the frontier needs of it."""
        return SourceTiming(self.lanes, self.idle_after)


@dataclass(frozen=True)
class OutputPlan:
    """One output's reading of the shared aggregation."""

    name: str
    allowed: int = 0
    accumulation: str = ACCUMULATING
    early: EarlyTrigger | None = None
    late: LateTrigger = PER_BATCH
    view: View = WHOLE
    """What it shows of the results."""


@dataclass(frozen=True)
class Plan:
    """Sources into one windowed aggregation into outputs."""

    sources: tuple[SourcePlan, ...]
    window: Window
    aggregates: tuple[tuple[str, Aggregate], ...]
    outputs: tuple[OutputPlan, ...]
    dedupe_within: int | None = None
    when_all_idle: str = "hold"
    generation: int = 0
    keys: tuple[str, ...] = ()
    """What the parts of a key are called, where a view reads them."""

    @property
    def allowances(self) -> tuple[int, ...]:
        """The distinct allowed latenesses, with 0, which tells on time from late."""
        return tuple(sorted({0, *(output.allowed for output in self.outputs)}))
