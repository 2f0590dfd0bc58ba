"""Any pipeline over files: events as files that land bit by bit, runs that read them, and what the oracle says of the rows that were archived."""

from __future__ import annotations

import json
import os
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl
from agreement import alike
from crash_driver import Here, Listed
from inline import micros
from told import archived_events

import eventide as ev
from eventide.definition.join import Join as JoinDefinition
from eventide.engine.batch.rows import AUDIT
from eventide.engine.run import Run
from eventide.model.event import Event
from eventide.model.graph import Aggregation, Graph, Join, Node, Reading, Results, Rows
from eventide.model.oracle import Oracle
from eventide.model.pane import RETRACT
from eventide.model.plan import OutputPlan, SourcePlan
from eventide.model.soundness import joined_columns
from eventide.model.time import MAX_TIME
from eventide.state.state import State

SECOND = 1_000_000
START = 1_700_000_000 * SECOND
WHEN = pl.Datetime("us", "UTC")
VERDICTS = ("on_time", "admitted", "refused")
Columns = Mapping[str, Mapping[str, pl.DataType]]
"""By source, the columns of its rows beside `ts` and `at`."""
Table = dict[Any, tuple[Any, ...]]


# --- landing


@dataclass(frozen=True)
class File:
    """Rows of one lane that land together."""

    source: str
    events: Sequence[Event]

    @property
    def last(self) -> int:
        """When the last of its rows arrived."""
        return self.events[-1].arrival


def cut(events: Sequence[Event], names: Sequence[str], rng: random.Random, most: int = 4, uneven: bool = False) -> list[File]:
    """Each lane as up to so many files, in the order in which they land: as they arrived, or as lanes happen to be ahead of others."""
    lanes: dict[Any, list[Event]] = {}
    for event in events:
        lanes.setdefault(event.lane_id, []).append(event)
    waiting = {lane: _pieces(rows, names[lane[0]], rng.randint(1, most), rng) for lane, rows in sorted(lanes.items())}
    if not uneven:
        return sorted((file for files in waiting.values() for file in files), key=lambda file: file.last)
    drawn = []
    while waiting:
        lane = rng.choice(sorted(waiting))
        drawn.append(waiting[lane].pop(0))
        waiting = {lane: files for lane, files in waiting.items() if files}
    return drawn


def _pieces(rows: list[Event], name: str, number: int, rng: random.Random) -> list[File]:
    ends = sorted(rng.sample(range(1, len(rows)), min(number, len(rows)) - 1))
    return [File(name, rows[low:high]) for low, high in zip([0, *ends], [*ends, len(rows)], strict=True)]


@dataclass
class Landing:
    """A directory for each source, a pipeline that reads them, and a clock that we move."""

    root: Path
    pipe: ev.Pipeline
    columns: Columns
    now: int = START
    written: int = 0
    unread: list[tuple[str, Path]] = field(default_factory=list)
    """For a run without Spark, which nobody tells what it has read."""

    def land(self, *files: File, later: int = 0) -> None:
        """These files are there now, and so much time has gone by since their last row."""
        for file in files:
            kinds = self.columns[file.source]
            times = {"ts": [e.event_time for e in file.events], "at": [e.arrival for e in file.events]}
            own = {name: [e.row.get(name) for e in file.events] for name in kinds}
            path = self.root / file.source / file.events[0].lane / f"{self.written:05d}.parquet"
            path.parent.mkdir(parents=True, exist_ok=True)
            frame = pl.DataFrame({**times, **own}, schema={"ts": pl.Int64, "at": pl.Int64, **kinds})
            frame.with_columns(pl.col("ts", "at").cast(WHEN)).write_parquet(path)
            os.utime(path, (START // SECOND + self.written,) * 2)
            self.unread.append((file.source, path))
            self.written += 1
            self.now = max(self.now, file.last)
        self.now += later

    def read_here(self, *, drain: bool = False) -> None:
        """A run of its own over all that has landed, without Spark."""
        run = self._opened(Here())
        while self.unread:
            taken = self._taken()
            self.unread = [one for one in self.unread if one not in taken]
            self._batch(run, taken)
        if drain:
            self._batch(run, [], drain=True)
        run.close()

    def _taken(self) -> list[tuple[str, Path]]:
        taken = []
        for source in self.pipe.sources:
            ready = [one for one in self.unread if one[0] == source.name]
            taken += ready[: source.files_per_batch]
        return taken

    def _batch(self, run: Run, taken: list[tuple[str, Path]], drain: bool = False) -> None:
        names = [source.name for source in self.pipe.sources]
        files = [(str(path), path.stat().st_mtime_ns // 1000) for _, path in taken]
        run.batch(Listed(files, [names.index(name) for name, _ in taken]), run.ledger.batch + 1, drain=drain)

    def read_on_spark(self, spark: Any, *, drain: bool = False) -> None:
        """The same, driven by Structured Streaming."""
        run = self._opened(spark)
        try:
            run.start(available_now=True).awaitTermination()
            if drain:
                run.drain()
        finally:
            run.close()
        self.unread = []

    def _opened(self, spark: Any) -> Run:
        for source in self.pipe.sources:
            (self.root / source.name).mkdir(parents=True, exist_ok=True)
        run = Run(self.pipe, spark, str(self.pipe.state), clock=lambda: self.now)
        run.open()
        return run


# --- the oracle


def graph_of(pipe: ev.Pipeline, columns: Columns) -> Graph:
    """What a pipeline means to the oracle, over the lanes that its state has waited for."""
    waited = State.of(pipe).lanes
    sources = tuple(SourcePlan(s.watermark, tuple(waited[s.name]), s.idle_after) for s in pipe.sources)
    nodes, named = _roots(pipe, columns), list[tuple[Any, str]]()
    root = nodes[-1].name
    outputs = [Reading(root, OutputPlan(audit.name)) for audit in pipe.audits]
    for one in (*pipe.aggregations, *pipe.stages):
        if not isinstance(one, JoinDefinition):
            of = root
            if one.over is not None:
                below = next(name for known, name in named if known == one.over.aggregation)
                nodes.append(Results(of := f"results {len(nodes)}", below, one.over.late.allowed, one.over.view))
            nodes.append(Aggregation(f"aggregation {len(nodes)}", of, one.window, one.keys, one.aggregates))
        named.append((one, nodes[-1].name))
        outputs += [Reading(nodes[-1].name, output) for output in pipe.plan(aggregation=one).outputs]
    return Graph(sources, tuple(nodes), tuple(outputs), pipe.when_all_idle)


def _roots(pipe: ev.Pipeline, columns: Columns) -> list[Node]:
    """The stream, or the sides of a join and the join."""
    known = [dict.fromkeys(("ts", "at", *columns[s.name]), "") for s in pipe.sources]
    if pipe.join is not None:
        return list(pipe.join.meaning(known[0], known[-1]).nodes)
    return [Rows("the stream", tuple(range(len(known))), tuple(known[0].items()), pipe.stream.dedupe_within)]


def oracle_of(pipe: ev.Pipeline, columns: Columns) -> Oracle:
    """One event at a time as they are archived, as far as the runs have swept; to the end of the input if they have ended it."""
    ledger, engine = State.of(pipe).ledger, Oracle(graph_of(pipe, columns))
    for event in archived_events(pipe):
        if event.position <= ledger.swept:
            engine.event(event)
    if ledger.frontier.watermark == MAX_TIME:
        engine.drain()
    else:
        engine.pass_time(ledger.swept[0])
        engine.look()
    return engine


def assert_as_the_oracle_says(pipe: ev.Pipeline, columns: Columns) -> Oracle:
    """The same tables, refused rows and audited events; at the end of the input also the same verdicts."""
    engine, ledger = oracle_of(pipe, columns), State.of(pipe).ledger
    ended = ledger.frontier.watermark == MAX_TIME
    for reading in engine.graph.outputs:
        if isinstance(engine.graph.node(reading.of), Rows):
            judged = Counter((e.source, e.lane, e.offset) for said, e in engine.audit if said == reading.output.name)
            assert (
                _audited(pipe) >= judged if not ended else _audited(pipe) == judged
            )  # some are sure before the sweep comes to them
        else:
            _same_results(pipe, reading, engine)
    if ended:
        _same_verdicts(engine, ledger)
    return engine


def _same_results(pipe: ev.Pipeline, reading: Reading, engine: Oracle) -> None:
    name = reading.output.name
    mine, theirs = table_of(pipe, name, engine.graph), said_by_the_oracle(engine, name)
    assert mine.keys() == theirs.keys(), (reading, mine.keys() ^ theirs.keys())
    wrong = {at: (mine[at], theirs[at]) for at in mine if not alike(mine[at], theirs[at])}
    assert not wrong, (reading, wrong)
    if pipe.output(name).late.refused is not None:
        refused = [row for row in engine.late if row.output in (name, reading.of)]
        assert _late(pipe, name) == Counter((r.event.source, r.event.lane, r.event.offset) for r in refused), reading


def table_of(pipe: ev.Pipeline, name: str, graph: Graph) -> Table:
    """What stands of an output, by window and key, or by the places of a pair's rows."""
    node = graph.node(next(r.of for r in graph.outputs if r.output.name == name))
    best: dict[Any, tuple[tuple[int, bool], tuple[Any, ...]]] = {}
    for row in _rows(pipe, f"panes/{name}"):
        bounds, rank = (row["window_start"], row["window_end"]), (row["sequence"], row["op"] == RETRACT)
        if isinstance(node, Join):
            at, values = (bounds, _places(row["window_id"], pipe)), [row[c] for c, _ in joined_columns(graph, node)]
        else:
            assert isinstance(node, Aggregation)
            shown = pipe.output(name).view.names(node.keys, [c for c, _ in node.aggregates], name)
            at, values = (bounds, tuple(row[key] for key in node.keys)), [row[c] for c in shown]
        if at not in best or rank > best[at][0]:
            best[at] = (rank, tuple(values))
    return {at: values for at, (rank, values) in best.items() if not rank[1]}


def said_by_the_oracle(engine: Oracle, name: str) -> Table:
    """The table that its panes make."""
    best: dict[Any, Any] = {}
    for pane in engine.panes:
        if pane.output == name and (pane.window_id not in best or pane.rank > best[pane.window_id].rank):
            best[pane.window_id] = pane
    return {(pane.window, pane.key): tuple(pane.values.values()) for pane in best.values() if pane.op != RETRACT}


def _places(window_id: str, pipe: ev.Pipeline) -> Any:
    names = [source.name for source in pipe.sources]
    return tuple(place and (names.index(place[0]), *place[1:]) for place in json.loads(window_id))


def _same_verdicts(engine: Oracle, ledger: Any) -> None:
    for what in ("in", "dead", "duplicates"):
        assert ledger.rows[what] == engine.state.rows[what], what
    for reading in engine.graph.outputs:
        node = engine.graph.node(reading.of)
        if isinstance(node, Join):
            assert engine.pairing is not None
            for side, counts in zip(("left", "right"), engine.pairing.counts, strict=True):
                assert {v: ledger.rows[f"{side}_{v}"] for v in VERDICTS} == {v: counts[v] for v in VERDICTS}, side
        elif isinstance(node, Aggregation):
            mine, theirs = ledger.outputs[reading.output.name], engine.counts(reading.output.name)
            assert {v: mine[v] for v in VERDICTS} == {v: theirs[v] for v in VERDICTS}, reading


def _late(pipe: ev.Pipeline, name: str) -> Counter[Any]:
    return Counter((row["_source"], row["_lane"], row["_offset"]) for row in _rows(pipe, f"late/{name}"))


def _audited(pipe: ev.Pipeline) -> Counter[Any]:
    return Counter((row["_source"], row["_lane"], row["_offset"]) for row in _rows(pipe, AUDIT))


def _rows(pipe: ev.Pipeline, directory: str) -> list[dict[str, Any]]:
    state = State.of(pipe)
    return [row for batch in state.store.batches(state.tables(directory)) for row in micros(batch).to_pylist()]
