"""`eventide migrate backfill, rebuild, table`: history and tables on both sides of a change."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import click

from eventide.cli.migrate.show import NAME, TOKEN, URL, ask
from eventide.errors import EventideError
from eventide.migration.rollout.migration import Migration
from eventide.migration.rollout.phase import Phase


@click.command()
@NAME
@click.argument("source", type=click.Path(exists=True, file_okay=False))
@click.option("--target", type=click.Path(), help="Write here instead of in place.")
@click.option("--format", "form", type=click.Choice(["parquet", "delta"]), help="Of SOURCE; seen from what is there.")
@click.option("--spark/--no-spark", "with_spark", default=True, help="Share the files out among Spark's tasks.")
@URL
@TOKEN
def backfill(
    name: str, source: str, target: str | None, form: str | None, with_spark: bool, url: str, token: str | None
) -> None:
    """Fill the new shape in history; stopped anywhere, it goes on where it was."""
    migration = _begun(name, url, token)
    done = _fill(migration, source, target, form, with_spark, to="new")
    if migration.phase.is_open:
        ask(url, token, "POST", name, "/backfilled", {"source": source, **done})
    click.echo(f"history below {target or source} has both shapes: {_said(done)}")


@click.command()
@NAME
@click.argument("source", type=click.Path(exists=True, file_okay=False))
@click.option("--target", type=click.Path(), help="Write here instead of in place.")
@click.option("--format", "form", type=click.Choice(["parquet", "delta"]), help="Of SOURCE; seen from what is there.")
@click.option("--history", type=click.Path(exists=True, file_okay=False), help="Parquet written while both shapes were.")
@click.option("--key", multiple=True, help="The columns that say that two rows are the same event.")
@click.option("--spark/--no-spark", "with_spark", default=True, help="Share the files out among Spark's tasks.")
@URL
@TOKEN
def rebuild(
    name: str,
    source: str,
    target: str | None,
    form: str | None,
    history: str | None,
    key: tuple[str, ...],
    with_spark: bool,
    url: str,
    token: str | None,
) -> None:
    """Bring a dropped field back: as it was recorded in the dual-write history, and computed where it was not."""
    migration = _begun(name, url, token)
    done = _fill(migration, source, target, form, with_spark, to="old", history=history, key=key)
    click.echo(f"the rows below {target or source} have the old shape again: {_said(done)}")


def _begun(name: str, url: str, token: str | None) -> Migration:
    """The migration, if its expressions are settled: nobody's history is rewritten by a plan that may still change."""
    migration = Migration.from_json(ask(url, token, "GET", name))
    if migration.phase in (Phase.PLAN, Phase.ABORTED):
        wanted = f"eventide migrate advance {name} --to expand" if migration.phase is Phase.PLAN else "plan a new one"
        raise click.ClickException(f"{name} is in {migration.phase}; history is rewritten from expand on. Next: {wanted}")
    return migration


def _said(done: dict[str, Any]) -> str:
    parts = f"{done['rows']:,} rows written in {done['files']:,} files or partitions, {done['skipped']:,} were done before"
    return f"{parts} (Delta version {done['version']})" if "version" in done else parts


def _fill(
    migration: Migration, source: str, target: str | None, form: str | None, with_spark: bool, *, to: Any, **more: Any
) -> dict[str, Any]:
    from eventide.migration.data.history import fill, is_delta
    from eventide.migration.data.history_delta import fill_delta
    from eventide.migration.data.upcast import Upcast

    how = Upcast.of(migration, to, keep=True)
    try:
        if form == "delta" or (form is None and is_delta(source)):
            if target is not None:
                raise click.UsageError("a Delta table is filled in place: its earlier versions stay, so --target is not needed")
            return fill_delta(source, how, **more)
        spark = None
        if with_spark:
            from eventide.engine.spark_session import local_session

            spark = local_session(name="eventide-backfill")
        return asdict(fill(source, how, f"{migration.name}-{to}", target=target, spark=spark, **more))
    except EventideError as error:
        raise click.ClickException(str(error)) from error


@click.command()
@NAME
@click.argument("database")
@click.argument("table")
@click.option("--run", "execute", is_flag=True, help="Run what the migration's phase allows, in order.")
@click.option("--upto", help="Run up to this step, or say why it must wait.")
@URL
@TOKEN
def table(name: str, database: str, table: str, execute: bool, upto: str | None, url: str, token: str | None) -> None:
    """The same change in a SQL table at DATABASE (sqlite:///FILE or postgresql://…): add, fill, view, drop."""
    from eventide.migration.data.sql.database import connect
    from eventide.migration.data.sql.run import planned, run_next

    migration = Migration.from_json(ask(url, token, "GET", name))
    leaves = migration.plan.leaves
    try:
        connection = connect(database)
        ran = run_next(connection, migration, table, leaves, upto=upto) if execute or upto else []
        for step in ran:
            click.echo(f"ran {step}")
        every = planned(connection, migration, table, leaves)
        if execute and not ran:
            click.echo(_why_nothing_ran(migration, [step for step, done in every if not done]))
        if any(step.startswith("fill ") for step in ran) and migration.phase.is_open:
            ask(url, token, "POST", name, "/backfilled", {"table": table})
        for each, done in every:
            click.echo(f"{'done' if done else f'from {each.earliest} on':24}  {each.name:20}  {each.statement}")
    except EventideError as error:
        raise click.ClickException(str(error)) from error


def _why_nothing_ran(migration: Migration, left: list[Any]) -> str:
    if not left:
        return "nothing ran: every step is done"
    if migration.phase is Phase.ABORTED:
        return f"nothing ran: {migration.name} is aborted, and its table stays as it is"
    waits = f"the next step, {left[0].name!r}, may run from {left[0].earliest} on"
    go_on = f"eventide migrate advance {migration.name} --to {migration.phase.following}"
    return f"nothing ran: {migration.name} is in {migration.phase}, and {waits}. Next: {go_on}"
