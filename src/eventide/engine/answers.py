"""The answers to why: of a row, its place, W and verdicts; of a window, what was said of it and which rows it took."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import polars as pl
import pyarrow as pa

from eventide.definition.join import Join
from eventide.definition.output import Output
from eventide.engine.why import Asking, Found, NotAnswered, Read
from eventide.model.course import Silence
from eventide.model.event import Event, Position
from eventide.model.fate import Case
from eventide.model.lateness import Verdict
from eventide.model.reference import worst_of
from eventide.model.time import MAX_TIME, plus
from eventide.model.window import Bounds, Session
from eventide.sinks.shape import named_aside
from eventide.state.retention import removed_upto

PANE = ("window_id", "window_start", "window_end", "sequence", "op", "timing", "generation", "emitted_at")
MOST = 20
"""Refused rows of a window that are named."""


def of_row(asking: Asking, position: Position) -> dict[str, Any]:
    """What became of a row, and why."""
    found = asking.row(position)
    answer: dict[str, Any] = {
        "row": {**_named(asking, position), "event_time": found.event_time, "batch": found.batch, "values": found.values},
        "notes": _notes(asking, found.batch),
        "outputs": [],
    }
    if asking.waits(position):
        return {**answer, "fate": "waiting", "why": "not every lane has been read so far that it can be judged"}
    if found.dead is not None:
        return {**answer, "fate": "dead letter", "why": found.dead}
    heard, row = asking.heard(position), asking.event(found)
    answer |= _stood(asking, Case(asking.plan.sources, heard, row, (), None, asking.plan.when_all_idle))
    if found.marker:
        return {**answer, "fate": "marker", "why": "it says how far its lane is complete, and is no event"}
    fates = []
    for output in asking.pipeline.outputs:
        case = asking.case(row, Read(output), heard)
        if (first := case.duplicate_of) is not None:
            return {**answer, "fate": "duplicate", "why": "an equal row came before it", "duplicate_of": _named(asking, first)}
        fates.append(_of_output(asking, output, case, found))
    return {**answer, "fate": "judged", "why": "", "outputs": fates}


def _of_output(asking: Asking, output: Output, case: Case, found: Found) -> dict[str, Any]:
    read = Read(output)
    judged = case.judged(read.asked)
    verdict, w = worst_of(judged), case.stood.watermark
    remedy = case.remedy(read.asked) if verdict is Verdict.REFUSED else None
    own = read.asked.below[0][0] if read.asked.below else read.asked.window
    first = own.own(found.event_time or 0)[1] if isinstance(own, Session) else own.first_end(found.event_time or 0)
    late = None if verdict is Verdict.ON_TIME or w is None else w - first
    behind = case.stood.own is not None and case.stood.own >= first
    return {
        "output": output.name,
        "verdict": verdict.value,
        "by": "the join" if read.join is not None else "its windows",
        "windows": [{"start": start, "end": end, "verdict": one.value} for (start, end), one in judged],
        "late_by": late,
        "cause": None if late is None else "behind its own lane" if behind else "its lane had been idle",
        "allowed": read.asked.allowed,
        "kept": None if verdict is not Verdict.REFUSED else output.late.refused is not None,
        "would_have_kept_it": None
        if remedy is None
        else {"allowed": remedy.allowed, "bound": remedy.bound, "idle_after": remedy.idle_after},
        "panes": list(_panes_of_row(asking, output, read, [bounds for bounds, _ in judged], found)),
    }


def _panes_of_row(asking: Asking, output: Output, read: Read, bounds: list[Bounds], found: Found) -> Iterator[dict[str, Any]]:
    """What was said of the windows that it meets: of all sessions of its key that hold it, whatever their bounds were then."""
    keys = () if read.asked.below else read.keys

    def wanted(frame: pl.DataFrame) -> pl.Expr:
        if isinstance(output.aggregation, Join) or read.join is not None:
            names = [asking.pipeline.sources[found.position[1]].name, found.position[2]]
            place = f"{json.dumps(names, ensure_ascii=False)[:-1]}, {found.position[3]}]"
            return pl.col(named_aside("window_id", frame.columns)).str.contains(place, literal=True)
        start, end = (pl.col(named_aside(n, frame.columns)).dt.epoch("us") for n in ("window_start", "window_end"))
        same = [pl.col(key).eq_missing(pl.lit(found.values.get(key))) for key in keys]
        if isinstance(read.asked.window, Session):
            return pl.all_horizontal([start <= found.event_time, end > found.event_time, *same])
        met = pl.any_horizontal([(start == low) & (end == high) for low, high in bounds])
        return pl.all_horizontal([met, *same])

    for frame in _said(asking, output):
        yield from _panes(frame.filter(wanted(frame)))


def of_window(asking: Asking, output: Output, window_id: str) -> dict[str, Any]:
    """What was said of a window under its id, and which archived rows it took, admitted late or refused."""
    panes = [
        pane
        for frame in _said(asking, output)
        for pane in _panes(frame.filter(pl.col(named_aside("window_id", frame.columns)) == window_id))
    ]
    read, watermark = Read(output), asking.state.ledger.frontier.watermark
    if not panes:
        gone = "".join(f" But {note}" for note in _gone(asking))
        raise NotAnswered(
            f"output {output.name!r} has said nothing under the window_id {window_id!r}.{gone} Take it from the output's table, or ask by a row: "
            "source/lane/offset, or column=value."
        )
    start, end, allowed = panes[0]["window_start"], panes[0]["window_end"], read.asked.allowed
    answer = {
        "output": output.name, "window_id": window_id, "start": start, "end": end, "panes": panes, "notes": _notes(asking, -1),
        "watermark": watermark, "allowed": allowed, "state": _state(watermark, end, allowed),
        "holder": _lane(asking, None if asking.holder is None else asking.holder),
    }  # fmt: skip
    if read.join is not None or read.asked.below:
        what = "pairs of rows" if read.join is not None else "results of the windows below"
        return {**answer, "rows": None, "refused": [], "why": f"it is made of {what}: ask for a row to see how it came here"}
    return {**answer, **_rows_of(asking, output, read, (start, end), panes[0]["values"])}


def _rows_of(asking: Asking, output: Output, read: Read, bounds: Bounds, values: dict[str, Any]) -> dict[str, Any]:
    """The archived rows of a window by verdict; those that it refused by their places."""
    dedupe = read.duplicates(0)
    upto = asking.state.ledger.swept
    assert upto is not None, "something was said of a window"
    columns = (*read.keys, *dedupe)
    time = pl.col("__time").is_between(*bounds, closed="left")
    inside = pl.all_horizontal([time, *(pl.col(k).eq_missing(pl.lit(values.get(k))) for k in read.keys)])
    wanted = pl.lit(True) if dedupe else inside if not read.sessions else pl.lit(True)
    rows = asking.events(columns, (*upto[:3], plus(upto[3], 1)), wanted, dedupe)
    keyed = [
        Event(e.arrival, e.event_time, read.key(e.row), e.row, e.source, e.lane, e.offset, dedupe_key=e.dedupe_key)
        for e in rows
    ]
    key = tuple(values.get(name) for name in read.keys)
    mine = [e for e in keyed if e.key == key and e.event_time is not None and bounds[0] <= e.event_time < bounds[1]]
    if not mine:
        return {"rows": {verdict.value: 0 for verdict in Verdict}, "refused": [], "why": ""}
    last = mine[-1]
    before = [e for e in keyed if e.position < last.position]
    within = read.scope(0)[1]
    case = Case(asking.plan.sources, asking.heard(last.position), last, before, within, asking.plan.when_all_idle)
    judged, counts, refused = case.all_judged(read.asked), Counter[str](), list[dict[str, Any]]()
    for event in mine:
        met = judged.get(event.position, [])
        verdicts = [one for window, one in met if isinstance(read.asked.window, Session) or window == bounds]
        counts.update(one.value for one in verdicts)
        if Verdict.REFUSED in verdicts and len(refused) < MOST:
            refused.append({**_named(asking, event.position), "event_time": event.event_time})
    return {"rows": {verdict.value: counts[verdict.value] for verdict in Verdict}, "refused": refused, "why": ""}


def _state(watermark: int | None, end: int, allowed: int) -> str:
    if watermark is None or watermark < end:
        return "open"
    return "final" if watermark == MAX_TIME or watermark >= plus(end, allowed) else "closed"


def _stood(asking: Asking, case: Case) -> dict[str, Any]:
    stood, moved = case.stood, case.stood.moved
    by: dict[str, Any] | None = None
    if isinstance(moved, Silence):
        lanes = [_lane(asking, lane) for lane in moved.lanes]
        by = {"silence": moved.instant, "lanes": lanes}
    elif moved is not None:
        by = {**_named(asking, moved), "event_time": asking.row(moved).event_time}
    return {
        "watermark": stood.watermark,
        "moved_by": by,
        "holder": _lane(asking, stood.holder),
        "lane": {"watermark": stood.own, "idle": stood.idle},
    }


def _named(asking: Asking, position: Position) -> dict[str, Any]:
    return {
        "source": asking.pipeline.sources[position[1]].name, "lane": position[2], "offset": position[3], "arrival": position[0],
    }  # fmt: skip


def _lane(asking: Asking, lane: tuple[int, str] | None) -> str | None:
    return None if lane is None else f"{asking.pipeline.sources[lane[0]].name}/{lane[1]}"


def _notes(asking: Asking, batch: int) -> list[str]:
    """What stands between the archive's answer, which goes by the definition as it is now, and what was said then."""
    changes = [c for c in asking.changes if c["after_batch"] >= batch]
    return _gone(asking) + [
        f"{c['setting']} was {c['from']} up to batch {c['after_batch']}, and is {c['to']} now: rows up to there were judged by the older one."
        for c in changes
    ]


def _gone(asking: Asking) -> list[str]:
    upto = removed_upto(asking.state)
    if upto < 0:
        return []
    return [f"what was said in batches up to {upto} is not here any more: keep=… or eventide state --clean has removed it."]


def _said(asking: Asking, output: Output) -> Iterator[pl.DataFrame]:
    for batch in asking.state.store.batches(asking.state.panes(output.name)):
        frame = pl.from_arrow(pa.Table.from_batches([batch]))
        assert isinstance(frame, pl.DataFrame)
        yield frame


def _panes(frame: pl.DataFrame) -> Iterator[dict[str, Any]]:
    ours = {name: named_aside(name, frame.columns) for name in PANE}
    times = [
        pl.col(ours[name]).dt.epoch("us")
        for name in ("window_start", "window_end", "emitted_at")
        if ours[name] in frame.columns
    ]
    for row in frame.with_columns(times).iter_rows(named=True):
        values = {name: value for name, value in row.items() if name not in ours.values()}
        yield {**{name: row[column] for name, column in ours.items() if column in row}, "values": values}


__all__ = ["of_row", "of_window"]
