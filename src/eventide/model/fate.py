"""What becomes of one row, and why: how W stood at its position, its verdicts, and the least setting that would have let it in."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from eventide.model.course import Heard, Stood, least, stood_before
from eventide.model.event import Event, Position
from eventide.model.intake import is_first
from eventide.model.lateness import Verdict
from eventide.model.plan import OutputPlan, Plan, SourcePlan
from eventide.model.reader import Judged, Reader
from eventide.model.reference import worst_of
from eventide.model.time import plus
from eventide.model.window import Session, Window


@dataclass(frozen=True)
class Asked:
    """One reading of the row: an output's windows, by way of the results that they are made of, if they are."""

    name: str
    window: Window
    allowed: int
    below: tuple[tuple[Window, int], ...] = ()
    """The windows of the stages below and the lateness with which each is read, the one over the stream first."""


@dataclass(frozen=True)
class Remedy:
    """The least setting of each kind that, changed alone, would have let the row in everywhere; None: none would."""

    allowed: int
    bound: int | None = None
    """Of its source, where that has a bound."""
    idle_after: int | None = None
    """Of its source, where its lanes fall idle."""


@dataclass(frozen=True)
class Case:
    """All that the fate of one row hangs on."""

    sources: tuple[SourcePlan, ...]
    heard: Sequence[Heard]
    """What moved the lanes before it, in order."""
    row: Event
    before: Sequence[Event] = ()
    """Rows before it, in order: all that could be the same, and for sessions all of its key, with all that could be the same as those."""
    dedupe_within: int | None = None
    when_all_idle: str = "hold"

    @cached_property
    def stood(self) -> Stood:
        """How W stood before it."""
        return self._stood({})[self.row.position]

    @property
    def duplicate_of(self) -> Position | None:
        """The row that came before it and is the same."""
        if self._copies(self._stood({})).isdisjoint({self.row.position}):
            return None
        time, within = self.row.event_time or 0, self.dedupe_within or 0
        equal = [e for e in self.before if e.dedupe_key == self.row.dedupe_key and abs((e.event_time or 0) - time) < within]
        return next(e.position for e in reversed(equal) if e.position not in self._copies(self._stood({})))

    def all_judged(self, asked: Asked) -> dict[Position, Judged]:
        """The same of it and of every row before it that is no duplicate and has its key."""
        return self._all_judged(asked, self._stood({}))

    def judged(self, asked: Asked) -> Judged:
        """Each window of an output that it meets, and the verdict."""
        return self._judged(asked, self._stood({}))

    def remedy(self, asked: Asked) -> Remedy:
        """What would have let in a row that an output refuses."""
        return Remedy(self._least_allowed(asked), self._least_bound(asked), self._least_idleness(asked))

    def _least_allowed(self, asked: Asked) -> int:
        def lets_in(allowed: int) -> bool:
            return self._lets_in(replace(asked, allowed=allowed, below=tuple((w, max(a, allowed)) for w, a in asked.below)), {})

        watermark, time = self.stood.watermark, self.row.event_time
        assert watermark is not None and time is not None, "nothing is refused before W is known"
        found = least(asked.allowed, max(asked.allowed, plus(watermark, 1 - time)), lets_in)
        assert found is not None, "no row lies further behind W than its own event time"
        return found

    def _least_bound(self, asked: Asked) -> int | None:
        bound = self.sources[self.row.source].strategy.behind
        said = [h.watermark for h in self.heard if h.position[1] == self.row.source and h.watermark is not None]
        if bound is None or not said or self.row.event_time is None:
            return None
        furthest = plus(max(said), self._passed)  # W may also have grown by the clock, for as long as all lanes were idle
        more = least(1, max(1, plus(furthest, 1 - self.row.event_time)), lambda by: self._lets_in(asked, {"lower": by}))
        return None if more is None else bound + more

    def _least_idleness(self, asked: Asked) -> int | None:
        now = self.sources[self.row.source].idle_after
        if now is None or not self.heard:
            return None
        return least(now + 1, max(now + 1, self._passed), lambda span: self._lets_in(asked, {"idle_after": span}))

    @property
    def _passed(self) -> int:
        """From the first row that was heard until it came: no silence lasted longer."""
        return plus(self.row.arrival, 1 - self.heard[0].position[0])

    def _lets_in(self, asked: Asked, changed: dict[str, int]) -> bool:
        stood = self._stood(changed)
        found = self._judged(asked, stood)
        return bool(found) and worst_of(found) is not Verdict.REFUSED

    def _stood(self, changed: dict[str, int]) -> dict[Position, Stood]:
        """How things stood before each of the rows, had the row's source been declared with another bound or idle_after."""
        positions = sorted({e.position for e in (*self.before, self.row)})
        own, lower = self.row.source, changed.get("lower", 0)
        heard = self.heard if not lower else [_lowered(h, lower) if h.position[1] == own else h for h in self.heard]
        timings = [source.timing for source in self.sources]
        if "idle_after" in changed:
            timings[own] = replace(timings[own], idle_after=changed["idle_after"])
        return dict(zip(positions, stood_before(positions, heard, timings, self.when_all_idle), strict=True))

    def _copies(self, stood: dict[Position, Stood]) -> set[Position]:
        """Which of the rows are duplicates."""
        within, kept = self.dedupe_within, dict[Hashable, list[int]]()
        if within is None:
            return set()
        return {
            event.position
            for event in (*self.before, self.row)
            if not is_first(_time(event), kept.setdefault(event.dedupe_key, []), stood[event.position].watermark, within)
        }

    def _judged(self, asked: Asked, stood: dict[Position, Stood]) -> Judged:
        """What each window says to the row; nothing if it is a duplicate."""
        return self._all_judged(asked, stood).get(self.row.position, [])

    def _all_judged(self, asked: Asked, stood: dict[Position, Stood]) -> dict[Position, Judged]:
        (window, allowed), *rest = [*asked.below, (asked.window, asked.allowed)]
        reader = Reader(Plan(self.sources, window, (), ()), OutputPlan(asked.name, allowed))
        copies, found = self._copies(stood), dict[Position, Judged]()
        for event in (*self.before, self.row):
            if event.key == self.row.key and event.position not in copies:
                watermark = stood[event.position].watermark
                met = reader.insert(event, watermark, 0)
                ways = {way for bounds, _ in met for way in _ways(bounds[1], plus(bounds[1], allowed), rest, watermark)}
                found[event.position] = sorted(ways) if rest else met
        return found


def _time(event: Event) -> int:
    assert event.event_time is not None, "a row without an event time is a dead letter"
    return event.event_time


def _ways(end: int, limit: int, rest: Sequence[tuple[Window, int]], watermark: int | None) -> Judged:
    """The windows above a result that ends there, and the verdict on a row that comes by way of it: W must lie below every end on the way."""
    if not rest:
        return []
    (window, allowed), *further = rest
    assert not isinstance(window, Session), "session windows over results are refused at definition"
    bounds = window.assign(end - 1)
    if further:
        return [way for _, e in bounds for way in _ways(e, min(limit, plus(e, allowed)), further, watermark)]
    return [(one, _verdict(watermark, min(limit, one[1]), min(limit, plus(one[1], allowed)))) for one in bounds]


def _verdict(watermark: int | None, open_until: int, kept_until: int) -> Verdict:
    if watermark is None or watermark < open_until:
        return Verdict.ON_TIME
    return Verdict.ADMITTED if watermark < kept_until else Verdict.REFUSED


def _lowered(heard: Heard, by: int) -> Heard:
    return heard if heard.watermark is None else replace(heard, watermark=plus(heard.watermark, -by))


__all__ = ["Asked", "Case", "Remedy"]
