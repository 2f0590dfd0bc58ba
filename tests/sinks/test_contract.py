"""The contract of a sink, against the real systems: however panes come, the table is the same."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from eventide import sinks
from eventide.sinks import Capabilities
from tests.sinks.panes import (
    BASE,
    DELTAS,
    SHAPE,
    batch,
    delivery,
    disturbed,
    expected,
    expected_sums,
    pane,
    random_deltas,
    random_log,
    seen,
)
from tests.sinks.places import CONSOLE_LACKS, PLACES, Place

LOG_SCHEMA = pa.schema([("lane", pa.string()), ("offset", pa.int64()), ("reason", pa.string()), ("raw", pa.binary())])


def deliver(place: Place, deliveries: list[list[dict[str, Any]]], shape: Any = SHAPE, start: int = 0) -> None:
    writer = place.sink().open(place.output, shape)
    try:
        for number, panes in enumerate(deliveries, start):
            writer.deliver(batch(panes, shape), delivery(place.output, number))
    finally:
        writer.close()


@pytest.mark.parametrize("kind", PLACES, ids=lambda kind: kind.name)
def test_each_capability_is_had_or_its_absence_is_explained(kind: type[Place], tmp_path: Any, request: Any) -> None:
    from tests.sinks.places import World

    world = World(tmp_path)
    for need in kind.needs:
        setattr(world, need, request.getfixturevalue(need))
    made = kind(world)
    has = made.sink().capabilities
    made.close()
    absent = {f.name for f in dataclasses.fields(Capabilities) if not getattr(has, f.name)}
    assert absent == set(kind.lacks)
    assert all(no.kind in ("never", "not yet", "not implemented") and no.why for no in kind.lacks.values())


@pytest.mark.parametrize("kind", PLACES, ids=lambda kind: kind.name)
def test_the_docs_say_of_each_capability_what_the_contract_says(kind: type[Place]) -> None:
    lines = (Path(__file__).parents[2] / "docs" / "sinks.md").read_text().splitlines()
    table = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    names = table[0][1:-1]
    assert names == [f.name for f in dataclasses.fields(Capabilities)]
    (row,) = [row for row in table if row[0].startswith(f"`{kind.name}(")]
    for name, said in zip(names, row[1:-1], strict=True):
        assert said.startswith(kind.lacks[name].kind if name in kind.lacks else ("yes", "if `keyed`")), name


def test_the_console_explains_what_it_lacks() -> None:
    has = sinks.console().capabilities
    absent = {f.name for f in dataclasses.fields(Capabilities) if not getattr(has, f.name)}
    assert absent | {"convergence"} == set(CONSOLE_LACKS)


def test_any_duplication_and_order_of_pane_logs_ends_in_the_same_table(place: Place) -> None:
    panes = [p for number in range(place.random_logs) for p in random_log(number)]
    deliver(place, disturbed(panes, seed=1))
    assert seen(place.rows(SHAPE)) == expected(panes)


def test_deltas_add_up_whatever_their_order_and_number(place: Place) -> None:
    if hasattr(place, "receiver"):
        place.receiver.shape = DELTAS
    panes = [p for number in range(place.random_logs) for p in random_deltas(number)]
    deliver(place, disturbed(panes, seed=2), DELTAS)
    assert seen(place.rows(DELTAS), DELTAS) == expected_sums(panes)


def test_stale_panes_change_nothing(place: Place) -> None:
    """Withdrawn stays withdrawn; a retract of an older result, or of an older generation, withdraws nothing."""
    v = {"total": 5, "n": 1}
    first, withdrawn = pane("gone", 0, **v), pane("gone", 0, "retract", **v)
    corrected, stale = pane("kept", 1, **v), pane("kept", 0, "retract", **v)
    again, older = pane("again", 0, generation=1, **v), pane("again", 7, "retract", **v)
    merged = [pane("session a", 0, **v), pane("session a", 0, "retract", **v), pane("session b", 0, **v)]
    deliver(place, [[first, corrected, again], [withdrawn, *merged]])
    before = seen(place.rows(SHAPE))
    assert set(before) == {"kept", "again", "session b"}
    deliver(place, [[first], [stale, older], [*merged[:1], corrected]], start=2)
    assert seen(place.rows(SHAPE)) == before


def test_a_second_generation_supersedes_the_first(place: Place) -> None:
    old = [pane(f"w{i}", s, slot=i, total=i, n=s) for i in range(20) for s in range(4)]
    new = [pane(f"w{i}", 0, generation=1, slot=i, total=100 + i, n=0) for i in range(20)]
    deliver(place, [old, new, old])
    assert {total for _, total, *_ in seen(place.rows(SHAPE)).values()} == set(range(100, 120))


def test_of_two_contents_at_one_rank_the_first_stays(place: Place) -> None:
    """A rank stands for one content; should two come all the same, every sink decides alike."""
    for number in range(3):
        deliver(place, [[pane("w", 0, total=number, n=1)]], start=number)
    assert [row["total"] for row in place.rows(SHAPE)] == [0]


def test_an_empty_delivery_is_nothing(place: Place) -> None:
    deliver(place, [[pane("w", 0, total=1, n=1)], [], []])
    assert len(place.rows(SHAPE)) == 1


def test_a_log_keeps_one_copy_of_each_row(place: Place) -> None:
    """Late rows and dead letters, delivered twice for one batch, and once more for the next."""
    rows = [{"lane": f"l{i % 3}", "offset": i, "reason": 'it\'s "bad"; drop table x --', "raw": b"\x00\xff"} for i in range(50)]
    sink = place.sink()
    writer = sink.open_log(f"{place.output}_late", LOG_SCHEMA, ("lane", "offset"))
    first = [pa.RecordBatch.from_pylist(rows[:30], schema=LOG_SCHEMA)]
    for number, part in ((0, first), (0, first), (1, [pa.RecordBatch.from_pylist(rows[30:], schema=LOG_SCHEMA)])):
        writer.append(part, delivery(place.output, number))
    writer.close()
    found = place.logged(f"{place.output}_late")
    assert sorted((row["lane"], row["offset"]) for row in found) == sorted((row["lane"], row["offset"]) for row in rows)
    assert {row["reason"] for row in found} == {rows[0]["reason"]}


def test_of_two_rows_with_one_identity_a_log_that_is_a_table_keeps_the_first(place: Place) -> None:
    sink = place.sink()
    if not sink.capabilities.generations:
        pytest.skip("it keeps every record")
    writer = sink.open_log(f"{place.output}_late", LOG_SCHEMA, ("lane", "offset"))
    for reasons in (["first", "second"], ["third"]):
        rows = [{"lane": "l", "offset": 1, "reason": reason, "raw": b""} for reason in reasons]
        writer.append([pa.RecordBatch.from_pylist(rows, schema=LOG_SCHEMA)], delivery(place.output, 0))
    writer.close()
    assert [row["reason"] for row in place.logged(f"{place.output}_late")] == ["first"]


def test_instants_are_shown_in_utc(place: Place) -> None:
    deliver(place, [[pane("w", 0, slot=0, total=1, n=1)]])
    (row,) = place.rows(SHAPE)
    said = str(row["window_start"]).replace("T", " ")
    assert said.startswith("2025-06-15 15:06:40"), BASE
