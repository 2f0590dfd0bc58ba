"""Joins row by row: the instants at which a row is stated and forgotten, the order of pairs, their names, and a stream beside itself."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import polars as pl
import pytest
from test_join_equals_model import ROWS

from eventide.kernel.columns import OFFSET, OP, TIMING, UNSEEN
from eventide.kernel.join import PAIR, Both, BoundJoin, Joining, in_order, nothing_kept
from eventide.kernel.matching import Matches
from eventide.model.graph import FULL, INNER, LEFT, RIGHT, Between, Join
from eventide.model.pane import INSERT, LATE, ON_TIME, RETRACT
from eventide.model.window import Sliding

KINDS = {"a": pl.Int64(), "b": pl.Int64()}
COLUMNS = tuple((f"{side}_{name}", (number, name)) for number, side in enumerate("lr") for name in "ab")
EMPTY = (nothing_kept(KINDS), nothing_kept(KINDS))


def bound(
    within: Any, how: str = FULL, allowed: int = 0, right: str = "r", on: Any = (("a", "a"),), itself: bool = False
) -> BoundJoin:
    return BoundJoin(Join("j", "l", right, on, within, how, allowed, ("l_", "r_"), itself), COLUMNS, ("café", "r"))


def rows(*cells: tuple[int, int, int, int], source: int = 0) -> pl.DataFrame:
    """Each (arrival, event time, a, W); b is the time again."""
    placed = [(arrival, source, "0", arrival, time, w, False, a, time) for arrival, time, a, w in cells]
    return pl.DataFrame(placed, schema={**ROWS, **KINDS}, orient="row")


def said(joining: Joining) -> list[tuple[Any, ...]]:
    changes = [change for piece in joining.changes() for change in piece.iter_rows(named=True)]
    return [(tuple(p and p[2] for p in json.loads(c[PAIR])), c[OP], c[TIMING]) for c in changes]


@pytest.mark.parametrize(("within", "last"), [(Between(-2, 5), (15, 12)), (Sliding(10, 10), (19, 19))])
@pytest.mark.parametrize("side", [0, 1])
def test_a_row_is_stated_alone_and_forgotten_at_the_first_instant_at_which_it_can_be(within: Any, last: Any, side: int) -> None:
    """A row at 10: a match that is on time may come until W has passed `last`, and one that is late three more."""
    new, none = rows((0, 10, 1, UNSEEN)), rows()
    sides: Both = (new, none) if side == 0 else (none, new)
    join = bound(within, allowed=3)
    alone = [((0, None) if side == 0 else (None, 0), INSERT, ON_TIME)]
    for w, stated, kept in (
        (last[side], [], 1),
        (last[side] + 1, alone, 1),
        (last[side] + 3, alone, 1),
        (last[side] + 4, alone, 0),
    ):
        joining = Joining(join, sides, EMPTY, w)
        assert (said(joining), len(joining.kept[side])) == (stated, kept), w


@pytest.mark.parametrize(("within", "least"), [(Between(0, 5), 0), (Sliding(10, 10), 10)])
def test_a_row_is_let_in_up_to_an_instant_and_refused_after_it(within: Any, least: int) -> None:
    """A row at 10, or in the window that ends at 20, in a join that lets in what is three too late."""
    edge = 10 + least - (least > 0)
    for w, verdict in ((edge, "on_time"), (edge + 1, "admitted"), (edge + 3, "admitted"), (edge + 4, "refused")):
        joining = Joining(bound(within, allowed=3), (rows((0, 10, 1, w)), rows()), EMPTY, w)
        assert [name for name, number in joining.counts[0].items() if number] == [verdict], w
        assert len(joining.refused[0]) == (verdict == "refused") and not len(joining.refused[1])


def test_a_late_row_whose_wait_is_over_stands_alone_at_once_and_late() -> None:
    joining = Joining(bound(Between(0, 5), allowed=20), (rows((0, 10, 1, 15), (1, 10, 2, 16)), rows()), EMPTY, 16)
    assert said(joining) == [((0, None), INSERT, ON_TIME), ((1, None), INSERT, LATE)]


def test_a_row_is_stated_once_withdrawn_by_its_match_and_after_that_never_alone() -> None:
    """Left rows at 10: the one with a match is never alone; the other is from 16 on, until a late row matches it."""
    of, kept = bound(Between(0, 5), allowed=20), EMPTY
    batches: list[tuple[Any, Any, int, list[Any]]] = [
        ([(0, 10, 1, 0), (1, 10, 2, 0)], [(2, 10, 1, 0)], 0, [((0, 2), INSERT, ON_TIME)]),
        ([], [], 16, [((1, None), INSERT, ON_TIME)]),
        ([], [], 17, []),
        ([], [(3, 12, 2, 17)], 17, [((1, None), RETRACT, LATE), ((1, 3), INSERT, LATE)]),
        ([], [], 35, []),
    ]
    for number, (left, right, w, told) in enumerate(batches):
        joining = Joining(of, (rows(*left), rows(*right, source=1)), kept, w)
        assert said(joining) == told, number
        kept = joining.kept
    assert [len(side) for side in kept] == [2, 0]


def test_pairs_of_one_position_come_in_the_order_of_the_earlier_row_and_the_later_row_on_the_left_second() -> None:
    """A stream joined with itself, by rows at one time: each new row with those before it, on either side."""
    of = bound(Between(0, 0), INNER, right="l")
    every = rows((0, 5, 1, UNSEEN), (1, 5, 1, UNSEEN), (2, 5, 1, UNSEEN))
    numbered = every.with_columns(pl.col(OFFSET).alias("b"))
    pairs = in_order(pl.concat(Joining(of, (numbered, numbered), EMPTY, None).pairs()), 7)
    again = in_order(pl.concat(Joining(of, (numbered, numbered), EMPTY, None).pairs()), 8)
    assert again[OFFSET].min() > pairs[OFFSET].max(), (
        "a batch may end inside an instant: what the next one has of it comes after"
    )
    assert pairs.select("l_b", "r_b").rows() == [(0, 1), (1, 0), (0, 2), (2, 0), (1, 2), (2, 1)]
    assert (pairs[OFFSET] - pairs[OFFSET][0]).to_list() == [0, 1, 2, 3, 4, 5]


def test_of_a_stream_joined_with_itself_a_row_may_stand_on_one_side_only() -> None:
    """By two columns its two keys may fall into two buckets: it is not beside itself here, and its one match counts."""
    of = bound(Between(-9, 9), right="l", on=(("a", "b"),))
    left, right = rows((0, 7, 4, UNSEEN)), rows((1, 4, 9, UNSEEN))
    joining = Joining(of, (left, right), EMPTY, None)
    assert joining.pairs_found == 1 and said(joining) == [((0, 1), INSERT, ON_TIME)]
    assert joining.kept[0]["__matched"].all() and joining.kept[1]["__matched"].all()


@pytest.mark.parametrize(("itself", "told"), [(True, [(0, 0)]), (False, [(0, None), (None, 0)])])
def test_a_row_that_only_itself_would_match_is_paired_if_asked_for_and_stands_alone_if_not(itself: bool, told: Any) -> None:
    row = rows((0, 10, 1, UNSEEN))
    joining = Joining(bound(Between(0, 0), right="l", itself=itself), (row, row), EMPTY, 11)
    assert [places for places, *_ in said(joining)] == told and joining.pairs_found == itself


@pytest.mark.parametrize(
    ("how", "told"), [(INNER, []), (LEFT, [(0, None)]), (RIGHT, [(None, 1)]), (FULL, [(0, None), (None, 1)])]
)
def test_the_sides_that_stand_alone_are_those_of_the_join(how: str, told: Any) -> None:
    joining = Joining(bound(Between(0, 5), how), (rows((0, 10, 1, 0)), rows((1, 10, 2, 0), source=1)), EMPTY, 90)
    assert [places for places, *_ in said(joining)] == told


def test_rows_of_one_window_match_however_short_it_is() -> None:
    for size, pairs in ((10, [(0, 2), (1, 2)]), (1, [(1, 2)])):
        sides = rows((0, 5, 1, 0), (1, 6, 1, 0)), rows((2, 6, 1, 0), source=1)
        assert [places for places, *_ in said(Joining(bound(Sliding(size, size), INNER), sides, EMPTY, 0))] == pairs


def test_a_new_row_meets_all_that_are_kept_and_all_that_are_new() -> None:
    of = bound(Between(0, 5), INNER)
    first = Joining(of, (rows((0, 10, 1, 0), (1, 10, 1, 0)), rows((2, 11, 1, 0), source=1)), EMPTY, 0)
    assert (first.together, first.pairs_found) == ((2, 1), 2)
    then = Joining(of, (rows((3, 10, 1, 0)), rows((4, 12, 1, 0), source=1)), first.kept, 0)
    assert sorted(places for places, *_ in said(then)) == [(0, 4), (1, 4), (3, 2), (3, 4)]
    assert (then.together, then.pairs_found) == ((3, 2), 4)


def test_a_pairs_name_is_the_text_of_the_two_places() -> None:
    joining = Joining(bound(Between(0, 5)), (rows((0, 10, 1, UNSEEN)), rows((3, 11, 1, UNSEEN), source=1)), EMPTY, None)
    (piece,) = joining.changes()
    assert piece[PAIR].to_list() == ['[["café", "0", 0], ["r", "0", 3]]']


@pytest.mark.parametrize(("most", "sizes"), [(1, [2, 1, 3]), (2, [2, 1, 3]), (3, [3, 3]), (5, [3, 3]), (6, [6])])
def test_pairs_come_in_pieces_of_whole_rows_that_fit(most: int, sizes: list[int]) -> None:
    """Left rows with two, one and three matches: a row with more than fit comes alone."""
    keys, times = (np.zeros(3, int), np.zeros(4, int)), np.array([1, 1, 2, 9])
    found = Matches.of(keys, np.array([1, 2, 1]), np.array([1, 2, 2]), times)
    assert [len(left) for left, _ in found.pieces(most)] == sizes


def test_matches_are_counted_for_every_row_of_either_side_and_a_null_key_has_none() -> None:
    """Rows of the right at 9, 2, 1 and 1: the left asks for 1, for 2, for 1 to 2, and by a null key for all."""
    keys, times = (np.array([0, 0, 0, -1]), np.array([0, 0, 0, 0])), np.array([9, 2, 1, 1])
    found = Matches.of(keys, np.array([1, 2, 1, 1]), np.array([1, 2, 2, 9]), times)
    assert found.per_left(4).tolist() == [2, 1, 3, 0]
    assert found.per_right().tolist() == [0, 2, 2, 2]
