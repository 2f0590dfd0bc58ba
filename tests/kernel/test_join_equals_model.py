"""Law 10 in the kernel: however a stream is cut, a join's table, verdicts and refused rows are those of the oracle at every cut."""

from __future__ import annotations

import json
import math
import random
from collections import Counter
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.model.randomgraphs import EXAMPLES, SEEDS, Watched, apply, joined, of_join

from eventide.kernel import join as kernel
from eventide.kernel.columns import ARRIVAL, BEHIND, LANE, OFFSET, OP, POSITION, SOURCE, TIME, TIMING, UNSEEN
from eventide.kernel.join import BESIDE, LEFT_LATER, PAIR, BoundJoin, Joining, nothing_kept
from eventide.kernel.judge import W
from eventide.kernel.matching import Matches
from eventide.model.event import Event
from eventide.model.graph import FULL, HOWS, INNER, LEFT, Between, Graph, Join
from eventide.model.pairing import Said, pair_row
from eventide.model.pane import INSERT, LATE, RETRACT
from eventide.model.soundness import joined_columns
from eventide.model.time import MAX_TIME

KINDS = {"user": pl.String(), "value": pl.Int64()}
ROWS = {ARRIVAL: pl.Int64, SOURCE: pl.Int64, LANE: pl.String, OFFSET: pl.Int64, TIME: pl.Int64, W: pl.Int64, BEHIND: pl.Boolean}
NAMES = ("orders", 'pay"ments')
SHAPES = st.tuples(st.integers(0, 2**32), st.sampled_from(HOWS), st.booleans())


class Noted(Watched):
    """Also notes every pair as a row, with W then."""

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph)
        self.rows: list[tuple[Any, ...]] = []

    def _say(self, join: Join, said: list[Said]) -> None:
        super()._say(join, said)
        for change in said:
            if change.left and change.right:
                row = pair_row(change, joined_columns(self.graph, join), dict(join.on))
                self.rows.append((*row.position, *row.beside, row.event_time, self.watermark, *row.row.values()))


class Kernel:
    """Batches of judged rows into a table, as a sink would hold it."""

    def __init__(self, graph: Graph, kinds: dict[str, pl.DataType] = KINDS) -> None:
        (self.join,) = graph.all_of(Join)
        self.kinds = kinds
        self.bound = BoundJoin(self.join, tuple(joined_columns(graph, self.join)), NAMES)
        self.kept = (nothing_kept(kinds), nothing_kept(kinds))
        self.table: dict[Any, dict[str, Any]] = {}
        self.timings: list[tuple[Any, str]] = []
        self.counts = (Counter(), Counter())
        self.refused: set[Any] = set()
        self.rows: list[tuple[Any, ...]] = []

    def batch(self, seen: list[tuple[int | None, Event]], now: int | None) -> None:
        sides = tuple(self._rows([(w, e) for w, e in seen if self.bound.itself or e.source == side]) for side in (0, 1))
        joining = Joining(self.bound, sides, self.kept, now)
        for piece in joining.changes():
            for change in piece.iter_rows(named=True):
                self._apply(change)
        self.rows += [
            tuple(row)
            for piece in joining.pairs()
            for row in piece.select(*POSITION, *BESIDE, LEFT_LATER, TIME, W, *dict(self.bound.columns)).iter_rows()
        ]
        self.kept = joining.kept
        for side in (0, 1):
            self.counts[side].update(joining.counts[side])
            self.refused |= set(joining.refused[side].select(POSITION).iter_rows())

    def _rows(self, seen: list[tuple[int | None, Event]]) -> pl.DataFrame:
        cells = [(*e.position, e.event_time, UNSEEN if w is None else w, False, *map(e.row.get, self.kinds)) for w, e in seen]
        return pl.DataFrame(cells, schema={**ROWS, **self.kinds}, orient="row")

    def _apply(self, change: dict[str, Any]) -> None:
        name = change.pop(PAIR)
        places = tuple(p and (NAMES.index(p[0]), p[1], p[2]) for p in json.loads(name))
        op, timing, time = change.pop(OP), change.pop(TIMING), change.pop(TIME)
        if op == RETRACT:
            assert timing == LATE, "on time nothing matches a row that stood alone"
            assert self.table.pop(places) == (time, change)
        else:
            assert places not in self.table
            self.table[places] = (time, change)
        if op == INSERT:
            self.timings.append((places, timing))


def kept_too_long(mine: Kernel, w: int | None) -> bool:
    if w is None or w == MAX_TIME:
        return w is not None and any(len(side) for side in mine.kept)
    join = mine.join
    if not isinstance(join.within, Between):
        return any(w >= (t // 10 + 1) * 10 + join.allowed for side in mine.kept for t in side[TIME])
    spans = (join.within.hi, -join.within.lo)
    return any(w > t + span + join.allowed for side, span in zip(mine.kept, spans, strict=True) for t in side[TIME])


def agrees(graph: Graph, events: list[Event], rng: random.Random) -> bool:
    """Whether the kernel, fed in random batches, stands where the oracle stands after each of them, and has forgotten what it may."""
    engine, mine = Noted(graph), Kernel(graph)
    held: dict[Any, Any] = {}
    said = done = 0
    for event in [*events, None]:
        engine.drain() if event is None else engine.event(event)
        if event is not None and rng.random() < 0.7:
            continue
        mine.batch(engine.seen[done:], engine.watermark)
        done = len(engine.seen)
        if kept_too_long(mine, engine.watermark):
            return False
        want = apply(held, engine.panes[said:])
        said = len(engine.panes)
        if {p: values for p, (_, values) in mine.table.items()} != {key: values for (_, key), values in want.items()}:
            return False
        if {p: (t, t) for p, (t, _) in mine.table.items()} != {key: window for window, key in want}:
            return False
    inserts = {(p.key, p.timing) for p in engine.panes if p.op == INSERT}
    ours = {side: Counter(engine.pairing.counts[side]) for side in (0, 1)}
    return (
        set(mine.timings) <= inserts
        and all(+mine.counts[side] == +Counter({v.value: n for v, n in ours[side].items()}) for side in (0, 1))
        and mine.refused == {late.event.position for late in engine.late}
        and Counter(mine.rows) == Counter((*r[:10], UNSEEN if r[10] is None else r[10], *r[11:]) for r in engine.rows)
    )


@EXAMPLES
@given(SHAPES, st.sampled_from([1, 3, 1000]))
def test_however_it_is_cut_the_table_is_the_oracles_at_every_cut(shape: tuple[int, str, bool], piece: int) -> None:
    seed, how, itself = shape
    rng = random.Random(seed)
    graph = joined(rng, how, itself=itself)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernel, "MOST_PAIRS", piece)
        assert agrees(graph, of_join(rng, graph), rng)


# --- broken on purpose


def some_disagree(how: str = FULL, seeds: range = SEEDS) -> bool:
    for rng in map(random.Random, seeds):
        graph = joined(rng, how)
        if not agrees(graph, of_join(rng, graph), rng):
            return True
    return False


@pytest.mark.parametrize("sign", [-1, 1])
@pytest.mark.parametrize("bound", ["least", "most"])
def test_the_law_notices_a_bound_that_is_shifted_by_one(sign: int, bound: str, monkeypatch: pytest.MonkeyPatch) -> None:
    right = Matches.of.__func__

    def shifted(cls: Any, keys: Any, least: Any, most: Any, times: Any) -> Matches:
        moved = {"least": least, "most": most}
        moved[bound] = moved[bound] + sign
        return right(cls, keys, moved["least"], moved["most"], times)

    monkeypatch.setattr(Matches, "of", classmethod(shifted))
    assert some_disagree(INNER)


@pytest.mark.parametrize("sign", [-1, 1])
def test_the_law_notices_verdicts_that_are_shifted_by_one(sign: int, monkeypatch: pytest.MonkeyPatch) -> None:
    right = BoundJoin.verdict
    monkeypatch.setattr(BoundJoin, "verdict", lambda self: _moved(right(self), sign))
    assert some_disagree()


def _moved(verdict: pl.Expr, sign: int) -> pl.Expr:
    return pl.struct(pl.col(TIME), pl.col(W) + sign).map_batches(
        lambda column: column.struct.unnest().select(verdict).to_series(), return_dtype=pl.String
    )


@pytest.mark.parametrize("what", ["stated", "evicted"])
def test_the_law_notices_rows_that_are_stated_or_forgotten_one_instant_too_early(
    what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = Joining._passed

    def early(self: Joining, side: int, allowed: int = -1) -> pl.Expr:
        asked = "stated" if allowed == -1 else "evicted"
        return right(self, side, max(allowed, 0) - (asked == what))

    monkeypatch.setattr(Joining, "_passed", early)
    assert some_disagree(FULL if what == "stated" else INNER, range(600))


def test_the_law_notices_null_rows_that_are_never_withdrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    right = Joining.changes
    monkeypatch.setattr(Joining, "changes", lambda self: (p for p in right(self) if (p[OP] != RETRACT).all()))
    assert some_disagree()


# --- by hand


def by_hand(on: tuple[tuple[str, str], ...], rows: list[tuple[int, dict[str, Any]]], kinds: dict[str, pl.DataType]) -> set[Any]:
    join = Join("j", "l", "r", on, Between(0, 5), LEFT, prefix=("", "r_"))
    columns = [(name, (0, name)) for name in kinds] + [(f"r_{name}", (1, name)) for name in kinds if (name, name) not in on]
    sides = [
        pl.DataFrame(
            [(i, side, "0", i, 10, UNSEEN, False, *cells.values()) for i, (of, cells) in enumerate(rows) if of == side],
            schema={**ROWS, **kinds},
            orient="row",
        )
        for side in (0, 1)
    ]
    empty = nothing_kept(kinds)
    joining = Joining(BoundJoin(join, tuple(columns), NAMES), (sides[0], sides[1]), (empty, empty), None)
    return {tuple(p and p[2] for p in json.loads(name)) for piece in joining.changes() for name in piece[PAIR]}


def test_composite_keys_match_as_a_whole_and_a_null_part_matches_nothing() -> None:
    rows = [
        (0, {"a": "x", "b": 1}),
        (0, {"a": "x", "b": None}),
        (1, {"a": "x", "b": 1}),
        (1, {"a": "x", "b": None}),
        (1, {"a": "y", "b": 1}),
    ]
    assert by_hand((("a", "a"), ("b", "b")), rows, {"a": pl.String(), "b": pl.Int64()}) == {(0, 2)}


def test_all_that_is_no_number_is_one_key_and_so_are_the_two_zeros() -> None:
    rows = [(0, {"k": math.nan}), (0, {"k": 0.0}), (1, {"k": math.nan}), (1, {"k": -0.0})]
    assert by_hand((("k", "k"),), rows, {"k": pl.Float64()}) == {(0, 2), (1, 3)}


@pytest.mark.parametrize("keys", [[math.nan], [1.5, math.nan], [math.nan, math.nan]])
def test_what_is_no_number_matches_also_where_the_keys_stand_in_order(keys: list[float]) -> None:
    """Rows that are in order by their only key are joined by another way, on which no NaN meets another."""
    rows = [(side, {"k": key}) for side in (0, 1) for key in keys]
    equal = {(one, other) for one, (side, a) in enumerate(rows) for other, (of, b) in enumerate(rows)
             if side < of and (a["k"] == b["k"] or (a["k"] != a["k"] and b["k"] != b["k"]))}  # fmt: skip
    assert by_hand((("k", "k"),), rows, {"k": pl.Float64()}) == equal


def test_keys_of_other_names_and_other_types_match() -> None:
    kinds = {"a": pl.Decimal(12, 2), "b": pl.Decimal(12, 2)}
    assert by_hand((("a", "b"),), [(0, {"a": 1, "b": 2}), (1, {"a": 2, "b": 1})], kinds) == {(0, 1)}
    kinds = {"a": pl.Binary(), "b": pl.Binary()}
    assert by_hand((("a", "b"),), [(0, {"a": b"\0", "b": b""}), (1, {"a": b"", "b": b"\0"})], kinds) == {(0, 1)}


def test_a_self_join_on_two_columns_leaves_out_only_rows_that_match_themselves() -> None:
    join = Join("j", "l", "l", (("a", "b"),), Between(-9, 9), FULL, prefix=("l_", "r_"))
    columns = [(f"{p}{name}", (side, name)) for side, p in ((0, "l_"), (1, "r_")) for name in "ab"]
    kinds = {"a": pl.Int64(), "b": pl.Int64()}
    cells = [(i, 0, "0", i, 10, UNSEEN, False, a, b) for i, (a, b) in enumerate([(1, 1), (1, 2), (2, 1)])]
    rows, empty = pl.DataFrame(cells, schema={**ROWS, **kinds}, orient="row"), nothing_kept(kinds)
    joining = Joining(BoundJoin(join, tuple(columns), NAMES), (rows, rows), (empty, empty), MAX_TIME)
    pairs = {tuple(p and p[2] for p in json.loads(name)) for piece in joining.changes() for name in piece[PAIR]}
    assert pairs == {(0, 2), (1, 0), (1, 2), (2, 1)}
