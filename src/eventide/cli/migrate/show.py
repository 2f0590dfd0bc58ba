"""What the `eventide migrate` commands share: asking the registry, reading options, showing answers."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import click

from eventide.cli.answers import understood
from eventide.cli.faults import Refused, Unanswered
from eventide.errors import DefinitionError, EventideError

URL = click.option(
    "--url", envvar="EVENTIDE_REGISTRY_URL", default="http://127.0.0.1:8081", show_default=True, help="The registry to ask."
)
TOKEN = click.option("--token", envvar="EVENTIDE_REGISTRY_TOKEN", help="A bearer token, NAME.SECRET.")
NAME = click.argument("name", callback=lambda context, parameter, name: _named(name))
AS_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON, one document.")


def _named(name: str) -> str:
    if not name.strip():
        raise click.BadParameter("it is empty; `eventide migrate list` shows the migrations by their names.")
    return name


def ask(
    url: str, token: str | None, method: str, name: str = "", tail: str = "", body: Any = None, gives: Any = dict, **query: Any
) -> Any:
    """Ask the registry's service about migrations; what it refuses is shown as it said it, and exit code 3 says that there was no answer."""
    from eventide.migration.data.client import MigrationClient
    from eventide.registry.client import RegistryClient, RegistryUnavailable

    try:
        with RegistryClient(url, token=token, name="eventide-cli", tries=1) as client:
            return understood(url, MigrationClient(client)(method, name, tail, body, **query), gives)
    except RegistryUnavailable as error:
        raise Unanswered(f"{error} `eventide registry serve` starts one, --url names another.") from error
    except DefinitionError as error:
        raise Refused(str(error)) from error
    except EventideError as error:
        raise click.ClickException(str(error)) from error


class NoAnswer(click.ClickException):
    """Neither yes nor no: it could not be found out."""

    exit_code = 2


@contextmanager
def answered() -> Iterator[None]:
    """For commands that answer with their exit status: 0 and 1 are answers, 2 says that there was none."""
    try:
        yield
    except click.ClickException as error:
        raise NoAnswer(error.message) from error


def pairs(given: Sequence[str], option: str) -> dict[str, str]:
    """`a=b` options as a mapping; only the first `=` counts."""
    found = {}
    for each in given:
        name, sign, value = each.partition("=")
        if not sign or not name.strip() or not value.strip():
            raise click.BadParameter(f"{each!r} is not of the form NAME=VALUE", param_hint=option)
        found[name.strip()] = value.strip()
    return found


def settings(given: Sequence[str]) -> dict[str, Any]:
    """`name=value` settings: JSON where it is JSON, text where it is not, so that `2 days` needs no quotes."""
    found: dict[str, Any] = {}
    for name, value in pairs(given, "--set").items():
        try:
            found[name] = json.loads(value)
        except ValueError:
            found[name] = value
    return found


def show_gates(gates: Sequence[dict[str, Any]]) -> None:
    """One line per gate: open or not, what it found, what would open it."""
    for gate in gates:
        remedy = f"  -> {gate['remedy']}" if gate["remedy"] else ""
        click.echo(f"  {'open' if gate['open'] else 'SHUT':4}  {gate['gate']:20}  {gate['found']}{remedy}")


def show_plan(found: dict[str, Any]) -> None:
    """The change, the mappings both ways, both schemas, and what comes next."""
    click.echo(f"{found['name']}  {found['phase']}  of {found['subject']}")
    for mapping in found["plan"]["mappings"]:
        sure = "" if mapping["certain"] else f"   GUESS: {mapping['why']}"
        click.echo(f"  {mapping['change']}  {', '.join(mapping['old'])} -> {', '.join(mapping['new']) or 'nothing'}{sure}")
        for path, sql in mapping["forward"].items():
            click.echo(f"    {path} = {sql}")
        for path, sql in mapping["backward"].items():
            click.echo(f"    {path} = {sql}   (the drift check)")
    for note in found["plan"]["notes"]:
        click.echo(f"  note: {note}")
    for which, text in found["schemas"].items():
        click.echo(f"  {which}: {text}")
    show_phases(found["plan"]["policy"])
    for obstacle in found["obstacles"]:
        click.echo(f"  CANNOT END: {obstacle['found']}  -> {obstacle['remedy']}")
    for clash in found["conflicts"]:
        click.echo(f"  conflicts with {clash}")
    if found["phase"] == "plan" and not found["confirmed"]:
        guesses = any(not m["certain"] for m in found["plan"]["mappings"])
        click.echo(f"Next: eventide migrate confirm {found['name']}{' --accept-guesses' if guesses else ''}")


def show_phases(policy: dict[str, Any]) -> None:
    """The way ahead, with what each phase waits for."""
    from eventide.migration.plan.policy import shown

    kept = "for ever" if policy["retention"] is None else shown(policy["retention"])
    old = "readers of history have an upcaster" if policy["upcaster"] else f"old records are kept {kept}"
    filled = ", history filled" if policy["backfill"] else ""
    share = f"at most {policy['budget']:.4%} of at least {policy['least_events']:,} events drift"
    for phase, what in (
        ("expand", "the registry has both shapes; producers still write the old one"),
        ("dual_write", f"producers write both; after {shown(policy['hold_expand'])} in expand{filled}"),
        ("migrate", f"consumers move one at a time; {share}"),
        (
            "contract_ready",
            f"every consumer has moved, {shown(policy['hold_dual_write'])} of dual write, "
            f"no drift for {shown(policy['drift_free'])}, {old}",
        ),
        ("contracted", "the old shape is gone; the only step that cannot be undone"),
    ):
        click.echo(f"  phase {phase:14}  {what}")


def show_status(found: dict[str, Any]) -> None:
    """A migration as it stands."""
    from eventide.migration.rollout.consumer import at

    click.echo(f"{found['name']}  {found['phase']} since {at(found['entered_at'])}  of {found['subject']}")
    for mapping in found["plan"]["mappings"]:
        click.echo(f"  {mapping['change']}  {', '.join(mapping['old'])} -> {', '.join(mapping['new']) or 'nothing'}")
    if found["next"]:
        click.echo(f"gates to {found['next']}:")
        show_gates(found["gates"])
    if found["tighten"]:
        click.echo(f"gates to tighten, which is optional (eventide migrate tighten {found['name']}):")
        show_gates(found["tighten"])
    drift = found["drift"]
    click.echo(
        f"drift: {drift['drifted']:,} of {drift['checked']:,} events (old only {drift['old_only']:,}, "
        f"new only {drift['new_only']:,}, differ {drift['differ']:,})"
    )
    for example in found["examples"][:5]:
        click.echo(f"  {json.dumps(example)}")
    show_consumers(found["consumers"])
    for stray in found["strays"]:
        where = f"@{stray['environment']}" if stray["environment"] else ""
        what = f"read records of the old shape (id {stray['id']}) after the contract, last at {at(stray['last_seen'])}"
        click.echo(f"  FLAG  {stray['client']}{where} {what}: somebody still writes them, or replays old ones")
    if found["estimate"]:
        guess = found["estimate"]
        likely = at(guess["likely"]) if guess["likely"] is not None else "nobody can tell"
        click.echo(f"the contract: {at(guess['earliest'])} at the earliest, likely {likely}: {guess['basis']}")


def show_consumers(consumers: Sequence[dict[str, Any]]) -> None:
    """One line per consumer, those that block first."""
    from eventide.migration.rollout.consumer import at

    blocking = sum(c["blocks"] for c in consumers)
    click.echo(f"consumers: {len(consumers)}, of which {blocking} block")
    for each in sorted(consumers, key=lambda c: (not c["blocks"], c["name"])):
        where = f"@{each['environment']}" if each["environment"] else ""
        owner = f"  owned by {each['owner']}" if each["owner"] else ""
        seen = f"last seen: old {at(each['last_seen_old'])}, new {at(each['last_seen_new'])}, at all {at(each['last_seen'])}"
        click.echo(f"  {each['state']:12}  {each['name']}{where}{owner}  {each['why']}  ({seen})")
