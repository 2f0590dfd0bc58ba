"""A join of two streams as a plain value, checked where it is written: which rows match, who is shown without a match, what comes late."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from eventide.definition.output import Output, check_name, require_rows
from eventide.errors import DefinitionError, LossWarning
from eventide.model import graph
from eventide.model.aggregate import Aggregate
from eventide.model.plan import SourcePlan
from eventide.model.policy import ACCUMULATING, RETRACTING, LatePolicy
from eventide.model.soundness import check, joined_columns
from eventide.model.time import Duration, duration
from eventide.model.trigger import PER_BATCH
from eventide.model.window import INSTANT, Sliding, Window
from eventide.redaction import warn_of
from eventide.sinks.base import Sink

if TYPE_CHECKING:
    from eventide.definition.source import Source
    from eventide.definition.stream import Stream, Windowed

On = str | Sequence[str] | Mapping[str, str]
"""One column, several, or those of the left with those of the right that they must equal."""
Within = Sequence[Duration] | Sliding
"""How far the right row's time may lie after the left's, least and most; or windows that both must share."""
Kind = TypeVar("Kind")
_ALIKE = {
    "long": "bigint",
    "integer": "int",
    "short": "smallint",
    "byte": "tinyint",
    "real": "float",
    "timestamp_ltz": "timestamp",
}
_PLAIN = frozenset(
    {"bigint", "int", "smallint", "tinyint", "float", "double", "string", "boolean", "date", "timestamp", "binary"}
)


@dataclass(frozen=True)
class Join:
    """Pairs of rows of two streams, which any number of outputs may read."""

    left: Stream
    right: Stream
    on: tuple[tuple[str, str], ...]
    within: graph.Between | Sliding
    how: str
    late: LatePolicy
    prefix: tuple[str, str] = ("", "")
    self_pairs: bool | None = None
    shown: tuple[tuple[str, ...], tuple[str, ...]] | None = None
    """The columns that each side has, where its sources may have more; None: all that they have."""

    def __post_init__(self) -> None:
        if not isinstance(self.late, LatePolicy):
            raise DefinitionError(f"join(late={self.late!r}): use drop(), accumulate(…), retract(…) or divert(…).")
        self._check_self_pairs()
        shared = {s.name for s in self.left.sources} & {s.name for s in self.right.sources}
        if shared and self.left != self.right:
            raise DefinitionError(
                f"join: both sides read {', '.join(sorted(shared))}, but as different streams, and each source is read once. "
                "Join a stream with itself, or give each side sources of its own."
            )
        for column, side in ((pair[i], (self.left, self.right)[i]) for pair in self.on for i in (0, 1)):
            side.refuse_unknown((column,), "join(on=…)")
        known = [_columns(stream) for stream in (self.left, self.right)]
        if None in known:  # only what it asks for itself can be looked at before the sources are opened
            known = [{pair[side]: "" for pair in self.on} for side in (0, 1)]
        self.meaning(known[0] or {}, known[1] or {})

    def _check_self_pairs(self) -> None:
        if self.itself and self.self_pairs is None:
            raise DefinitionError(
                f"join: {_named(self.left)} is joined with itself, and nobody said whether a row matches itself. "
                "Write self_pairs=False, or self_pairs=True to have those pairs too."
            )
        if not self.itself and self.self_pairs is not None:
            raise DefinitionError("join(self_pairs=…) is for a stream that is joined with itself; leave it out.")

    @property
    def itself(self) -> bool:
        """Whether a stream is joined with itself."""
        return self.left == self.right

    @property
    def stream(self) -> Stream:
        """Both sides' sources, which share one watermark; duplicates are taken out of each side by itself."""
        sources = self.left.sources if self.itself else (*self.left.sources, *self.right.sources)
        return replace(self.left, sources=sources, dedupe_keys=(), dedupe_within=None)

    @property
    def grid(self) -> Sliding:
        """By what rows are judged: the windows that they share, or each by its own instant."""
        return self.within if isinstance(self.within, Sliding) else INSTANT

    @property
    def keys(self) -> tuple[str, ...]:
        """A pair is known by its two rows, not by a key."""
        return ()

    @property
    def aggregates(self) -> tuple[tuple[str, Aggregate], ...]:
        """Of pairs nothing is computed."""
        return ()

    @property
    def pairs(self) -> None:
        """Its rows are those of its sides, not the pairs of another join."""
        return

    @property
    def first(self) -> Join:
        """The rows come to it, by no way of stages."""
        return self

    @property
    def joined(self) -> Join:
        """It is the join that those who read it are made of."""
        return self

    @property
    def over(self) -> None:
        """Its rows are events, not results."""
        return

    @property
    def below(self) -> tuple[()]:
        """It is made of no aggregation's results."""
        return ()

    @property
    def reach(self) -> int:
        """How far before and after its own time what a pair, or a row without a match, is made of may lie."""
        apart = self.within.size if isinstance(self.within, Sliding) else max(abs(self.within.lo), abs(self.within.hi))
        return apart + 1

    @property
    def withdraws(self) -> bool:
        """Whether a row that stood without a match may find one: only one that comes late can be it."""
        return self.how != graph.INNER and self.late.allowed > 0

    def sides(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The places of each side's sources among those of the pipeline."""
        left = tuple(range(len(self.left.sources)))
        return left, left if self.itself else tuple(range(len(left), len(left) + len(self.right.sources)))

    def columns(self, side: int, columns: Mapping[str, Kind]) -> dict[str, Kind]:
        """Of the columns of a side's sources, those that the side has."""
        return {name: kind for name, kind in columns.items() if self.shown is None or name in self.shown[side]}

    def meaning(self, left: Mapping[str, str], right: Mapping[str, str]) -> graph.Graph:
        """What it means over sources with these columns, each with its type ("": not known); refused where that contradicts itself."""
        names, sources = (_named(self.left), _named(self.right)), self.sides()
        sides = [
            graph.Rows(names[side], sources[side], tuple(self.columns(side, (left, right)[side]).items()), stream.dedupe_within)
            for side, stream in enumerate((self.left,) if self.itself else (self.left, self.right))
        ]
        join = graph.Join(
            f"{names[0]} with {names[1]}",
            *names,
            self.on,
            self.within,
            self.how,
            self.late.allowed,
            self.prefix,
            bool(self.self_pairs),
        )
        plans = tuple(SourcePlan(source.watermark, (), source.idle_after) for source in self.stream.sources)
        found = graph.Graph(plans, (*sides, join), ())
        check(found)
        _check_names([name for name, _ in joined_columns(found, join)])
        return found

    def window(self, window: Window, by: str | Sequence[str] = ()) -> Windowed:
        """Cut its pairs into windows, for each key, by the later of their two times; of inner joins only.

        A pair is judged by W at the later of its rows: where an output allows at least as much lateness as the join, it refuses none. (Of a join
        by shared windows: as much, and their size.)
        """
        if self.how != graph.INNER:
            raise DefinitionError(
                f"windows over the {self} would hold rows without a match, which can be withdrawn. Windows go over inner joins only; send the pairs "
                "of this one to a sink, .to(name, sink)."
            )
        return self.left.over_pairs(self, window, by)

    def refuse_unknown(self, columns: Sequence[str], where: str) -> None:
        """Refuse columns that its pairs are known not to have."""
        known = [_columns(stream) for stream in (self.left, self.right)]
        if known[0] is None or known[1] is None:
            return  # found when the run starts
        self.refuse_lacking(columns, where, self.meaning(known[0], known[1]))

    def refuse_lacking(self, columns: Sequence[str], where: str, meaning: graph.Graph) -> None:
        """Refuse columns that its pairs do not have, by what it means over sides that are known."""
        (join,) = meaning.all_of(graph.Join)
        there = [name for name, _ in joined_columns(meaning, join)]
        for column in columns:
            if column not in there:
                raise DefinitionError(
                    f"{where}: the pairs of the {self} have no column {column!r}. Their columns are {', '.join(there)}."
                )

    def to(self, name: str, sink: Sink | None = None) -> Output:
        """An output: every pair under its name, the two rows' places; a row that stands without a match is withdrawn when it finds one."""
        check_name(name)
        able = getattr(sink, "capabilities", None)
        if able is not None and self.withdraws and not able.retract:
            warn_of(
                f"output {name!r}: a row without a match is withdrawn when a late one matches it, but {type(sink).__name__} cannot take a retraction: "
                "it would stand there for ever. Use a sink with upserts (sqlite, postgres, …), an inner join, or late=drop().",
                LossWarning,
            )
        if self.late.refused is not None:
            require_rows(name, "late rows are diverted", self.late.refused.to)
        mode = RETRACTING if self.withdraws else ACCUMULATING
        return Output(name, self, sink, self.late, None, PER_BATCH, mode)

    def __str__(self) -> str:
        on = ", ".join(left if left == right else f"{left} = {right}" for left, right in self.on)
        return f"{self.how} join of {_named(self.left)} with {_named(self.right)} on {on}"


def joined(
    left: Stream,
    right: Stream,
    on: On,
    within: Within,
    how: str,
    late: LatePolicy,
    prefix: Sequence[str],
    self_pairs: bool | None,
) -> Join:
    """A join as its user wrote it."""
    if not isinstance(prefix, tuple | list) or len(prefix) != 2 or not all(isinstance(one, str) for one in prefix):
        raise DefinitionError(f'join(prefix={prefix!r}): give one for each side, such as prefix=("order_", "payment_").')
    return Join(left, right, _on(on), _within(within), how, late, (prefix[0], prefix[1]), self_pairs)


def _check_names(columns: list[str]) -> None:
    """Refuse columns of pairs that databases hold for one, and names that are kept for ours."""
    for name in columns:
        alike = [other for other in columns if other.casefold() == name.casefold()]
        if len(alike) > 1:
            raise DefinitionError(
                f"join: the columns {' and '.join(map(repr, alike))} of its pairs differ by case only, which many databases hold for one. "
                'Tell them apart by a prefix, such as prefix=("left_", "right_").'
            )
        if name.startswith("__"):
            raise DefinitionError(f"join: the column {name!r} begins with two underscores, which Eventide keeps for itself.")


def _on(on: On) -> tuple[tuple[str, str], ...]:
    if isinstance(on, str):
        return ((on, on),)
    return tuple(on.items()) if isinstance(on, Mapping) else tuple((name, name) for name in on)


def _within(within: Any) -> graph.Between | Sliding:
    if isinstance(within, Sliding):
        return within
    if isinstance(within, str | timedelta) or not isinstance(within, Sequence) or len(within) != 2:
        raise DefinitionError(
            f'join(within={within!r}): say how far after the left row the right one may lie, as in within=("0 s", "10 minutes"), or give '
            'windows that both share, within=tumbling("1 hour").'
        )
    return graph.Between(_signed(within[0]), _signed(within[1]))


def _signed(bound: Duration) -> int:
    """A span that may go back: `"-5 minutes"` is before the left row."""
    what = f"join(within=…): the bound {bound!r}"
    if isinstance(bound, timedelta):
        back = bound < timedelta(0)
        return (-1 if back else 1) * duration(abs(bound), what=what, zero=True)
    text = bound.strip() if isinstance(bound, str) else bound
    if isinstance(text, str) and text.startswith("-"):
        return -duration(text[1:], what=what, zero=True)
    return duration(text, what=what, zero=True)


def _named(stream: Stream) -> str:
    return " and ".join(source.name for source in stream.sources)


def _columns(stream: Stream) -> dict[str, str] | None:
    """A side's columns as far as its sources say them before anything is read; None: they do not."""
    found = [_types(source) for source in stream.sources]
    if any(types is None for types in found):
        return None
    first, *others = [types for types in found if types is not None]
    return {name: kind for name, kind in first.items() if all(name in other for other in others)}


def _types(source: Source) -> dict[str, str] | None:
    if source.columns is None or source.transforms or source.maps:
        return None
    said = source.column_types
    return {name: _one(said.get(name, "")) for name in source.columns}


def _one(kind: str) -> str:
    """A type by one of its names; one that is not plain is compared when the run starts."""
    kind = _ALIKE.get(kind.lower(), kind.lower())
    return kind if kind in _PLAIN else ""


__all__ = ["Join", "On", "Within", "joined"]
