"""`eventide migrate consumers, declare, exempt, expire`: who reads what."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import click

from eventide.cli.migrate.show import AS_JSON, NAME, TOKEN, URL, ask, show_consumers

_PROOF = "; it counts as moved once it is seen doing so: by its usage reports to the registry, or the columns that it selects"
_ENVIRONMENT = click.option("--environment", default="", help="Where it runs, if it runs in several places.")


def _moment(given: str | None, option: str) -> int | None:
    """A date or an instant (UTC if it says nothing else) as milliseconds."""
    if given is None:
        return None
    try:
        at = datetime.fromisoformat(given)
    except ValueError:
        raise click.BadParameter(
            f"{given!r} is no date; give it as 2026-03-31 or 2026-03-31T12:00", param_hint=option
        ) from None
    return int((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1_000)


@click.command()
@NAME
@URL
@TOKEN
@AS_JSON
def consumers(name: str, url: str, token: str | None, as_json: bool) -> None:
    """Every consumer, declared or only seen, and whether it blocks the contract."""
    found = ask(url, token, "GET", name, "/consumers", gives=list)
    if as_json:
        click.echo(json.dumps(found, indent=2))
    else:
        show_consumers(found)


@click.command()
@NAME
@click.argument("consumer")
@click.option(
    "--reads", type=click.Choice(["old", "new", "either"]), required=True, help="The shape; `either`: through upcast."
)
@click.option("--owner", default="", help="Whom to ask.")
@click.option("--expected-by", help="When it expects to have moved, as 2026-03-31.")
@_ENVIRONMENT
@URL
@TOKEN
def declare(
    name: str, consumer: str, reads: str, owner: str, expected_by: str | None, environment: str, url: str, token: str | None
) -> None:
    """Say which shape CONSUMER reads; moving it is saying so again."""
    body = {
        "name": consumer,
        "environment": environment,
        "owner": owner,
        "shape": reads,
        "expected_by": _moment(expected_by, "--expected-by"),
    }
    ask(url, token, "PUT", name, "/consumers", body)
    click.echo(f"{consumer} reads {reads}{_PROOF if reads != 'old' else ''}")


@click.command()
@NAME
@click.argument("consumer")
@click.option("--until", required=True, help="When the exemption ends, as 2026-03-31.")
@click.option("--because", required=True, help="Why it need not prove that it has moved.")
@_ENVIRONMENT
@URL
@TOKEN
def exempt(name: str, consumer: str, until: str, because: str, environment: str, url: str, token: str | None) -> None:
    """Spare CONSUMER the proof that it has moved; if it is seen reading the old shape, it blocks all the same."""
    body = {"name": consumer, "environment": environment, "until": _moment(until, "--until"), "because": because}
    ask(url, token, "POST", name, "/exempt", body, reason=because)
    click.echo(f"{consumer} is exempt until {until}")


@click.command()
@NAME
@click.argument("consumer")
@click.option("--because", default="", help="Why it does not come back; must be said of one that was seen lately.")
@_ENVIRONMENT
@URL
@TOKEN
def expire(name: str, consumer: str, because: str, environment: str, url: str, token: str | None) -> None:
    """Say that CONSUMER is gone, declared or only seen; if it is ever seen again, it counts again."""
    body = {"name": consumer, "environment": environment, "because": because}
    ask(url, token, "POST", name, "/expire", body, reason=because or None)
    click.echo(f"{consumer} is expired")
