"""What history recommends: a bound, an allowed lateness and an idle_after, each with its cost and the reason for it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import datasketches as ds
import numpy as np
import polars as pl

from eventide.definition.pipeline import Pipeline
from eventide.errors import DefinitionError
from eventide.model.event import LaneId
from eventide.model.time import show_duration
from eventide.model.window import Session, Sliding
from eventide.notebook import paragraph, shown, table, written
from eventide.tuning.advice import advice
from eventide.tuning.curve import ALWAYS, Curve
from eventide.tuning.job import Answer

QUANTILES = (0.5, 0.95, 0.99, 0.999)

SHARES = (0.5, 0.9, 0.95, 0.99, 0.995, 0.999, 1.0)
"""Of rows on time: those that a curve is read at, unless somebody asks for others."""


@dataclass(frozen=True)
class Point:
    """One choice of bound and allowed lateness, and what it costs."""

    bound: int
    allowed: int
    rows: int
    on_time: int
    admitted: int
    refused: int
    emit_latency: float
    """How far the newest event time had gone past a window's end when its first result came, on average."""
    wait: float
    """The same by the clock of arrivals."""
    windows: int
    """Windows that closed within history."""
    state: float
    """How much state is kept, as a factor of what open windows need."""

    @property
    def completeness(self) -> float:
        """The share that is in a result in the end."""
        return (self.on_time + self.admitted) / self.rows if self.rows else 1.0

    @property
    def re_emissions(self) -> int:
        """At most so many corrected results: one for each admitted row and window; batches that bring several merge them."""
        return self.admitted


@dataclass(frozen=True)
class LaneReport:
    """One lane: how late it is, how much of the loss is its own, and what only its mending would buy."""

    lane: LaneId
    rows: int
    out_of_order: int
    dead: int
    quantiles: tuple[float, ...]
    """Of arrival minus event time, at 50, 95, 99 and 99.9%, and the largest."""
    curve: Curve
    own: Curve
    late: int
    late_share: float
    holds: float
    """The share of W's steps that waited for this lane."""
    bound_without: int
    """The bound that reaches the target if this lane had no late row."""


@dataclass(frozen=True)
class IdleReport:
    """What silences were seen, and what a given idle_after would have done with them."""

    longest: int
    p999: int
    idle_after: int | None
    fallen: int
    """How many silences were longer than the idle_after in use."""


@dataclass
class Tuning:
    """The whole answer of `eventide tune`."""

    answer: Answer
    targets: tuple[float, float] = (0.99, 0.999)
    names: Sequence[str] = field(default_factory=lambda: ["source"])
    pipeline: Pipeline | None = None
    """Whose policies the recommendation is for, if it is for a pipeline's."""
    output: str | None = None
    """Whose windows were asked for, where the outputs of the pipeline have different ones."""

    def __post_init__(self) -> None:
        facts, judged, grid = self.answer.facts, self.answer.judged, self.answer.question.resolution
        self.curves = {}
        for lane, fact in facts.items():
            counts = Counter({ALWAYS: fact.always})
            for (whose, _), needs in judged.needs.items():
                counts.update(needs if whose == lane else {})
            self.curves[lane] = Curve.of(grid, counts)
        self.curve = Curve.total(self.curves.values())
        self._needs = self._least_needs()

    def _least_needs(self) -> dict[int, int]:
        """For each window, the bound from which on it has a first result at all."""
        found = dict(self.answer.judged.windows)
        window = self.answer.question.window
        slide, size = (window.slide, window.size) if isinstance(window, Sliding) else (1, 1)
        for fact in self.answer.facts.values():
            for first in fact.ends:
                for end in range(first, first + size, slide):
                    found[end] = ALWAYS
        return found

    @property
    def bound(self) -> int:
        """The least bound that reaches the first target."""
        return self.curve.least_bound(self.targets[0])

    @property
    def allowed(self) -> int:
        """The allowed lateness that with this bound reaches the second target."""
        return max(0, self.curve.least_bound(self.targets[1]) - self.bound)

    def point(self, bound: int, allowed: int = 0) -> Point:
        """What a choice gives and costs."""
        grid = self.answer.question.resolution
        if bound % grid or allowed % grid:
            raise DefinitionError(
                f"{show_duration(bound)} and {show_duration(allowed)} are not both multiples of the curve's resolution, "
                f"{show_duration(grid)}. Ask with --resolution, or for other bounds."
            )
        latency, wait, windows = self._latency(bound, self.answer.steps)
        on_time, admitted = self.curve.on_time(bound), self.curve.admitted(bound, allowed)
        return Point(
            bound, allowed, self.curve.rows, on_time, admitted, self.curve.rows - on_time - admitted, latency, wait, windows,
            self._state(allowed),
        )  # fmt: skip

    def _state(self, allowed: int) -> float:
        window = self.answer.question.window
        return 1 + allowed / (window.gap if isinstance(window, Session) else window.size)

    def _latency(self, bound: int, steps: pl.DataFrame) -> tuple[float, float, int]:
        ends = np.array(sorted(end for end, need in self._needs.items() if need < bound or need == ALWAYS), dtype=np.int64)
        if steps.is_empty() or not len(ends):
            return 0.0, 0.0, 0
        at = np.searchsorted(steps["mark"].to_numpy(), ends + bound, side="left")
        closed = at < len(steps)
        ends, at = ends[closed], at[closed]
        if not len(ends):
            return 0.0, 0.0, 0
        newest, arrival = steps["newest"].to_numpy()[at], steps["arrival"].to_numpy()[at]
        return float((newest - ends).mean()), float((arrival - ends).mean()), len(ends)

    def causes(self, bound: int) -> dict[str, int]:
        """Why pairs of row and window are late under a bound."""
        found: Counter[str] = Counter()
        for (_, cause), needs in self.answer.judged.needs.items():
            found[cause] += sum(number for need, number in needs.items() if need >= bound)
        return dict(found)

    def latency_without_holder(self, bound: int) -> float:
        """The emit latency if the lane that holds W most often held it no more."""
        return self._latency(bound, self.answer.freed)[0]

    def within(self, budget: int, share: float, bounds: Sequence[int] | None = None) -> Point | None:
        """The least bound of some that keeps a latency budget and a share of rows in time; none if there is no such bound."""
        tried = bounds if bounds is not None else [bound for bound, _ in self.curve.points()]
        points = [self.point(bound) for bound in tried if self.curve.completeness(bound) >= share]
        return next((p for p in sorted(points, key=lambda p: p.bound) if p.emit_latency <= budget), None)

    def largest_within(self, budget: int) -> Point | None:
        """The most complete bound whose results come within a budget; none if even no bound at all is too slow."""
        kept = [p for p in (self.point(bound) for bound, _ in self.curve.points()) if p.windows and p.emit_latency <= budget]
        return max(kept, key=lambda p: p.bound, default=None)

    def lanes(self, bound: int | None = None) -> list[LaneReport]:
        """Every lane, the one that loses most first."""
        bound = self.bound if bound is None else bound
        lost = self.curve.refused(bound)
        moves = max(1, len(self.answer.steps))
        found = []
        for lane, fact in self.answer.facts.items():
            rest = Curve.total(c for other, c in self.curves.items() if other != lane)
            spared = dict(zip(rest.needs, rest.numbers, strict=True))
            spared[ALWAYS] = spared.get(ALWAYS, 0) + self.curves[lane].rows
            held = self.answer.steps.filter((pl.col("source") == lane[0]) & (pl.col("lane") == lane[1]))
            late = self.curves[lane].refused(bound)
            found.append(
                LaneReport(
                    lane,
                    fact.rows,
                    fact.out_of_order,
                    fact.dead,
                    quantiles_of(fact.lateness),
                    self.curves[lane],
                    Curve.of(self.curve.resolution, fact.own),
                    late,
                    late / lost if lost else 0.0,
                    len(held) / moves,
                    Curve.of(self.curve.resolution, spared).least_bound(self.targets[0]),
                )
            )
        return sorted(found, key=lambda report: (-report.late, report.lane))

    def idle(self) -> list[tuple[str, IdleReport]]:
        """For each source, its silences against the idle_after in use."""
        found = []
        for index, idle_after in enumerate(self.answer.question.idle_after):
            gaps = [f.gaps for lane, f in self.answer.facts.items() if lane[0] == index]
            longest = max((g.longest for g in gaps), default=0)
            fallen = sum(g.fallen for g in gaps)
            p999 = max((g.quantile(0.999) for g in gaps), default=0)
            found.append((self.names[index], IdleReport(longest, p999, idle_after, fallen)))
        return found

    def lines(self) -> list[str]:
        """The recommendation as it is written in a pipeline."""
        return advice(self)

    def usual_bounds(self) -> list[int]:
        """The bounds that reach the usual shares, beginning with none."""
        return sorted({0, self.bound, *map(self.curve.least_bound, SHARES)})

    def usual_allowances(self) -> list[int]:
        """Allowed latenesses that with the recommended bound reach the usual shares."""
        return sorted({0, self.allowed, *(max(0, self.curve.least_bound(share) - self.bound) for share in SHARES)})

    def _repr_html_(self) -> str:
        """As notebooks show it: what waiting buys, and what to paste."""
        points = [(bound, self.point(bound)) for bound in self.usual_bounds()]
        curve = [(show_duration(bound), one.on_time, one.refused, f"{one.completeness:.2%}") for bound, one in points]
        return shown(
            "What waiting buys",
            table(["behind by", "on time", "too late", "complete"], curve),
            paragraph("Recommended; paste into the pipeline:"),
            written("\n".join(self.lines())),
        )


def quantiles_of(sketch: bytes) -> tuple[float, ...]:
    """Percentiles 50, 95, 99 and 99.9 and the largest value of a sketch."""
    kll = ds.kll_doubles_sketch.deserialize(sketch)
    if kll.is_empty():
        return ()
    return (*(float(q) for q in kll.get_quantiles(list(QUANTILES))), float(kll.get_max_value()))
