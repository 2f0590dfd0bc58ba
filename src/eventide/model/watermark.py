"""Watermark strategies: how an event moves its lane's promise that nothing older is to come."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar

from eventide.errors import DefinitionError, EventideError
from eventide.model.event import Event
from eventide.model.time import Duration, duration, plus, show_duration, show_instant, span


class WatermarkRegression(EventideError):
    """A punctuated or custom watermark went backwards under `on_regression="fail"`."""


class Strategy:
    """How an event moves its lane's watermark. All that others must know of a strategy it says itself: a new one is one class.

    A subclass is a frozen dataclass that gives either `says`, an expression over the row, or `behind`, the distance that it keeps
    from the largest event time; and its own words.
    """

    by_arrival: ClassVar[bool] = False
    """Whether the time of an event is the time of its arrival."""
    on_regression: str = "ignore"
    """What becomes of a watermark that goes back: it is counted, or ("fail") stops the run."""

    @property
    def marker(self) -> str | None:
        """A SQL condition: rows for which it holds say how far the stream is complete, and are no events."""
        return None

    @property
    def says(self) -> str | None:
        """A SQL expression over the event and `arrival_time`: the watermark that a row carries, or null."""
        return None

    @property
    def behind(self) -> int | None:
        """How far the watermark stays behind the largest event time; None where that is no fixed distance."""
        return None

    @property
    def expressions(self) -> tuple[str, ...]:
        """The SQL texts that it reads rows by."""
        return tuple(text for text in (self.marker, self.says) if text is not None)

    @property
    def written(self) -> str:
        """As a user writes it; different strategies are written differently."""
        raise NotImplementedError

    def candidate(self, state: LaneState, event: Event) -> int | None:
        """The watermark that an event stands for, if for any."""
        if self.says is not None:
            return event.candidate
        return None if event.event_time is None or self.behind is None else plus(event.event_time, -self.behind)

    def timed(self, event: Event) -> Event:
        """The event with the time that it is judged by."""
        return replace(event, event_time=event.arrival) if self.by_arrival and event.dead is None else event


@dataclass(frozen=True)
class Bounded(Strategy):
    """Events are at most `bound` out of order within their lane."""

    bound: int

    @property
    def behind(self) -> int:
        """The bound."""
        return self.bound

    @property
    def written(self) -> str:
        """As a user writes it."""
        return f"bounded({span(self.bound)})"

    def __str__(self) -> str:
        return f"at most {show_duration(self.bound)} out of order"


@dataclass(frozen=True)
class Ascending(Strategy):
    """Event times never go back within a lane."""

    bound: int = 0

    @property
    def behind(self) -> int:
        """Nothing."""
        return self.bound

    @property
    def written(self) -> str:
        """As a user writes it."""
        return "ascending()"

    def __str__(self) -> str:
        return "in order"


@dataclass(frozen=True)
class Punctuated(Strategy):
    """Marker records say how far the stream is complete; other rows say nothing."""

    when: str
    value: str
    on_regression: str = "ignore"

    @property
    def marker(self) -> str:
        """Rows for which `when` holds."""
        return self.when

    @property
    def says(self) -> str:
        """The value that a marker carries."""
        return self.value

    @property
    def written(self) -> str:
        """As a user writes it."""
        return f'punctuated(when="{self.when}", value="{self.value}"{_regressing(self)})'

    def __str__(self) -> str:
        return f"markers where {self.when}"


@dataclass(frozen=True)
class Custom(Strategy):
    """Any expression over the event, arrival_time included."""

    value: str
    on_regression: str = "ignore"

    @property
    def says(self) -> str:
        """The expression."""
        return self.value

    @property
    def written(self) -> str:
        """As a user writes it."""
        return f'custom("{self.value}"{_regressing(self)})'

    def __str__(self) -> str:
        return f"watermark {self.value}"


@dataclass(frozen=True)
class Adaptive(Strategy):
    """A bound that follows a quantile of the lane's own disorder, re-estimated at fixed steps of arrival time."""

    quantile: float
    floor: int
    ceiling: int
    step: int
    start: int

    @property
    def written(self) -> str:
        """As a user writes it."""
        spans = {"floor": self.floor, "ceiling": self.ceiling, "step": self.step, "start": self.start}
        return f"adaptive({self.quantile!r}, {', '.join(f'{name}={span(time)}' for name, time in spans.items())})"

    def candidate(self, state: LaneState, event: Event) -> int | None:
        """Behind the event's own time by the bound in force; the event counts for the steps after its own."""
        if event.event_time is None:
            return None
        if state.adaptive is None:
            state.adaptive = AdaptiveState(self.start)
        state.adaptive.enter(event.arrival // self.step, self)
        behind = max(0, (state.max_event_time if state.max_event_time is not None else event.event_time) - event.event_time)
        bucket = disorder_bucket(behind)
        state.adaptive.seen[bucket] = state.adaptive.seen.get(bucket, 0) + 1
        return plus(event.event_time, -state.adaptive.bound)

    def __str__(self) -> str:
        return f"adaptive to {self.quantile:.1%} of its disorder, at most {show_duration(self.ceiling)}"


@dataclass(frozen=True)
class ProcessingTime(Strategy):
    """The time of an event is the time of its arrival, which within a lane never goes back."""

    by_arrival = True

    @property
    def behind(self) -> int:
        """Nothing."""
        return 0

    @property
    def written(self) -> str:
        """As a user writes it."""
        return "processing_time()"

    def __str__(self) -> str:
        return "by arrival, not by event time"


def _regressing(strategy: Strategy) -> str:
    return "" if strategy.on_regression == "ignore" else f', on_regression="{strategy.on_regression}"'


def bounded(bound: Duration) -> Bounded:
    """The watermark stays this far behind the largest event time of the lane.

    >>> bounded("30 seconds")
    Bounded(bound=30000000)
    """
    return Bounded(duration(bound, what="bounded(...)", zero=True))


def ascending() -> Ascending:
    """The watermark is the largest event time of the lane: every step back is late at source."""
    return Ascending()


def processing_time() -> ProcessingTime:
    """Windows of arrival time: for figures about the engine, not about what happened. The source says so: event_time="arrival_time".

    >>> print(processing_time())
    by arrival, not by event time
    """
    return ProcessingTime()


def punctuated(when: str, value: str, on_regression: str = "ignore") -> Punctuated:
    """Rows for which `when` holds are markers; `value` is the watermark that they carry (both SQL expressions).

    >>> punctuated(when="kind = 'marker'", value="complete_to").on_regression
    'ignore'
    """
    _regression_choice(on_regression)
    return Punctuated(when, value, on_regression)


def custom(value: str, on_regression: str = "ignore") -> Custom:
    """The watermark is a SQL expression over the event and `arrival_time`; null says nothing."""
    _regression_choice(on_regression)
    return Custom(value, on_regression)


def adaptive(
    quantile: float = 0.99,
    *,
    floor: Duration = "0 s",
    ceiling: Duration = "10 minutes",
    step: Duration = "1 minute",
    start: Duration | None = None,
) -> Adaptive:
    """The bound that this share of a lane's rows needs, between floor and ceiling; widens at the next step, tightens slowly.

    It begins at `start`, by default the ceiling: nothing is lost before anything was measured.

    >>> adaptive(0.99, ceiling="2 minutes").start
    120000000
    """
    if not 0 < quantile < 1:
        raise DefinitionError(f"adaptive({quantile!r}): the quantile must lie between 0 and 1, as in adaptive(0.99).")
    low, high = duration(floor, what="floor", zero=True), duration(ceiling, what="ceiling")
    begin = high if start is None else duration(start, what="start", zero=True)
    if not low <= begin <= high:
        raise DefinitionError(
            f"adaptive: floor {show_duration(low)}, start {show_duration(begin)} "
            f"and ceiling {show_duration(high)} must not decrease."
        )
    return Adaptive(quantile, low, high, duration(step, what="step"), begin)


def _regression_choice(choice: str) -> None:
    if choice not in ("ignore", "fail"):
        raise DefinitionError(f'on_regression is {choice!r}; it must be "ignore" (count and log) or "fail" (stop).')


SUB_BITS = 4


def disorder_bucket(behind: int) -> int:
    """The histogram bucket of a disorder in microseconds: a sixteenth of an octave, so edges are at most 6.25% apart.

    >>> disorder_bucket(0), disorder_bucket(15), disorder_bucket(16), disorder_bucket(33)
    (0, 15, 16, 32)
    """
    if behind < 1 << SUB_BITS:
        return behind
    shift = behind.bit_length() - SUB_BITS - 1
    return (shift << SUB_BITS) + (behind >> shift)


def bucket_ceiling(bucket: int) -> int:
    """The largest disorder that falls into a bucket.

    >>> bucket_ceiling(disorder_bucket(1_000_000)) >= 1_000_000
    True
    """
    if bucket < 1 << SUB_BITS:
        return bucket
    shift = (bucket >> SUB_BITS) - 1
    return (((bucket - (shift << SUB_BITS)) + 1) << shift) - 1


@dataclass(slots=True)
class AdaptiveState:
    """What an adaptive lane remembers: its bound, the step it is in, and the disorder it has seen (decaying)."""

    bound: int
    step: int | None = None
    seen: dict[int, int] = field(default_factory=dict)
    pace: int | None = None
    """How long a step is: under another definition steps are numbered otherwise."""

    def enter(self, step: int, strategy: Adaptive) -> None:
        """Re-estimate if this arrival opens a later step; the rows of the step itself do not count yet."""
        if self.pace != strategy.step:
            self.pace, self.step = strategy.step, None
        self.bound = min(max(self.bound, strategy.floor), strategy.ceiling)
        if self.step is not None and step > self.step and self.seen:
            need = min(max(self._quantile(strategy.quantile), strategy.floor), strategy.ceiling)
            self.bound = need if need >= self.bound else self.bound - (self.bound - need + 3) // 4
            self.seen = {bucket: count // 2 for bucket, count in self.seen.items() if count > 1}
        if self.step is None or step > self.step:
            self.step = step

    def _quantile(self, share: float) -> int:
        rank, below = share * sum(self.seen.values()), 0
        for bucket in sorted(self.seen):
            below += self.seen[bucket]
            if below >= rank:
                return bucket_ceiling(bucket)
        raise AssertionError("a quantile below 1 lies in some bucket")


@dataclass(slots=True)
class LaneState:
    """What a lane remembers between events; the snapshot is this state."""

    watermark: int | None = None
    last_arrival: int | None = None
    max_event_time: int | None = None
    regressions: int = 0
    late_at_source: int = 0
    out_of_order: int = 0
    adaptive: AdaptiveState | None = None


def observe(strategy: Strategy, state: LaneState, event: Event) -> None:
    """Move a lane by one event that arrived on it: its watermark rises to the event's candidate, or stays."""
    if event.broken is not None:
        return
    candidate = strategy.candidate(state, event)
    if event.event_time is not None and not event.marker:
        _measure(state, event.event_time)
    if candidate is None:
        return
    if state.watermark is None or candidate > state.watermark:
        state.watermark = candidate
    elif candidate < state.watermark and strategy.says is not None:
        state.regressions += 1
        if strategy.on_regression == "fail":
            raise WatermarkRegression(
                f"the watermark of lane {event.lane!r} went back from {show_instant(state.watermark)} "
                f"to {show_instant(candidate)} "
                f'at offset {event.offset}. Mend the producer, or use on_regression="ignore" to keep the higher value.'
            )


def _measure(state: LaneState, event_time: int) -> None:
    if state.watermark is not None and event_time < state.watermark:
        state.late_at_source += 1
    elif state.max_event_time is not None and event_time < state.max_event_time:
        state.out_of_order += 1
    if state.max_event_time is None or event_time > state.max_event_time:
        state.max_event_time = event_time
