"""`eventide migrate plan, confirm, status, advance, rollback, abort, contract, tighten, can-contract`: the way of a change."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from eventide.cli.faults import text_of
from eventide.cli.migrate.show import (
    AS_JSON,
    NAME,
    TOKEN,
    URL,
    answered,
    ask,
    pairs,
    settings,
    show_gates,
    show_plan,
    show_status,
)
from eventide.migration.rollout.phase import Phase

WHY = click.option("--because", "why", default="", help="Why, for the audit log.")
FORWARD = click.option("--forward", multiple=True, metavar="NEW=SQL", help="A new field computed from the old ones.")
BACKWARD = click.option("--backward", multiple=True, metavar="OLD=SQL", help="An old field computed from the new ones.")
SETTINGS = click.option(
    "--set", "policy", multiple=True, metavar="NAME=VALUE", help="A hold, budget or other setting; see the docs."
)
_PHASES = click.Choice(["plan", "expand", "dual_write", "migrate", "contract_ready", "contracted"])


@click.command()
@click.argument("subject")
@click.argument("schema", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option("--name", help="What to call the migration; made from the subject and the old fields if left out.")
@click.option("--rename", multiple=True, metavar="OLD=NEW", help="This field became that one.")
@click.option("--meaning", multiple=True, metavar="FIELD=NEW_NAME", help="This field changes its meaning, under a new name.")
@click.option("--call", multiple=True, metavar="FIELD=NEW_NAME", help="What to call a field that changes its type in place.")
@FORWARD
@BACKWARD
@SETTINGS
@URL
@TOKEN
@AS_JSON
def plan(
    subject: str,
    schema: Path,
    name: str | None,
    rename: tuple[str, ...],
    meaning: tuple[str, ...],
    call: tuple[str, ...],
    forward: tuple[str, ...],
    backward: tuple[str, ...],
    policy: tuple[str, ...],
    url: str,
    token: str | None,
    as_json: bool,
) -> None:
    """Classify the change from SUBJECT's latest version to SCHEMA and propose how to roll it out."""
    body = {
        "subject": subject,
        "schema": text_of(schema),
        "name": name or "",
        "renames": pairs(rename, "--rename"),
        "meaning": pairs(meaning, "--meaning"),
        "names": pairs(call, "--call"),
        "forward": pairs(forward, "--forward"),
        "backward": pairs(backward, "--backward"),
        "policy": settings(policy),
    }
    found = ask(url, token, "POST", body=body)
    if as_json:
        click.echo(json.dumps(found, indent=2))
    elif found["change"] == "additive":
        click.echo(found["advice"])
    else:
        show_plan(found)


@click.command()
@NAME
@FORWARD
@BACKWARD
@SETTINGS
@WHY
@URL
@TOKEN
def edit(
    name: str,
    forward: tuple[str, ...],
    backward: tuple[str, ...],
    policy: tuple[str, ...],
    why: str,
    url: str,
    token: str | None,
) -> None:
    """Change the expressions or the settings of a plan."""
    body = {
        "forward": pairs(forward, "--forward"),
        "backward": pairs(backward, "--backward"),
        "policy": settings(policy),
    }
    show_plan(ask(url, token, "PUT", name, "/plan", body, reason=why or None))


@click.command()
@NAME
@click.option("--accept-guesses", is_flag=True, help="The expressions that were guessed are right.")
@WHY
@URL
@TOKEN
def confirm(name: str, accept_guesses: bool, why: str, url: str, token: str | None) -> None:
    """Say that the plan is right."""
    ask(url, token, "POST", name, "/confirm", {"accept_guesses": accept_guesses}, reason=why or None)
    click.echo(f"{name} is confirmed. Next: eventide migrate advance {name} --to expand")


@click.command("list")
@click.option("--subject", help="Only those of this subject.")
@click.option("--all", "everything", is_flag=True, help="Those that are over as well.")
@URL
@TOKEN
@AS_JSON
def list_migrations(subject: str | None, everything: bool, url: str, token: str | None, as_json: bool) -> None:
    """The migrations, each with its phase."""
    found = ask(url, token, "GET", gives=list, subject=subject, open=None if everything else "true")
    if as_json:
        click.echo(json.dumps(found, indent=2))
        return
    if not found:
        click.echo("there is no migration" if everything else "no migration is open; --all shows those that are over", err=True)
    for each in found:
        changes = "; ".join(f"{', '.join(m['old'])} -> {', '.join(m['new'])}" for m in each["plan"]["mappings"])
        click.echo(f"{each['name']}  {each['phase']}  {each['subject']}  {changes}")


@click.command()
@NAME
@URL
@TOKEN
@AS_JSON
def status(name: str, url: str, token: str | None, as_json: bool) -> None:
    """Phase, gates and what each found, consumers, drift, and when it could be over."""
    found = ask(url, token, "GET", name)
    if as_json:
        click.echo(json.dumps(found, indent=2))
    else:
        show_status(found)


@click.command()
@NAME
@click.option(
    "--to", type=_PHASES, help="The phase to go to. Must be given, so that a command that is repeated changes nothing."
)
@click.option("--confirm", "confirmation", help="For the contract: the migration's name once more.")
@WHY
@URL
@TOKEN
def advance(name: str, to: str | None, confirmation: str | None, why: str, url: str, token: str | None) -> None:
    """Go on to the next phase, if its gates are open."""
    if to is None:
        raise click.UsageError(_whereto(ask(url, token, "GET", name), "advance"))
    _move(name, {"to": to, "confirm": confirmation}, why, url, token)


@click.command()
@NAME
@click.option("--confirm", "confirmation", help="The migration's name once more: this cannot be undone.")
@WHY
@URL
@TOKEN
def contract(name: str, confirmation: str | None, why: str, url: str, token: str | None) -> None:
    """Drop the old shape."""
    _move(name, {"to": "contracted", "confirm": confirmation}, why, url, token)


@click.command()
@NAME
@click.option("--confirm", "confirmation", help="The migration's name once more: a record without the field could not be read.")
@WHY
@URL
@TOKEN
def tighten(name: str, confirmation: str | None, why: str, url: str, token: str | None) -> None:
    """After the contract: make the new field required, as the wanted schema has it. Optional."""
    found = ask(url, token, "POST", name, "/tighten", {"confirm": confirmation}, reason=why or None)
    show_gates(found["passed"])
    click.echo(found["reason"])


@click.command()
@NAME
@click.option(
    "--to", type=_PHASES, help="The phase to go back to. Must be given, so that a command that is repeated changes nothing."
)
@click.option("--withdraw", is_flag=True, help="Back in plan: soft delete the expanded version as well.")
@WHY
@URL
@TOKEN
def rollback(name: str, to: str | None, withdraw: bool, why: str, url: str, token: str | None) -> None:
    """Go back to an earlier phase; nothing is lost by it."""
    found = ask(url, token, "GET", name)
    if to is None:
        raise click.UsageError(_whereto(found, "rollback"))
    here = Phase(found["phase"])
    if here.is_before(Phase(to)):
        raise click.ClickException(
            f"{name} is in {here}, and {to} is ahead of it: `eventide migrate advance {name} --to {to}`."
        )
    _move(name, {"to": to, "withdraw": withdraw}, why, url, token)


@click.command()
@NAME
@click.option("--withdraw", is_flag=True, help="Soft delete the expanded version as well.")
@WHY
@URL
@TOKEN
def abort(name: str, withdraw: bool, why: str, url: str, token: str | None) -> None:
    """Give the change up; the old shape stays."""
    _move(name, {"to": "aborted", "withdraw": withdraw}, why, url, token)


@click.command("can-contract")
@NAME
@URL
@TOKEN
@AS_JSON
@click.pass_context
def can_contract(context: click.Context, name: str, url: str, token: str | None, as_json: bool) -> None:
    """May the old shape go now? Exits 0 if it may, 1 if not, 2 if nobody could say; for CI."""
    with answered():
        found = ask(url, token, "GET", name, "/can-contract")
        may = bool(found["can_contract"])
    if as_json:
        click.echo(json.dumps(found, indent=2))
    else:
        show_gates(found["gates"])
        click.echo("yes" if may else f"no: {found['reason']}")
    context.exit(0 if may else 1)


def _whereto(found: dict[str, Any], command: str) -> str:
    """What to say to somebody who did not say where to."""
    here = Phase(found["phase"])
    target = here.previous if command == "rollback" else here.following
    if target is None or not here.is_open:
        return f"{found['name']} is in {here}; there is nowhere to {'go back' if command == 'rollback' else 'go on'} to."
    return f"{found['name']} is in {here}. Say where to: `eventide migrate {command} {found['name']} --to {target}`"


def _move(name: str, body: dict[str, Any], why: str, url: str, token: str | None) -> None:
    found = ask(url, token, "POST", name, "/phase", body, reason=why or None)
    show_gates(found["passed"])
    click.echo(found["reason"])
    if found["next"]:
        click.echo(f"next is {found['next']}:")
        show_gates(found["gates"])
