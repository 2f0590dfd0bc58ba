"""Streams, windows and aggregations as plain values, checked where they are written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from eventide.definition.join import Join, On, Within, joined
from eventide.definition.output import Audit, Output
from eventide.definition.stages import check_stage
from eventide.errors import DefinitionError
from eventide.kernel.kinds import is_computed
from eventide.model.aggregate import Aggregate
from eventide.model.expression import Expression
from eventide.model.graph import INNER
from eventide.model.policy import ACCUMULATING, RETRACTING, LatePolicy
from eventide.model.time import Duration, duration
from eventide.model.trigger import PER_BATCH, EarlyTrigger, LateTrigger
from eventide.model.view import WHOLE, View
from eventide.model.window import Session, Sliding, Window
from eventide.sinks.base import Sink

if TYPE_CHECKING:
    from eventide.definition.source import Source

OURS = "__"


@dataclass(frozen=True)
class Stream:
    """One or more sources as one stream; each keeps its own clock, and the slowest holds W."""

    sources: tuple[Source, ...]
    dedupe_keys: tuple[str, ...] = ()
    dedupe_within: int | None = None

    def __post_init__(self) -> None:
        names = [source.name for source in self.sources]
        for name in names:
            if names.count(name) > 1:
                raise DefinitionError(f"two sources are called {name!r}; give each its own name.")

    def dedupe(self, *keys: str, within: Duration) -> Stream:
        """Keep the first of equal events, by arrival, within a span of event time."""
        if not keys:
            raise DefinitionError(
                'dedupe() names no column; say which columns make two events the same, as in dedupe("txn_id", …).'
            )
        self.refuse_unknown(keys, "dedupe")
        return replace(self, dedupe_keys=keys, dedupe_within=duration(within, what="dedupe(within=…)"))

    def window(self, window: Window, by: str | tuple[str, ...] | list[str] = ()) -> Windowed:
        """Cut the events into windows, for each key; without a key there is one result for each window."""
        if not isinstance(window, Sliding | Session):
            raise DefinitionError(f'window({window!r}): use tumbling("1 minute"), sliding(…) or session(…).')
        keys = (by,) if isinstance(by, str) else tuple(by)
        self.refuse_unknown(keys, "by")
        return Windowed(self, window, keys)

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
        """Pair its rows, the left, with those of another stream, the right: equal keys (null equals nothing), times near enough.

        `within` says how far after the left row's time the right one's may lie, least and most, both included; `"-5 minutes"` is before it.
        Or it is `tumbling(…)`: then both rows must be in the same window. `how` says whose rows are shown without a match, once none can
        come in time: nobody's (`"inner"`), those of the `"left"`, the `"right"`, or of both (`"full"`). If a late row matches one of those
        after all, what stood is withdrawn. `late` is for rows of both sides.

        A column that both sides have needs a prefix, but for a key of one name.

        >>> import eventide as ev
        >>> orders = ev.files("orders", "orders/", schema="order_id string, at timestamp", event_time="at", watermark=ev.bounded("5 s"))
        >>> payments = ev.files("payments", "pay/", schema="order_id string, at timestamp", event_time="at", watermark=ev.bounded("5 s"))
        >>> paid = orders.join(payments, on="order_id", within=("0 s", "10 minutes"), how="left", late=ev.accumulate("5 minutes"),
        ...                    prefix=("order_", "payment_"))
        >>> print(paid)
        left join of orders with payments on order_id
        """
        right = other if isinstance(other, Stream) else Stream((other,))
        return joined(self, right, on, within, how, late, prefix, self_pairs)

    def over_pairs(self, join: Join, window: Window, by: str | Sequence[str]) -> Windowed:
        """Windows over the pairs of a join of which it is the left side; see `Join.window`."""
        keys = (by,) if isinstance(by, str) else tuple(by)
        join.refuse_unknown(keys, "by")
        return replace(join.stream.window(window), keys=keys, pairs=join)

    def to(self, name: str, sink: Sink | None = None) -> Audit:
        """The events themselves as an output of the pipeline that reads them: each that is judged, once, whatever the verdicts.

        With the late rows that outputs divert and the dead letters it is the whole input; duplicates and markers are only counted.
        """
        return Audit(name, self, sink)

    def refuse_unknown(self, columns: tuple[str, ...], where: str) -> None:
        """Refuse columns that a source is known not to have, and names that are kept for ours."""
        for source in self.sources:
            for column in columns:
                if source.columns is not None and not (source.transforms or source.maps) and column not in source.columns:
                    raise DefinitionError(
                        f"{where}: source {source.name!r} has no column {column!r}. Its columns are {', '.join(source.columns)}."
                    )
        for column in columns:
            if column.startswith(OURS):
                raise DefinitionError(
                    f"{where}: the column {column!r} begins with two underscores, which Eventide keeps for itself."
                )


@dataclass(frozen=True)
class Windowed:
    """A stream cut into windows, waiting for its aggregates."""

    stream: Stream
    window: Window
    keys: tuple[str, ...]
    pairs: Join | None = None
    """The join whose pairs are its rows, instead of the stream's events."""
    over: Results | None = None
    """The results that are its rows, where it is a stage over another aggregation of the stream."""

    def agg(self, **aggregates: Aggregate) -> Aggregation:
        """What to compute over each window and key."""
        if not aggregates:
            raise DefinitionError("agg() computes nothing; name at least one aggregate, as in agg(n=count()).")
        for name, what in aggregates.items():
            if not isinstance(what, Aggregate):
                raise DefinitionError(f'agg({name}={what!r}): give an aggregate, such as sum("amount") or count().')
            if not is_computed(what.kind):
                raise DefinitionError(
                    f"agg({name}=…): there is no aggregate {what.kind!r}; docs/guide.md has those that there are."
                )
            if name in self.keys:
                raise DefinitionError(f"agg({name}=…): {name!r} is already a key; give the aggregate another name.")
            if self.over is None:
                (self.pairs or self.stream).refuse_unknown(what.columns, f"agg({name}=…)")
        made = Aggregation(self.stream, self.window, self.keys, tuple(aggregates.items()), self.pairs, self.over)
        if self.over is not None:
            check_stage(made)
        return made


class Readable:
    """What outputs read: results, whole or under a view."""

    def _read(self) -> tuple[Aggregation, View]:
        raise NotImplementedError

    def where(self, condition: str | Expression) -> Shown:
        """Only results for which a condition holds; one for which it no longer holds is withdrawn, also by late data.

        The condition is SQL, or an expression, over keys, aggregates, `window_start` and `window_end` (in microseconds); null is no.

        >>> import eventide as ev
        >>> passes = ev.files("radar", "in/", schema="ts timestamp, object string, m double", event_time="ts", watermark=ev.bounded("5 s"))
        >>> risk = passes.window(ev.tumbling("30 seconds"), by="object").agg(closest=ev.min("m"))
        >>> alerts = risk.where("closest < 1000").select(km="closest / 1000")
        >>> alerts == risk.where(ev.col("closest") < 1000).select(km=ev.col("closest") / 1000)
        True
        """
        aggregation, view = self._read()
        return Shown(aggregation, view.where(condition))

    def select(self, **columns: str | Expression) -> Shown:
        """These columns instead of the aggregates, each computed of a result; keys and bounds stay. A division by zero is null."""
        aggregation, view = self._read()
        return Shown(aggregation, view.select(**columns))

    def results(self, *, late: LatePolicy) -> Results:
        """The standing results as rows of a next stage, which windows may be cut of again: a late row corrects all of them.

        `late` says how late rows may come here and still reach that stage; what it allows itself, its outputs say.

        >>> import eventide as ev
        >>> bids = ev.files("bids", "in/", schema="ts timestamp, item string", event_time="ts", watermark=ev.bounded("5 s"))
        >>> minutes = bids.window(ev.tumbling("1 minute"), by="item").agg(n=ev.count())
        >>> busiest = minutes.results(late=ev.accumulate("5 minutes")).window(ev.tumbling("1 hour"), by="item").agg(most=ev.max("n"))
        >>> busiest.reach == 60_000_000
        True
        """
        aggregation, view = self._read()
        return Results(aggregation, late, view)

    def to(
        self,
        name: str,
        sink: Sink | None = None,
        *,
        late: LatePolicy,
        early: EarlyTrigger | None = None,
        late_firing: LateTrigger = PER_BATCH,
        accumulation: str | None = None,
    ) -> Output:
        """An output: a name, a sink (none: only the pipeline's own tables), and what it does with late rows."""
        aggregation, view = self._read()
        mode = accumulation or (RETRACTING if late.retracts else ACCUMULATING)
        output = Output(name, aggregation, sink, late, early, late_firing, mode, view)
        output.check()
        return output


@dataclass(frozen=True)
class Aggregation(Readable):
    """One windowed aggregation, which any number of outputs may read, each in its own way."""

    stream: Stream
    window: Window
    keys: tuple[str, ...]
    aggregates: tuple[tuple[str, Aggregate], ...]
    pairs: Join | None = None
    """The join whose pairs are its rows, instead of the stream's events."""
    over: Results | None = None
    """The results that are its rows, where it is a stage over another aggregation of the stream."""

    @property
    def grid(self) -> Window:
        """By what rows are judged: its windows."""
        return self.window

    def _read(self) -> tuple[Aggregation, View]:
        return self, WHOLE

    @property
    def below(self) -> tuple[Aggregation, ...]:
        """The aggregations whose results it is made of, the one over the stream first."""
        return () if self.over is None else (*self.over.aggregation.below, self.over.aggregation)

    @property
    def first(self) -> Aggregation:
        """The aggregation to which the rows come: the one that all stages below are made of, or itself."""
        return (*self.below, self)[0]

    @property
    def joined(self) -> Join | None:
        """The join whose pairs it is made of, by itself or by way of stages."""
        return self.first.pairs

    @property
    def reach(self) -> int:
        """How far before a window of it the events may lie that it is made of."""
        windows = sum(one.window.gap if isinstance(one.window, Session) else one.window.size for one in self.below)
        return windows if self.joined is None else windows + self.joined.reach

    def on(self, stream: Stream, pairs: Join | None = None) -> Aggregation:
        """The same over another stream, or over the pairs of another join of its sides."""
        if self.over is None:
            return replace(self, stream=stream, pairs=pairs)
        return replace(self, stream=stream, over=replace(self.over, aggregation=self.over.aggregation.on(stream, pairs)))


@dataclass(frozen=True)
class Shown(Readable):
    """Results under a view: only those that it lets through, and of them what it shows."""

    aggregation: Aggregation
    view: View

    def __post_init__(self) -> None:
        names = [name for name, _ in self.aggregation.aggregates]
        for name in self.view.names(self.aggregation.keys, names, "the results"):
            if name.startswith(OURS):
                raise DefinitionError(
                    f"select({name}=…): {name!r} begins with two underscores, which Eventide keeps for itself."
                )

    def _read(self) -> tuple[Aggregation, View]:
        return self.aggregation, self.view


@dataclass(frozen=True)
class Results:
    """The standing results of an aggregation as rows: each at the last microsecond of its window, with its keys, bounds and aggregates."""

    aggregation: Aggregation
    late: LatePolicy
    view: View = WHOLE

    def __post_init__(self) -> None:
        if (
            not isinstance(self.late, LatePolicy)
            or self.late.name not in ("drop", "accumulate")
            or self.late.refused is not None
        ):
            raise DefinitionError(
                f"results(late={self.late}): results that are read again are corrected or not: use accumulate(…) or drop(). Rows that come too "
                'late are kept by an output of the aggregation itself: .to("name", late=accumulate(…, refused=divert(…))).'
            )

    def where(self, condition: str | Expression) -> Results:
        """Only results for which a condition holds go on; one for which it no longer holds is withdrawn from the next stage."""
        return replace(self, view=self.view.where(condition))

    def select(self, **columns: str | Expression) -> Results:
        """These columns instead of the aggregates, each computed of a result; keys and bounds stay."""
        return replace(self, view=self.view.select(**columns))

    def window(self, window: Window, by: str | tuple[str, ...] | list[str] = ()) -> Windowed:
        """Cut the results into windows, for each key; what may be a key is theirs, whatever the keys below were."""
        keys = (by,) if isinstance(by, str) else tuple(by)
        return Windowed(self.aggregation.stream, window, keys, over=self)


def merge(*sources: Source) -> Stream:
    """Several sources into one stream, each with its own watermark; W is the least of them.

    All must have the same columns after their transforms.
    """
    if not sources:
        raise DefinitionError("merge() needs at least one source.")
    return Stream(tuple(sources))
