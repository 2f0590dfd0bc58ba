"""`eventide migrate check`: do both shapes of every event say the same? For builds, and for a topic as it is."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from eventide.cli.faults import text_of
from eventide.cli.migrate.show import AS_JSON, NAME, TOKEN, URL, answered, ask
from eventide.errors import EventideError
from eventide.migration.data.drift import NOTHING, DriftCheck, DriftReport
from eventide.migration.rollout.migration import Migration
from eventide.migration.rollout.phase import Phase

_FILES = click.argument("files", nargs=-1, type=click.Path(path_type=Path, exists=True))


@click.command()
@NAME
@_FILES
@click.option("--topic", help="Read this Kafka topic instead of files.")
@click.option("--bootstrap", default="127.0.0.1:9092", show_default=True, help="The Kafka brokers.")
@click.option("--most", type=click.IntRange(min=1), help="Read at most this many records of the topic.")
@click.option(
    "--plan",
    "plan_file",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="The migration from a file (status --json).",
)
@click.option("--key", multiple=True, help="A column that names the event in a counterexample. May be repeated.")
@click.option("--fail-on-drift", is_flag=True, help="Exit 1 if more events drift than the budget allows, or if there are none.")
@click.option(
    "--budget",
    type=click.FloatRange(0, 1),
    callback=lambda c, p, share: _share(share),
    help="The share that may drift; the plan's own if left out.",
)
@click.option("--report", is_flag=True, help="Tell the registry what was found.")
@click.option("--everything", is_flag=True, help="This is all that is kept: if no event has only the old shape, none is left.")
@URL
@TOKEN
@AS_JSON
@click.pass_context
def check(
    context: click.Context,
    name: str,
    files: tuple[Path, ...],
    topic: str | None,
    bootstrap: str,
    most: int | None,
    plan_file: Path | None,
    key: tuple[str, ...],
    fail_on_drift: bool,
    budget: float | None,
    report: bool,
    everything: bool,
    url: str,
    token: str | None,
    as_json: bool,
) -> None:
    """Do both shapes of every event say the same? Counts by kind, and the first that do not.

    With --fail-on-drift it exits 1 if they do not, or if there was nothing to compare; 2 if it could not look. Records of a
    topic from before the dual write are told apart: they are no drift. After the contract there is one shape left: then it
    counts the events that lack it, which the step `tighten` waits for.
    """
    if bool(files) == bool(topic):
        raise click.UsageError("give either files or --topic")
    with answered():
        migration = _migration(name, plan_file, url, token)
        events = _events(migration, files, topic, bootstrap, most, url, token)
        if migration.phase is Phase.CONTRACTED and migration.plan.tight:
            failed = _whole(migration, events, url, token, report and everything, as_json)
            context.exit(1 if failed and fail_on_drift else 0)
        before, found = _checked(migration, key, events)
        if report:
            said = {"source": topic or "files", "batch": time.time_ns() // 1_000_000}
            said["everything"] = everything and before.counts["old_only"] == 0
            ask(url, token, "POST", name, "/drift", {**found.counts, **said, "examples": list(found.examples)})
    _show(found, before, as_json)
    trouble = _trouble(migration, found, budget) if fail_on_drift else None
    if trouble:
        click.echo(trouble, err=True)
        context.exit(1)


def _share(share: float | None) -> float | None:
    if share is not None and share != share:
        raise click.BadParameter("nan is no share of the events")
    return share


def _migration(name: str, plan_file: Path | None, url: str, token: str | None) -> Migration:
    if plan_file is None:
        return Migration.from_json(ask(url, token, "GET", name))
    try:
        return Migration.from_json(json.loads(text_of(plan_file)))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        wanted = f"`eventide migrate status {name} --json > {plan_file.name}` writes it"
        raise click.ClickException(f"{plan_file} is no migration ({type(error).__name__}: {error}); {wanted}.") from None


def _checked(migration: Migration, key: tuple[str, ...], events: Iterator[tuple[bool, Any]]) -> tuple[DriftReport, DriftReport]:
    """What was found in events from before the dual write, and in the others."""
    judge = DriftCheck(migration.plan.mappings, migration.plan.leaves, key)
    found = {True: NOTHING, False: NOTHING}
    for early, report in _readable((early, judge(frame)) for early, frame in events):
        found[early] = found[early].plus(report, judge.most)
    return found[True], found[False]


def _whole(
    migration: Migration, events: Iterator[tuple[bool, Any]], url: str, token: str | None, report: bool, as_json: bool
) -> bool:
    """After the contract: does every event have the new shape? Says whether a build must fail."""
    from eventide.migration.data.lacking import Lacking

    lacks = Lacking(migration.plan)
    counts = [(len(frame), lacks(frame)) for frame in _readable(frame for _, frame in events)]
    checked, lacking = sum(c for c, _ in counts), sum(n for _, n in counts)
    if as_json:
        click.echo(json.dumps({"checked": checked, "lacking": lacking}, indent=2))
    else:
        shape = ", ".join(a.path for a in migration.plan.tight)
        click.echo(f"{checked:,} events after the contract, of which {lacking:,} lack {shape}")
    if report:
        ask(url, token, "POST", migration.name, "/scanned", {"checked": checked, "lacking": lacking})
    return bool(lacking) or not checked


def _readable(frames: Iterator[Any]) -> Iterator[Any]:
    """The frames; what cannot be read is said as it was found."""
    from polars.exceptions import PolarsError

    try:
        yield from frames
    except (EventideError, PolarsError) as error:
        raise click.ClickException(str(error)) from error


def _show(found: DriftReport, before: DriftReport, as_json: bool) -> None:
    if as_json:
        early = {"before_dual_write": before.counts} if before.checked else {}
        body = {**found.counts, "checked": found.checked, "examples": list(found.examples), **early}
        click.echo(json.dumps(body, indent=2))
        return
    click.echo(f"{found.checked:,} events: {_counts(found)}")
    for example in found.examples:
        click.echo(f"  {json.dumps(example)}")
    if before.checked:
        click.echo(f"{before.checked:,} events from before the dual write, which are no drift: {_counts(before)}")


def _counts(found: DriftReport) -> str:
    return ", ".join(f"{kind.replace('_', ' ')} {count:,}" for kind, count in found.counts.items())


def _trouble(migration: Migration, found: DriftReport, budget: float | None) -> str | None:
    """Why a build must fail, if it must."""
    allowed = migration.plan.policy.budget if budget is None else budget
    if not found.within(allowed):
        return f"{found.drifted:,} of {found.checked:,} events drift; the budget is {allowed:.4%}."
    if found.checked == found.counts["neither"] and migration.plan.new:
        shapes = ", ".join((*migration.plan.old, *migration.plan.new))
        return (
            f"None of {found.checked:,} events has either shape ({shapes}), so nothing was checked. Are these the right events?"
        )
    return None


def _events(
    migration: Migration,
    files: tuple[Path, ...],
    topic: str | None,
    bootstrap: str,
    most: int | None,
    url: str,
    token: str | None,
) -> Iterator[tuple[bool, Any]]:
    from eventide.migration.data.events import from_files, from_records

    if topic is None:
        yield from ((False, frame) for frame in from_files(files))
        return
    from eventide.registry.client import RegistryClient
    from eventide.registry.inventory import dated_records

    with RegistryClient(url, token=token, name="eventide-cli") as client:
        yield from from_records(dated_records(bootstrap, topic, most=most or 2**62), client, migration.both_since)
