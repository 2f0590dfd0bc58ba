"""Random pipelines as their users write them, of the four kinds that have a law of their own, and random streams for them as files that land bit by bit."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
from of_files import SECOND, START, Columns, Landing, assert_as_the_oracle_says, cut, graph_of, table_of
from tests.model import randomgraphs

import eventide as ev
from eventide.model.event import Event
from eventide.model.graph import HOWS

KINDS: dict[str, pl.DataType] = {"user": pl.String(), "value": pl.Int64(), "id": pl.String()}
COLUMNS: Columns = {"one": KINDS, "other": KINDS}
GRIDS = (ev.tumbling("10 s"), ev.sliding("12 s", "6 s"), ev.tumbling("20 s", offset="3 s"), ev.sliding("20 s", "5 s"))
SHAPES = (*GRIDS, ev.session("5 s"))
ALLOWED = ("5 s", "15 s", "40 s")
Outputs = list[Any]


def read(rng: random.Random, root: Path, name: str) -> Any:
    return ev.files(
        name, str(root / "in" / name), event_time="ts", arrival="at", lane="directory", max_ahead=None,
        watermark=ev.bounded(rng.choice(["0 s", "0 s", "3 s", "8 s"])), idle_after=rng.choice([None, "6 s", "20 s"]),
        files_per_batch=rng.choice([1, 2, 3, None]),
    )  # fmt: skip


def stream(rng: random.Random, root: Path) -> Any:
    """One source or two, with or without their duplicates."""
    read_all = [read(rng, root, name) for name in rng.choice([("one",), ("one", "other")])]
    merged = ev.merge(*read_all)
    return merged.dedupe("id", within="10 s") if rng.random() < 0.3 else merged


def policy(rng: random.Random, *, diverts: bool = True) -> Any:
    allowed = rng.choice(ALLOWED)
    aside = [ev.divert(), ev.accumulate(allowed, refused=ev.divert())] if diverts else []
    return rng.choice([ev.drop(), ev.accumulate(allowed), ev.retract(allowed), *aside])


def again(rng: random.Random) -> Any:
    """How late rows may come and still go on to a next stage."""
    return rng.choice([ev.drop(), *(ev.accumulate(allowed) for allowed in ALLOWED)])


def counted(rng: random.Random, rows: Any, shapes: tuple[Any, ...] = SHAPES) -> Any:
    return rows.window(rng.choice(shapes), by=rng.choice(["user", ("user", "value"), ()])).agg(
        n=ev.count(), total=ev.sum("value"), last=ev.last("value")
    )


def views(rng: random.Random, root: Path) -> Outputs:
    """Results whole and, under the same policy, filtered; a view of its own; all of one aggregation."""
    made, late = counted(rng, stream(rng, root)), policy(rng)
    derived = made.where(rng.choice(["total % 2 = 0", "n / (total - 5) > 1"])).select(n="2 * n", more="total + window_start")
    return [
        made.to("whole", late=late),
        made.where("total > 4").to("filtered", late=late),
        derived.to("derived", late=policy(rng)),
    ]


def several(rng: random.Random, root: Path) -> Outputs:
    """Two or three aggregations of one stream, each with its own windows, keys and outputs; and every event."""
    rows = stream(rng, root)
    made = [counted(rng, rows).to(f"out{nth}", late=policy(rng)) for nth in range(rng.choice([2, 3]))]
    return [*made, rows.to("audit")]


def staged(rng: random.Random, root: Path) -> Outputs:
    """One or two stages over windows or sessions; what is below them is read too."""
    first = counted(rng, stream(rng, root))
    results = first.results(late=again(rng))
    if rng.random() < 0.5:
        results = results.where(rng.choice(["n > 1", "total < 9 OR total IS NULL"]))
    above = results.window(rng.choice(GRIDS), by=rng.choice([(), "n"])).agg(
        most=ev.max("total"), all=ev.collect("n" if rng.random() < 0.5 else "total"), lead=ev.max_by("total", "window_start")
    )
    outputs = [first.to("below", late=policy(rng)), above.to("above", late=policy(rng, diverts=False))]
    if rng.random() < 0.5:
        top = above.results(late=again(rng)).window(rng.choice(GRIDS)).agg(sum=ev.sum("most"), n=ev.count())
        outputs.append(top.to("top", late=policy(rng, diverts=False)))
    return outputs


def joined(rng: random.Random, root: Path) -> Outputs:
    """Pairs of two streams by interval or by windows, of every kind; over inner ones also windows."""
    lo = rng.randint(-10, 6)
    between = (f"{lo} s", f"{lo + rng.randint(0, 12)} s")
    how = rng.choice(HOWS)
    late = rng.choice([ev.drop(), *(ev.accumulate(allowed, refused=ev.divert()) for allowed in ALLOWED)])
    left = read(rng, root, "one")
    pairs = (left.dedupe("id", within="10 s") if rng.random() < 0.3 else left).join(
        read(rng, root, "other"), on="user", within=rng.choice([between, ev.tumbling("10 s")]), how=how, late=late,
        prefix=("l_", "r_"),
    )  # fmt: skip
    if how != "inner":
        return [pairs.to("pairs")]
    over = pairs.window(rng.choice(SHAPES), by="user").agg(n=ev.count(), all=ev.collect("l_value"), total=ev.sum("r_value"))
    windows, above = over.to("windows", late=policy(rng, diverts=False)), over.results(late=again(rng))
    stage = above.where("n < 9").window(rng.choice(GRIDS), by=rng.choice([(), "n"])).agg(
        most=ev.max("total"), all=ev.collect("n"), k=ev.count()
    )  # fmt: skip
    told = [pairs.to("pairs"), windows, stage.to("stage", late=policy(rng, diverts=False))]
    return rng.choice([told[:1], told[:2], told, told[1:], told[2:]])


LAWS: dict[str, Callable[[random.Random, Path], Outputs]] = {
    "views": views, "several aggregations": several, "stages": staged, "joins": joined,
}  # fmt: skip


def happened(rng: random.Random, source: int) -> list[Event]:
    """A short stream with late rows, silences, null values, duplicates and dead letters, in seconds."""
    return [
        replace(
            e, arrival=START + e.arrival * SECOND, event_time=None if e.dead else START + (e.event_time or 0) * SECOND,
            row={**e.row, "id": e.dedupe_key},
        )
        for e in randomgraphs.events(rng, source)
    ]  # fmt: skip


def the_law_holds(law: str, seed: int, root: Path, read_all: Callable[..., None]) -> int:
    """Files land bit by bit, each time a run of its own reads them, and says what the oracle says; gives how many results stand in the end."""
    rng = random.Random(seed)
    outputs = LAWS[law](rng, root)
    idle = rng.choice(["hold", "hold", "advance"])
    pipe = ev.Pipeline(
        "law",
        *outputs,
        state=str(root / "state"),
        archive=str(root / "archive"),
        buckets=rng.choice([1, 2]),
        when_all_idle=idle,
    )
    names = [source.name for source in pipe.sources]
    files = cut(
        [event for place in range(len(names)) for event in happened(rng, place)], names, rng, most=3, uneven=rng.random() < 0.5
    )
    first = [next(file for file in files if file.source == name) for name in names]  # by which the columns are known
    files = [*first, *(file for file in files if file not in first)]
    between = range(len(first), len(files))
    landing, ends = Landing(root / "in", pipe, COLUMNS), sorted(rng.sample(between, min(len(between), rng.choice([0, 1, 2]))))
    for low, high in zip([0, *ends], [*ends, len(files)], strict=True):
        landing.land(*files[low:high], later=rng.choice([0, 0, 3, 30]) * SECOND)
        read_all(landing, drain=high == len(files))
        assert_as_the_oracle_says(pipe, COLUMNS)
        if law == "views":
            the_filtered_table_is_the_filter_of_the_table(pipe)
    return sum(len(table_of(pipe, output.name, graph_of(pipe, COLUMNS))) for output in pipe.outputs)


def the_filtered_table_is_the_filter_of_the_table(pipe: ev.Pipeline) -> None:
    graph = graph_of(pipe, COLUMNS)
    whole, filtered = (table_of(pipe, name, graph) for name in ("whole", "filtered"))
    assert filtered == {at: values for at, values in whole.items() if values[1] is not None and values[1] > 4}
