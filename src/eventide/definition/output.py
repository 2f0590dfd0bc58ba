"""An output as a plain value, checked where it is written: one reading of an aggregation, with its own late policy, triggers and sink."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from eventide.errors import DefinitionError, LossWarning
from eventide.model.aggregate import ADDITIVE
from eventide.model.expression import expression, known
from eventide.model.policy import ACCUMULATIONS, DISCARDING, RETRACTING, LatePolicy
from eventide.model.time import show_duration
from eventide.model.trigger import (
    After,
    AtExpiry,
    EarlyTrigger,
    Every,
    EveryRows,
    LateTrigger,
    PerBatch,
    PerRow,
    When,
)
from eventide.model.view import WHOLE, View, Where
from eventide.model.window import Session, Sliding
from eventide.redaction import warn_of
from eventide.sinks.base import Sink

if TYPE_CHECKING:
    from eventide.definition.join import Join
    from eventide.definition.stream import Aggregation, Stream


@dataclass(frozen=True)
class Audit:
    """The stream itself as an output: every event that is judged, once, as a row with its place."""

    name: str
    stream: Stream
    sink: Sink | None

    def __post_init__(self) -> None:
        check_name(self.name)
        require_rows(self.name, "events go", self.sink)


def late_log(output: str) -> str:
    """What the rows that an output refuses are called in a sink."""
    return f"{output}_late"


def dead_letter_log(pipeline: str) -> str:
    """What a pipeline's dead letters are called in a sink."""
    return f"{pipeline}_dead_letters"


def require_rows(output: str, what: str, sink: Sink | None) -> None:
    """Refuse a sink that keeps results only for what comes as rows."""
    if sink is not None and not sink.capabilities.append:
        raise DefinitionError(
            f"output {output!r}: {what} to {type(sink).__name__}, which cannot hold rows. Use parquet(…), kafka_topic(…) or a SQL sink."
        )


def check_name(name: str) -> None:
    """Refuse a name that could not be one of a directory."""
    if not name or "/" in name or name.startswith("."):
        raise DefinitionError(f'an output is called {name!r}; give it a name without slashes, such as "dashboard".')


@dataclass(frozen=True)
class Output:
    """One reading of the aggregation, with its own late policy, triggers and sink."""

    name: str
    aggregation: Aggregation | Join
    """What it reads: results of windows, or the pairs of a join."""
    sink: Sink | None
    late: LatePolicy
    early: EarlyTrigger | None
    late_firing: LateTrigger
    accumulation: str
    view: View = WHOLE
    """Which results it gives, and what of them."""

    @property
    def values(self) -> tuple[str, ...]:
        """The columns that it gives beside keys and bounds."""
        names = [name for name, _ in self.aggregation.aggregates]
        return self.view.names(self.aggregation.keys, names, f"output {self.name!r}")

    def check(self) -> None:
        """Refuse what contradicts itself; warn of what loses rows, naming the loss."""
        check_name(self.name)
        if not isinstance(self.late, LatePolicy):
            raise DefinitionError(
                f"output {self.name!r}: late={self.late!r}; use drop(), accumulate(…), retract(…) or divert(…)."
            )
        if self.early is not None and not isinstance(self.early, Every | After | EveryRows | When):
            raise DefinitionError(
                f"output {self.name!r}: early={self.early!r}; use every(…), after(…), every_rows(…) or when(…)."
            )
        if not isinstance(self.late_firing, PerBatch | PerRow | EveryRows | Every | After | AtExpiry):
            raise DefinitionError(
                f"output {self.name!r}: late_firing={self.late_firing!r}; use per_batch(), per_row() or every_rows(…)."
            )
        if self.aggregation.pairs is not None and self.late.refused is not None:
            raise DefinitionError(
                f"output {self.name!r}: late={self.late}: pairs that windows refuse are counted, and not kept yet, because many may stand at one place. "
                "Allow as much lateness as the join, and none is refused; the join itself keeps the rows that it refuses."
            )
        if self.aggregation.over is not None:
            self._check_stage()
        if isinstance(self.early, When):
            names = [name for name, _ in self.aggregation.aggregates]
            known(expression(self.early.condition), names, f"output {self.name!r}: early=when(…)")
        self._check_accumulation()
        self._check_sink()
        self._warn_of_state()

    def _check_stage(self) -> None:
        """What outputs of stages cannot do: say every source row's own correction, and keep the rows that they refuse."""
        if self.late.refused is not None:
            raise DefinitionError(
                f"output {self.name!r}: late={self.late}: a stage counts the rows that come too late for it, and does not keep them yet. Allow at "
                "least as much as results(late=…) below, and it refuses none; the aggregation over the stream keeps those that it refuses."
            )
        if isinstance(self.late_firing, PerRow):
            raise DefinitionError(
                f"output {self.name!r}: late_firing=per_row(): corrections of a stage are told together, batch by batch. Use per_batch(), "
                "every_rows(…), every(…), after(…) or at_expiry(); the last correction is the same."
            )

    def _check_accumulation(self) -> None:
        if self.accumulation not in ACCUMULATIONS:
            raise DefinitionError(
                f"output {self.name!r}: accumulation={self.accumulation!r}; use one of {', '.join(ACCUMULATIONS)}."
            )
        if self.accumulation != DISCARDING:
            return
        if self.late.retracts:
            raise DefinitionError(
                f"output {self.name!r}: retract(…) withdraws totals, but a discarding output never states one. Use accumulate(…)."
            )
        if self.view != WHOLE:
            raise DefinitionError(
                f"output {self.name!r}: where(…) and select(…) look at totals, but a discarding output never states one. Use accumulate(…) "
                "or retract(…), without discarding."
            )
        over = self.aggregation.over
        if over is not None and over.late.allowed:
            raise DefinitionError(
                f"output {self.name!r}: the results that it adds up can change for {show_duration(over.late.allowed)}, and a delta that was handed "
                "on cannot. Use accumulate(…) without discarding, or read the results with late=drop()."
            )
        for name, what in self.aggregation.aggregates:
            if what.kind not in ADDITIVE:
                raise DefinitionError(
                    f"output {self.name!r}: deltas of {what.kind} ({name!r}) do not add up, so no reader could put them together. "
                    f"A discarding output may carry {', '.join(sorted(ADDITIVE))}."
                )

    def _check_sink(self) -> None:
        able = getattr(self.sink, "capabilities", None)
        if self.sink is None or able is None:
            return
        holds_back = any(isinstance(step, Where) for step in self.view.steps)
        moves = (
            self.accumulation == RETRACTING
            or holds_back
            or (self.aggregation.over is not None and self.aggregation.over.late.allowed > 0)
            or (isinstance(self.aggregation.window, Session) and self.accumulation != DISCARDING)
        )
        if moves and not able.retract:
            warn_of(
                f"output {self.name!r}: results are withdrawn, but {type(self.sink).__name__} cannot take a retraction: withdrawn results "
                "would stand there for ever. Use a sink with upserts (sqlite, postgres, …), or accumulate(…) over fixed windows "
                "without where(…).",
                LossWarning,
            )
        if self.late.refused is not None:
            require_rows(self.name, "late rows are diverted", self.late.refused.to)

    def _warn_of_state(self) -> None:
        window = self.aggregation.window
        if isinstance(window, Sliding) and self.late.allowed:
            factor = 1 + self.late.allowed / window.size
            if factor >= 10:
                warn_of(
                    f"output {self.name!r}: an allowed lateness of {show_duration(self.late.allowed)} on windows of "
                    f"{show_duration(window.size)} keeps {factor:.0f} times the state. `eventide tune` shows what less would cost.",
                    LossWarning,
                )
