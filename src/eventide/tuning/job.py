"""History through one Spark job: every lane is read once, in order, and the rows that need it meet W after the shuffle."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from eventide.lateness.witness import DISORDER, IDLENESS
from eventide.model.event import LaneId
from eventide.tuning.judgement import Judged, common_steps, judge_all, packed, unpacked
from eventide.tuning.lane_scan import CurveScanner, LaneFacts, Question

Record = tuple[str, LaneId, Any]
Chunks = Callable[[], Iterator[pl.DataFrame]]


@dataclass(frozen=True)
class LaneHistory:
    """One lane of history: who it is, and how a worker reads its chunks in order."""

    lane: LaneId
    chunks: Chunks


@dataclass
class Answer:
    """What history says, on the driver: small, whatever the number of rows."""

    question: Question
    facts: dict[LaneId, LaneFacts] = field(default_factory=dict)
    judged: Judged = field(default_factory=Judged)
    steps: pl.DataFrame = field(default_factory=pl.DataFrame)
    """W's steps under a bound of zero."""
    holder: LaneId | None = None
    freed: pl.DataFrame = field(default_factory=pl.DataFrame)
    """The same without the lane that holds W most often."""


def read_lane(question: Question, lane: LaneId, chunks: Iterable[pl.DataFrame], shares: int) -> Iterator[tuple[int, Record]]:
    """Before the shuffle: rows behind their lane go round among the shares, the lane's clock goes to all of them."""
    scanner, turn = CurveScanner(question, lane), 0
    for chunk in chunks:
        scanner.read(chunk)
        for cause, rows in zip((DISORDER, IDLENESS), scanner.take(), strict=True):
            if len(rows):
                yield turn % shares, ("rows", lane, (cause, packed(rows)))
                turn += 1
    facts, steps = scanner.close()
    body = packed(steps)
    for share in range(shares):
        yield share, ("steps", lane, body)
    yield 0, ("facts", lane, facts)


def judge_share(question: Question, share: int, records: Iterable[Record]) -> Iterator[Answer]:
    """After the shuffle: W from all lanes' clocks, then this share of the rows; the first share also tells of W itself."""
    lanes: dict[LaneId, pl.DataFrame] = {}
    rows: list[tuple[LaneId, str, bytes]] = []
    answer = Answer(question)
    for kind, lane, body in records:
        if kind == "steps":
            lanes[lane] = unpacked(body)
        elif kind == "rows":
            rows.append((lane, *body))
        else:
            answer.facts[lane] = body
    if lanes:
        steps = common_steps(question, lanes)
        answer.judged = judge_all(question, steps, rows)
        if share == 0:
            answer.steps, answer.holder = steps, _holder(steps)
            answer.freed = common_steps(question, lanes, without=answer.holder) if len(lanes) > 1 else steps
    yield answer


def _holder(steps: pl.DataFrame) -> LaneId | None:
    held = steps.group_by("source", "lane").len().sort("len", "source", "lane", descending=[True, False, False])
    return None if held.is_empty() else (int(held["source"][0]), str(held["lane"][0]))


def ask(spark: Any, question: Question, history: list[LaneHistory], rows: Any | None = None) -> Answer:
    """One Spark job over lanes that the workers open themselves, and over rows (see `RowHistory`) that come through Spark."""
    context = spark.sparkContext
    shares = max(2, int(context.defaultParallelism))

    def read(lane: LaneHistory) -> Iterator[tuple[int, Record]]:
        return read_lane(question, lane.lane, lane.chunks(), shares)

    parts = []
    if history:
        parts.append(context.parallelize(history, len(history)).flatMap(read))
    if rows is not None:
        parts.append(rows(question, shares))
    return _gathered(question, parts[0] if len(parts) == 1 else context.union(parts), shares)


def _gathered(question: Question, pairs: Any, shares: int) -> Answer:
    def judge(share: int, records: Iterator[tuple[int, Record]]) -> Iterator[Answer]:
        return judge_share(question, share, (record for _, record in records))

    return merged(question, pairs.partitionBy(shares, lambda share: share).mapPartitionsWithIndex(judge).collect())


def merged(question: Question, answers: Iterable[Answer]) -> Answer:
    """The shares' answers as one."""
    whole = Answer(question)
    for answer in answers:
        whole.facts.update(answer.facts)
        whole.judged.add(answer.judged)
        if answer.steps.width:
            whole.steps, whole.holder, whole.freed = answer.steps, answer.holder, answer.freed
    return whole
