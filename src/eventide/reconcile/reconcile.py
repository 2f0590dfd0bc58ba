"""`reconcile`: an output's results against the archive, its own late rows, or an outside table."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from eventide.definition.output import Output
from eventide.engine.spark_session import session_for
from eventide.errors import DefinitionError
from eventide.kernel import place
from eventide.model.aggregate import Aggregate
from eventide.model.time import Instant, instant, plus, show_instant
from eventide.model.window import Sliding
from eventide.pipeline import Pipeline
from eventide.reconcile import compare, outside, split
from eventide.reconcile.compare import PERIODS, ROWS, Scope, adds, folds
from eventide.reconcile.corrections import CorrectionsTable, Hook
from eventide.reconcile.exact import combined, is_exact, quoted
from eventide.reconcile.replay import COMPLETE, Replay, missed_windows, refuse_view, replay_archive, replay_rows, standing
from eventide.reconcile.report import DEAD, EMITTED, LATE, REFERENCE, Line, Report, balanced
from eventide.sinks.sql import SqlSink
from eventide.state.archive import archived_files
from eventide.state.ledger import Ledger
from eventide.state.retention import refuse_removed
from eventide.state.state import State

OWN = frozenset({"window_id", "window_start", "window_end", "window_day", "rows", "run_id", "late_rows"})
EMPTY = ("window_id", "window_start", "window_end", "sequence", "op", "timing")
"""The columns of panes where there is none yet."""


@dataclass(frozen=True)
class Reconciliation:
    """What was found and written."""

    run_id: str
    output: str
    corrections: Any
    """One row for each window and key that was wrong, as a DataFrame."""
    corrected: int
    report: Report
    table: str | None
    view: str | None
    horizon: int


def reconcile(
    pipeline: Pipeline,
    output: str | None = None,
    *,
    against: Any = "archive",
    by: str = "window",
    since: Instant | None = None,
    until: Instant | None = None,
    identity: tuple[str, ...] | list[str] = (),
    spark: Any = None,
    hook: Hook = lambda point: None,
) -> Reconciliation:
    """Compare what an output emitted with what is complete, for all windows that can change no more; write the corrections.

    `against` is "archive", "late" (the rows that the output diverted, folded in), or an outside DataFrame: results by window
    (window_start, the keys, the aggregates) or plain rows. `identity` names the columns that make a row the same in both, so that
    the gap to outside rows can be split row by row. `since` and `until` are widened to whole days (UTC).
    """
    chosen = pipeline.output(output)
    if isinstance(against, str) and against == "late":
        _refuse_unkept(pipeline, chosen)
    pipeline = pipeline.around(chosen)
    _check(pipeline, chosen, by)
    session = session_for(pipeline, spark)
    # Up to the horizon windows are final.
    horizon, batch = plus(closed_upto(pipeline), -chosen.late.allowed), _last(pipeline).batch
    scope = Scope(horizon, _day(since, 0), _day(until, -1))
    base = scope.of(standing(_panes(pipeline, chosen, session), chosen))
    what = against if isinstance(against, str) else "outside"
    run_id = f"{pipeline.name}/{chosen.name}/{what}/batch-{batch}"
    if identity and what != "outside":
        raise DefinitionError(
            f"identity={list(identity)} splits the gap to an outside table; against {against!r} there is none. Leave it out."
        )
    if what == "archive":
        truth, late, report = _archive(pipeline, chosen, session, scope, base)
    elif what == "late":
        truth, late, report = _late(pipeline, chosen, session, scope, base)
    elif what == "outside":
        truth, late, report = _outside(pipeline, chosen, session, scope, base, against, tuple(identity))
    else:
        raise DefinitionError(f'against is {against!r}; it must be "archive", "late" or a DataFrame.')
    if by != "window":
        base, truth = compare.by_period(base, chosen, by), compare.by_period(truth, chosen, by)
        late = None if late is None else compare.by_period(late, chosen, by, ("late_rows",))
    found = compare.corrections(base, truth, late, chosen, run_id).cache()
    compare.refuse_too_large(found, chosen)
    table = view = None
    corrected = found.count()
    if what == "archive" or (what == "outside" and not report.lines[0].values):
        report = replace(report, strange=found.where("rows = 0").count())
    if what != "late":
        report = replace(report, rounding=compare.rounding(truth, chosen))
    if isinstance(chosen.sink, SqlSink):
        kept = CorrectionsTable(chosen, by)
        corrected = kept.write(found.toArrow(), (scope.first_day, scope.last_day), hook)
        table, view = kept.table, kept.view
    return Reconciliation(run_id, chosen.name, found, corrected, report, table, view, horizon)


def _check(pipeline: Pipeline, output: Output, by: str) -> None:
    pipeline.refuse_join("reconciliation")
    if by != "window" and by not in PERIODS:
        raise DefinitionError(f"corrections by {by!r}; they may be by window, {', '.join(PERIODS)}.")
    refuse_view(output)
    if output.aggregation.over is not None:
        raise DefinitionError(
            f"output {output.name!r} is of a stage, whose windows are made of results, not of rows that could be folded in. Reconcile an output of "
            f"{output.aggregation.below[0].window}, which it is made of, or compute it again: pipeline.backfill(deliver=True)."
        )
    if not isinstance(pipeline.aggregation.window, Sliding):
        raise DefinitionError(
            "sessions cannot be corrected one by one: a late row may join two into one. pipeline.backfill(deliver=True) computes them again "
            "from the archive, under a generation whose results take the place of those that are final."
        )
    taken = sorted(OWN & set(output.aggregation.keys))
    if taken:
        raise DefinitionError(
            f"a table of corrections has columns of its own called {', '.join(taken)}, and so have the keys of output {output.name!r}. "
            "Give the keys other names in a transform."
        )


def _last(pipeline: Pipeline) -> Ledger:
    """The ledger of the last batch, if it has closed a window and all that was said is still there."""
    if pipeline.state is not None:
        refuse_removed(State.of(pipeline), "a reconciliation")
    ledger = None if pipeline.state is None else State.of(pipeline).committed
    if ledger is None or ledger.frontier.watermark is None:
        raise DefinitionError(
            f"pipeline {pipeline.name!r} has closed no window in {pipeline.state} yet; there is nothing to reconcile."
        )
    return ledger


def closed_upto(pipeline: Pipeline) -> int:
    """W: windows that end at or before it have had their result on time."""
    mark = _last(pipeline).frontier.watermark
    assert mark is not None
    return mark


def _panes(pipeline: Pipeline, output: Output, spark: Any) -> Any:
    panes = pipeline.panes(spark, output.name)
    if not set(output.aggregation.keys) <= set(panes.columns) or len(panes.columns) <= len(EMPTY):
        raise DefinitionError(f"output {output.name!r} has emitted nothing yet; there is nothing to reconcile.")
    return panes


def _day(value: Instant | None, nudge: int) -> int | None:
    return None if value is None else (instant(value) + nudge) // compare.DAY


def _emitted(base: Any, output: Output, rows: int | None = None) -> Line:
    counted = next(
        (name for name, what in output.aggregation.aggregates if adds(what) and what.kind == "count" and not what.column), None
    )
    values = compare.totals(base, output)
    return Line(EMITTED, values.get(counted) if counted else rows, values)


def _late_line(late: Any, output: Output) -> Line:
    values = compare.totals(late, output, "late_rows")
    return Line(LATE, int(values.pop("__rows", 0)), values)


def _archive(pipeline: Pipeline, output: Output, spark: Any, scope: Scope, base: Any) -> tuple[Any, Any, Report]:
    again = replay_archive(pipeline, output, spark)
    _check_archive(pipeline, again, scope)
    truth = scope.of(again.last(COMPLETE)).cache()
    late = _late_windows(again.late(), pipeline, output, scope, base)
    whole = compare.totals(truth, output, ROWS)
    reference = Line(REFERENCE, int(whole.pop("__rows", 0)), whole)
    parts = [_late_line(late, output)]
    emitted = _emitted(base, output, (reference.rows or 0) - (parts[0].rows or 0))
    return truth, late, balanced(emitted, parts, reference, _notes(again, scope))


def _late_windows(
    rows: Any, pipeline: Pipeline, output: Output, scope: Scope, base: Any, taken: Callable[[Aggregate], bool] = adds
) -> Any:
    from pyspark.sql import functions as F

    if {*rows.columns} <= {column.name for column in place.LATE}:  # no row was ever refused, and none shows the user's columns
        kept = [n for n, what in output.aggregation.aggregates if taken(what)]
        columns = ["window_start", "window_end", *output.aggregation.keys, *kept]
        return base.select(*map(quoted, columns)).withColumn("late_rows", F.lit(0).cast("long")).limit(0)
    return scope.of(compare.late_by_window(missed_windows(rows, pipeline), output, taken=taken)).cache()


def _check_archive(pipeline: Pipeline, again: Replay, scope: Scope) -> None:
    """What came before the archive was kept, or was deleted from it, must not be taken for rows that never were."""
    heard, holds = _last(pipeline).rows["in"], again.rows.get("in", 0)
    if holds == heard:
        return
    days = [day for file in archived_files(pipeline) for day in re.findall("arrival_day=([0-9-]+)", file.path)]
    first = dt.date.fromisoformat(min(days)) + dt.timedelta(days=1)
    if scope.first_day is None or scope.first_day < (first - dt.date(1970, 1, 1)).days:
        raise DefinitionError(
            f"the run read {heard:,} rows and the archive {pipeline.archive} holds {holds:,}: windows from before it would be corrected down to "
            f'nothing. Nothing was written. Reconcile the days that it has: since="{first}T00:00:00Z" (--since).'
        )


def _notes(again: Replay, scope: Scope) -> list[str]:
    """Rows that no window holds, by name."""
    notes = [f"windows that end after {show_instant(scope.horizon)} may still change and are left out"]
    for name, text in (
        ("dead", "dead letters: in no window, kept with their bytes"),
        ("duplicates", "duplicates: counted once"),
    ):
        if again.rows.get(name):
            notes.append(f"{again.rows[name]:,} {text}")
    return notes


def _refuse_unkept(pipeline: Pipeline, output: Output) -> None:
    """Late rows can be folded in only where they were kept."""
    if output.late.refused is not None:
        return
    others = ", ".join(repr(other.name) for other in pipeline.outputs if other.late.refused is not None)
    raise DefinitionError(
        f"output {output.name!r} keeps no late rows ({output.late}). Use divert(…), or reconcile against the archive"
        + (f", or an output that keeps them (--output): {others}." if others else ".")
    )


def _late(pipeline: Pipeline, output: Output, spark: Any, scope: Scope, base: Any) -> tuple[Any, Any, Report]:
    from pyspark.sql import functions as F

    wrong = [name for name, what in output.aggregation.aggregates if not folds(what)]
    if wrong:
        raise DefinitionError(f"late rows cannot be folded into {', '.join(wrong)} afterwards; reconcile against the archive.")
    late = _late_windows(pipeline.late(spark, output.name), pipeline, output, scope, base, folds)
    on = ["window_start", "window_end", *output.aggregation.keys]
    b, x = base.alias("b"), late.alias("x")
    same = compare.every([F.col(f"b.{quoted(n)}").eqNullSafe(F.col(f"x.{quoted(n)}")) for n in on])
    columns = [F.coalesce(F.col(f"b.{quoted(n)}"), F.col(f"x.{quoted(n)}")).alias(n) for n in on]
    joined = b.join(x, same, "full_outer")
    for name, what in output.aggregation.aggregates:
        was, more = F.col(f"b.{quoted(name)}"), F.col(f"x.{quoted(name)}")
        added = _added(joined, name, (base.schema[name].dataType, late.schema[name].dataType)) if adds(what) else None
        larger = compare.greatest if compare.is_float(base, name) else F.greatest
        folded = {"min": F.least, "max": larger}
        columns.append((folded[what.kind](was, more) if added is None else added).alias(name))
    truth = joined.select(*columns).cache()
    return truth, late, balanced(_emitted(base, output), [_late_line(late, output)], None, [])


def _added(joined: Any, name: str, kinds: tuple[Any, Any]) -> Any:
    """What was emitted and what came late in one; null where neither says a value."""
    from pyspark.sql import functions as F

    was, more = F.col(f"b.{quoted(name)}"), F.col(f"x.{quoted(name)}")
    known = was.isNotNull() | more.isNotNull()
    if not all(map(is_exact, kinds)):
        return F.when(known, F.coalesce(was, F.lit(0)) + F.coalesce(more, F.lit(0)))
    added = combined(was, more, kinds, +1, into=kinds[0])
    ends = F.coalesce(F.col("b.window_start"), F.col("x.window_start"))
    lost = (
        joined.where(known & added.isNull())
        .select(F.unix_micros(ends).alias("start"), was.alias("was"), more.alias("more"))
        .first()
    )
    if lost is not None:
        raise compare.too_large(name, kinds[0], f"{lost['start']}:", lost["was"], f"{lost['more']} more")
    return F.when(known, added)


def _outside(
    pipeline: Pipeline, output: Output, spark: Any, scope: Scope, base: Any, frame: Any, identity: tuple[str, ...]
) -> tuple[Any, Any, Report]:
    rows = None if "window_start" in frame.columns else frame
    if identity:
        split.refuse_identity(pipeline, spark, rows, identity)
    theirs = None if rows is None else replay_rows(pipeline, rows, spark, keep=bool(identity))
    truth = scope.of(outside.results(frame, pipeline, output, base) if theirs is None else theirs.last(COMPLETE)).cache()
    whole = compare.totals(truth, output, ROWS if ROWS in truth.columns else None)
    reference = Line(REFERENCE, whole.pop("__rows", None), whole)
    again = replay_archive(pipeline, output, spark) if pipeline.archive else None
    refused = again.late() if again else pipeline.late(spark, output.name) if output.late.refused is not None else None
    late = None if refused is None else _late_windows(refused, pipeline, output, scope, base)
    parts = [] if late is None else [_late_line(late, output)]
    notes = [] if again is None else _notes(again, scope)
    if theirs is not None and theirs.rows.get("dead"):
        notes.append(
            f"{theirs.rows['dead']:,} rows of the outside table have no event time that can be read: in no window, and not in the reference"
        )
    if theirs is not None and identity:
        parts += split.by_identity(pipeline, output, spark, scope, theirs, identity)
    elif again is not None and again.rows.get("dead"):
        notes.append(f"name the columns that identify a row (identity=[…]) to split off the {DEAD} and what never arrived")
    return truth, late, balanced(_emitted(base, output), parts, reference, notes)
