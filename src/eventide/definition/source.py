"""What a source is: a named stream with its own clock, declared as a plain value; nothing is opened until a run starts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

from eventide.definition.join import Join, On, Within
from eventide.definition.output import Audit
from eventide.definition.stream import Stream, Windowed
from eventide.definition.time_forms import time_form
from eventide.errors import DefinitionError
from eventide.model.graph import INNER
from eventide.model.policy import LatePolicy
from eventide.model.time import Duration, duration
from eventide.model.watermark import Strategy
from eventide.model.window import Window
from eventide.redaction import without_secrets
from eventide.sinks.base import Sink

Transform = Callable[[Any], Any]
Mapped = Callable[[Any], Any]
ARRIVAL_TIME = "arrival_time"
"""What the time of an event is called that goes by its arrival."""
UNITS = {"us": 1, "ms": 1_000, "s": 1_000_000}


@without_secrets
@dataclass(frozen=True, kw_only=True)
class Source:
    """A stream of events. Every kind of source adds where its rows come from."""

    name: str
    event_time: str
    watermark: Strategy
    idle_after: int | None = None
    arrival: str | None = None
    """The column that says when a row arrived; without one the source's own time is taken."""
    time_unit: str = "us"
    """The unit of event_time and arrival columns that are whole numbers instead of timestamps."""
    time_zone: str = "UTC"
    """The zone of timestamps that name none: texts, and timestamps that are not adjusted to UTC."""
    time_format: str | None = None
    """The form of texts that say times, as strftime has it; without one they are ISO 8601."""
    max_ahead: int | None = 86_400_000_000
    """An event time further than this after its arrival is absurd: a dead letter, never a jump of the watermark."""
    max_skew: int | None = 60_000_000
    """An arrival further than this after the batch's clock is lowered to it, and counted; None: every arrival is believed."""
    transforms: tuple[Transform, ...] = field(default=(), repr=False)
    maps: tuple[Mapped, ...] = field(default=(), repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise DefinitionError(f'a source\'s name is {self.name!r}; give it a word, such as "payments".')
        if not isinstance(self.event_time, str) or not self.event_time:
            raise DefinitionError(
                f"source {self.name!r}: event_time is {self.event_time!r}; name the column that says when it happened."
            )
        if not isinstance(self.watermark, Strategy):
            raise DefinitionError(
                f'source {self.name!r}: watermark is {self.watermark!r}; use bounded("30 seconds"), ascending(), punctuated(...), '
                "custom(...) or adaptive(...)."
            )
        if self.watermark.by_arrival and self.event_time != ARRIVAL_TIME:
            raise DefinitionError(
                f"source {self.name!r}: event_time is {self.event_time!r}, but {self.watermark.written} puts rows into windows by when they "
                f'arrived. Say so, event_time="{ARRIVAL_TIME}", or give a watermark of event time, such as bounded("30 seconds").'
            )
        if self.time_unit not in UNITS:
            raise DefinitionError(
                f"source {self.name!r}: time_unit is {self.time_unit!r}; it must be one of {', '.join(UNITS)}."
            )
        self._check_texts()

    def _check_texts(self) -> None:
        from zoneinfo import ZoneInfo

        try:
            ZoneInfo(self.time_zone)
        except (ValueError, LookupError, TypeError, OSError):
            raise DefinitionError(
                f'source {self.name!r}: time_zone is {self.time_zone!r}; give the name of a zone, such as "Asia/Kolkata".'
            ) from None
        form = self.time_format
        if form is not None and not (isinstance(form, str) and "%" in form):
            raise DefinitionError(
                f'source {self.name!r}: time_format is {form!r}; give the form of the texts, such as "%d/%m/%Y %H:%M:%S".'
            )
        try:
            if form is not None:
                time_form(form)
        except ValueError as error:
            raise DefinitionError(f"source {self.name!r}: time_format is {form!r}: {error}.") from None

    @property
    def columns(self) -> tuple[str, ...] | None:
        """The names of its columns, where they are known before anything is read."""
        return None

    @property
    def column_types(self) -> dict[str, str]:
        """The types of columns, as Spark names them, where they are known before anything is read."""
        return {}

    @property
    def needs(self) -> tuple[str, ...]:
        """The connectors that Spark needs for it, by name."""
        return ()

    def transform(self, change: Transform) -> Self:
        """A DataFrame transformation of its rows: filters and derived columns.

        The rows that it drops are not counted as lost: they are no events of this source.
        """
        return replace(self, transforms=(*self.transforms, change))

    def map(self, change: Mapped) -> Self:
        """A Polars function of its rows, called with each chunk of them where it is read.

        It must give a row for each row, in order; it may add, replace and drop columns, but not those that begin with two
        underscores. Cheaper than `transform`, because the rows need not go through Spark for it.
        """
        return replace(self, maps=(*self.maps, change))

    def window(self, window: Window, by: str | tuple[str, ...] | list[str] = ()) -> Windowed:
        """Cut its events into event-time windows, for each key."""
        return self._stream().window(window, by)

    def dedupe(self, *keys: str, within: Duration) -> Stream:
        """Keep the first of equal events, by arrival, within a span of event time."""
        return self._stream().dedupe(*keys, within=within)

    def join(
        self,
        other: Source | Stream,
        *,
        on: On,
        within: Within,
        late: LatePolicy,
        how: str = INNER,
        prefix: Sequence[str] = ("", ""),
        self_pairs: bool | None = None,
    ) -> Join:
        """Pair its rows with those of another stream; see `Stream.join`."""
        return self._stream().join(other, on=on, within=within, late=late, how=how, prefix=prefix, self_pairs=self_pairs)

    def to(self, name: str, sink: Sink | None = None) -> Audit:
        """Its events themselves as an output of the pipeline that reads them: each that is judged, once, whatever the verdicts."""
        return self._stream().to(name, sink)

    def _stream(self) -> Stream:
        return Stream((self,))

    def __str__(self) -> str:
        return f"{self.name} (event time {self.event_time}, {self.watermark})"


def idle(name: str, idle_after: Duration | None) -> int | None:
    """A declared idle_after in microseconds."""
    return None if idle_after is None else duration(idle_after, what=f"source {name!r}: idle_after")


def ahead(name: str, max_ahead: Duration | None) -> int | None:
    """A declared max_ahead in microseconds."""
    return None if max_ahead is None else duration(max_ahead, what=f"source {name!r}: max_ahead")


def skew(name: str, max_skew: Duration | None) -> int | None:
    """A declared max_skew in microseconds."""
    return None if max_skew is None else duration(max_skew, what=f"source {name!r}: max_skew", zero=True)
