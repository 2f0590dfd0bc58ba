"""`reconcile`: an output's results against the archive, its own late rows, or an outside table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from eventide.definition import Output
from eventide.engine.journal import Journal
from eventide.engine.records import record_files
from eventide.engine.session import local_session
from eventide.errors import DefinitionError
from eventide.model.time import Instant, instant, plus, show_instant
from eventide.pipeline import Pipeline
from eventide.reconcile import compare, split
from eventide.reconcile.books import Books, Hook
from eventide.reconcile.compare import ADDED, FOLDED, PERIODS, Scope
from eventide.reconcile.replay import COMPLETE, ROWS, Replay, missed_windows, replay_archive, replay_rows, standing
from eventide.reconcile.report import DEAD, EMITTED, LATE, REFERENCE, Line, Report, balanced
from eventide.sinks.sql import SqlSink


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
    chosen = pipeline._output(output)
    session = spark or local_session(pipeline.packages(), name=pipeline.name)
    if by != "window" and by not in PERIODS:
        raise DefinitionError(f"corrections by {by!r}; they may be by window, {', '.join(PERIODS)}.")
    horizon, batch = _horizon(pipeline, chosen)
    scope = Scope(horizon, _day(since, 0), _day(until, -1))
    base = scope.of(standing(pipeline.panes(session, chosen.name), chosen))
    what = against if isinstance(against, str) else "outside"
    run_id = f"{pipeline.name}/{chosen.name}/{what}/batch-{batch}"
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
    table = view = None
    corrected = found.count()
    if isinstance(chosen.sink, SqlSink):
        books = Books(chosen, by)
        corrected = books.write(found.toArrow(), (scope.first_day, scope.last_day), hook)
        table, view = books.table, books.view
    return Reconciliation(run_id, chosen.name, found, corrected, report, table, view, horizon)


def _horizon(pipeline: Pipeline, output: Output) -> tuple[int, int]:
    """Up to which end windows are final, and the batch that says so."""
    last = Journal(record_files(str(pipeline.state))).last()
    mark = last["ledger"]["frontier"]["watermark"] if last else None
    if last is None or mark is None:
        raise DefinitionError(
            f"pipeline {pipeline.name!r} has closed no window in {pipeline.state} yet; there is nothing to reconcile."
        )
    return plus(mark, -output.late.allowed), int(last["ledger"]["batch"])


def _day(value: Instant | None, nudge: int) -> int | None:
    return None if value is None else (instant(value) + nudge) // compare.DAY


def _emitted(base: Any, output: Output, rows: int | None = None) -> Line:
    counted = next((name for name, what in output.aggregation.aggregates if what.kind == "count" and not what.column), None)
    values = compare.totals(base, output)
    return Line(EMITTED, values.get(counted) if counted else rows, values)


def _late_line(late: Any, output: Output) -> Line:
    values = compare.totals(late, output, "late_rows")
    return Line(LATE, int(values.pop("__rows", 0)), values)


def _archive(pipeline: Pipeline, output: Output, spark: Any, scope: Scope, base: Any) -> tuple[Any, Any, Report]:
    again = replay_archive(pipeline, output, spark)
    truth = scope.of(again.last(COMPLETE)).cache()
    late = _late_windows(again.late(), pipeline, output, scope)
    whole = compare.totals(truth, output, ROWS)
    reference = Line(REFERENCE, int(whole.pop("__rows", 0)), whole)
    parts = [] if late is None else [_late_line(late, output)]
    refused = parts[0].rows or 0 if parts else 0
    emitted = _emitted(base, output, (reference.rows or 0) - refused)
    return truth, late, balanced(emitted, parts, reference, _notes(pipeline, again, scope))


def _late_windows(rows: Any, pipeline: Pipeline, output: Output, scope: Scope, names: frozenset[str] = ADDED) -> Any | None:
    from eventide.model.window import Sliding

    if not isinstance(pipeline.aggregation.window, Sliding):
        return None
    return scope.of(compare.late_by_window(missed_windows(rows, pipeline), output, names=names)).cache()


def _notes(pipeline: Pipeline, again: Replay, scope: Scope) -> list[str]:
    """Rows that no window holds, by name."""
    notes = [f"windows that end after {show_instant(scope.horizon)} may still change and are left out"]
    last = Journal(record_files(str(pipeline.state))).last()
    heard = int(last["ledger"]["rows"].get("in", 0)) if last else 0
    if again.rows.get("in", 0) != heard:
        notes.append(
            f"the run read {heard:,} rows and the archive holds {again.rows.get('in', 0):,}: the rest came before it was kept"
        )
    for name, text in (
        ("dead", "dead letters: in no window, kept with their bytes"),
        ("duplicates", "duplicates: counted once"),
    ):
        if again.rows.get(name):
            notes.append(f"{again.rows[name]:,} {text}")
    return notes


def _late(pipeline: Pipeline, output: Output, spark: Any, scope: Scope, base: Any) -> tuple[Any, Any, Report]:
    from pyspark.sql import functions as F

    if output.late.refused is None:
        raise DefinitionError(
            f"output {output.name!r} keeps no late rows ({output.late}). Use divert(…), or reconcile against the archive."
        )
    wrong = [name for name, what in output.aggregation.aggregates if what.kind not in FOLDED]
    if wrong:
        raise DefinitionError(f"late rows cannot be folded into {', '.join(wrong)} afterwards; reconcile against the archive.")
    late = _late_windows(pipeline.late(spark, output.name), pipeline, output, scope, FOLDED)
    if late is None:
        raise DefinitionError("late rows of sessions cannot be folded in; reconcile against the archive.")
    on = ["window_start", "window_end", *output.aggregation.keys]
    b, x = base.alias("b"), late.alias("x")
    same = compare._all([F.col(f"b.{compare._q(n)}").eqNullSafe(F.col(f"x.{compare._q(n)}")) for n in on])
    folds = {"min": F.least, "max": F.greatest}
    columns = [F.coalesce(F.col(f"b.{compare._q(n)}"), F.col(f"x.{compare._q(n)}")).alias(n) for n in on]
    for name, what in output.aggregation.aggregates:
        was, more = F.col(f"b.{compare._q(name)}"), F.col(f"x.{compare._q(name)}")
        added = F.coalesce(was, F.lit(0)) + F.coalesce(more, F.lit(0))
        columns.append((added if what.kind in ADDED else folds[what.kind](was, more)).alias(name))
    truth = b.join(x, same, "full_outer").select(*columns).cache()
    return truth, late, balanced(_emitted(base, output), [_late_line(late, output)], None, [])


def _outside(
    pipeline: Pipeline, output: Output, spark: Any, scope: Scope, base: Any, frame: Any, identity: tuple[str, ...]
) -> tuple[Any, Any, Report]:
    if "window_start" in frame.columns:
        truth, rows = scope.of(split.with_ends(frame, pipeline)).cache(), None
    else:
        truth, rows = scope.of(replay_rows(pipeline, frame, spark).last(COMPLETE)).cache(), frame
    whole = compare.totals(truth, output, ROWS if ROWS in truth.columns else None)
    reference = Line(REFERENCE, whole.pop("__rows", None), whole)
    again = replay_archive(pipeline, output, spark) if pipeline.archive else None
    refused = again.late() if again else pipeline.late(spark, output.name) if output.late.refused is not None else None
    late = None if refused is None else _late_windows(refused, pipeline, output, scope)
    parts = [] if late is None else [_late_line(late, output)]
    notes = [] if again is None else _notes(pipeline, again, scope)
    if rows is not None and again is not None and identity:
        parts += split.by_identity(pipeline, output, spark, scope, rows, identity)
    elif again is not None and again.rows.get("dead"):
        notes.append(f"name the columns that identify a row (identity=[…]) to split off the {DEAD} and what never arrived")
    return truth, late, balanced(_emitted(base, output), parts, reference, notes)
