"""The oracle: one event at a time, in arrival order. What it answers is what every other engine must answer."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass, field

from eventide.model.event import Event
from eventide.model.frontier import Frontier
from eventide.model.intake import Dedupe, Intake, IntakeState
from eventide.model.lateness import Verdict
from eventide.model.pane import LateRow, Pane
from eventide.model.plan import Plan
from eventide.model.reader import Closing, Judged, Reader
from eventide.model.standing import WindowState
from eventide.model.window import Bounds

__all__ = ["Closing", "Reference", "ReferenceState", "worst_of"]

_WORST = {Verdict.ON_TIME: 0, Verdict.ADMITTED: 1, Verdict.REFUSED: 2}


@dataclass
class ReferenceState(IntakeState):
    """All that the engine remembers; the snapshot is this state."""

    windows: list[dict[Hashable, dict[Bounds, WindowState]]] = field(default_factory=list)
    """For each output: key → bounds → state."""
    pairs: list[Counter[str]] = field(default_factory=list)
    worst: list[Counter[str]] = field(default_factory=list)


class Reference(Intake):
    """Handles one event at a time. Emissions gather in `panes`, refused rows in `late`, closings in `closings`.

    >>> from eventide.model.plan import Plan, SourcePlan, OutputPlan
    >>> from eventide.model import aggregate, watermark, window
    >>> plan = Plan((SourcePlan(watermark.Bounded(5), ("0",)),), window.Sliding(10, 10), (("n", aggregate.count()),),
    ...             (OutputPlan("counts"),))
    >>> engine = Reference(plan)
    >>> for time in (1, 8, 17): engine.event(Event(time, time))
    >>> engine.panes[0].window, engine.panes[0].values
    ((0, 10), {'n': 2})
    """

    state: ReferenceState

    def __init__(self, plan: Plan, state: ReferenceState | None = None) -> None:
        self.plan = plan
        state = state or ReferenceState(
            Frontier([s.timing for s in plan.sources], plan.when_all_idle).state,
            windows=[{} for _ in plan.outputs],
            pairs=[Counter() for _ in plan.outputs],
            worst=[Counter() for _ in plan.outputs],
        )
        everything = Dedupe(tuple(range(len(plan.sources))), plan.dedupe_within)
        super().__init__(plan.sources, plan.when_all_idle, (everything,), state)
        self.readers = [Reader(plan, output, held) for output, held in zip(plan.outputs, state.windows, strict=True)]
        self.panes: list[Pane] = []
        self.late: list[LateRow] = []
        self.closings: list[Closing] = []

    def snapshot(self) -> ReferenceState:
        """The state as it stands, cut loose from the engine."""
        return copy.deepcopy(self.state)

    @classmethod
    def restore(cls, plan: Plan, state: ReferenceState) -> Reference:
        """An engine that goes on from a snapshot."""
        return cls(plan, copy.deepcopy(state))

    def judge(self, event: Event) -> None:
        """Every output judges the row by itself."""
        for index, reader in enumerate(self.readers):
            found = reader.insert(event, self.watermark, self.state.clock)
            for _, result in found:
                self.state.pairs[index][result] += 1
            self.state.worst[index][worst_of(found)] += 1
            missed = tuple(bounds for bounds, result in found if result is Verdict.REFUSED)
            if missed and self.watermark is not None:
                self.late.append(LateRow(reader.output.name, event, self.watermark, missed))
        self._gather()

    def look(self, clock: int | None = None) -> None:
        """The end of a batch: triggers that are looked at once per batch fire; the clock may have moved."""
        if clock is not None and clock > self.state.clock:
            self.state.clock = clock
        for reader in self.readers:
            reader.look(self.state.clock)
        self._gather()

    def drain(self) -> None:
        """The end of the input: every open window closes, every retained one ends."""
        self.look()
        self.frontier.drain()
        self.advance()

    def advance(self) -> None:
        """Windows close and expire."""
        for reader in self.readers:
            reader.advance(self.watermark)
        self._gather()

    def _gather(self) -> None:
        for reader in self.readers:
            self.panes += reader.panes
            self.closings += reader.closings
            reader.panes, reader.closings = [], []


def worst_of(found: Judged) -> Verdict:
    """The verdict under which a row counts as a whole.

    >>> worst_of([((0, 10), Verdict.REFUSED), ((5, 15), Verdict.ON_TIME)])
    <Verdict.REFUSED: 'refused'>
    """
    return max((result for _, result in found), key=_WORST.__getitem__)
