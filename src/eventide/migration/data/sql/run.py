"""Running the steps of a table: each with its mark in one transaction, none before its phase."""

from __future__ import annotations

from collections.abc import Mapping

from eventide.migration.data.sql.database import Database, TableRefused
from eventide.migration.data.sql.loss import losses
from eventide.migration.data.sql.steps import Step, column, steps
from eventide.migration.faults import listed
from eventide.migration.plan.shape import Leaf
from eventide.migration.rollout.migration import Migration
from eventide.migration.rollout.phase import Phase

_MARKS = """CREATE TABLE IF NOT EXISTS eventide_migration_steps (
    migration TEXT NOT NULL, tablename TEXT NOT NULL, step TEXT NOT NULL, PRIMARY KEY (migration, tablename, step))"""
_MARK = "INSERT INTO eventide_migration_steps (migration, tablename, step) VALUES ({0}, {0}, {0}) ON CONFLICT DO NOTHING"


def planned(database: Database, migration: Migration, table: str, leaves: Mapping[str, Leaf]) -> list[tuple[Step, bool]]:
    """The steps of a table, each with whether it has been done."""
    database.run(_MARKS)
    done = _done(database, migration, table)
    every = steps(migration, table, database.columns(table), leaves, database.dialect)
    return [(step, step.name in done) for step in every]


def run_next(
    database: Database, migration: Migration, table: str, leaves: Mapping[str, Leaf], *, upto: str | None = None
) -> list[str]:
    """Run what is not done yet, in order, as far as the migration's phase allows; gives the names of the steps run.

    Filling is repeated for as long as the old columns are there, because rows of the old shape may have come since.

    Raises:
        TableRefused: `upto` names a step that must wait, the database refused one, or a column holds what would be lost.
    """
    every = planned(database, migration, table, leaves)
    names = [step.name for step, _ in every]
    if upto is not None and upto not in names:
        raise TableRefused(f"{upto!r} is no step of {migration.name}; take one of {listed([repr(n) for n in names], 20)}.")
    whole = {column(path) for path in migration.plan.old} <= set(database.columns(table))
    ran = []
    for step, done in every:
        if done and not (step.repeats and whole):
            continue
        if migration.phase.is_before(step.earliest) or migration.phase is Phase.ABORTED:
            if upto is not None:
                raise TableRefused(
                    f"{upto!r} must wait: {step.name!r} may run from {step.earliest} on, and {migration.name} is in "
                    f"{migration.phase}. `eventide migrate status {migration.name}` shows what that waits for."
                )
            break
        if _run(database, migration, table, step) or not done:
            ran.append(step.name)
        if step.name == upto:
            break
    return ran


def _run(database: Database, migration: Migration, table: str, step: Step) -> int:
    """Run a step and mark it; gives the rows that it changed."""
    changed = 0
    try:
        while step.repeats:  # in small transactions, so that nobody waits long for a lock and a crash costs little
            with database.transaction():
                _, more = database.run(step.statement)
            if more <= 0:
                break
            changed += more
        _refuse_loss(database, table, step)  # before anybody has to wait for a lock
        with database.transaction():
            if step.against is not None:
                database.lock(table)  # what others changed meanwhile is seen, and nobody changes anything after it
            _refuse_loss(database, table, step)
            if not step.repeats and not _stands(database, table, step):
                database.run(step.statement)
            database.run(_MARK.format(database.mark), (migration.name, table, step.name))
    except database.trouble as error:
        raise TableRefused(
            f"Step {step.name!r} failed, and what it had begun was undone: {str(error).strip()}. The statement: {step.statement}. "
            "Mend that and run it again; the steps before it stay done."
        ) from error
    return changed


def _refuse_loss(database: Database, table: str, step: Step) -> None:
    if step.against is None or _stands(database, table, step):
        return
    lost = losses(database, table, step.name.removeprefix("drop "), step.against)
    if lost is not None:
        raise TableRefused(f"Step {step.name!r} {lost}, and run it again.")


def _stands(database: Database, table: str, step: Step) -> bool:
    """Was the same thing done by hand before?"""
    what, _, name = step.name.partition(" ")
    has = name in database.columns(table)
    return has if what == "add" else not has if what == "drop" else False


def _done(database: Database, migration: Migration, table: str) -> set[str]:
    rows, _ = database.run(
        f"SELECT step FROM eventide_migration_steps WHERE migration = {database.mark} AND tablename = {database.mark}",
        (migration.name, table),
    )
    return {str(r[0]) for r in rows}
