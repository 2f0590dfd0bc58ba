"""`eventide registry`: the commands that ask a running registry."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

import click

from eventide.cli.answers import understood
from eventide.cli.faults import Refused, Unanswered, text_of
from eventide.errors import DefinitionError, EventideError
from eventide.readable.harmless import harmless, harmless_lines

URL = click.option(
    "--url", envvar="EVENTIDE_REGISTRY_URL", default="http://127.0.0.1:8081", show_default=True, help="The registry to ask."
)
TOKEN = click.option("--token", envvar="EVENTIDE_REGISTRY_TOKEN", help="A bearer token, NAME.SECRET.")
AS_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON, one document.")
_INCOMPATIBLE = 40901
_PAGE = 10_000


def ask(url: str, token: str | None, method: str, path: str, body: Any = None, gives: Any = dict, **query: Any) -> Any:
    """One request to a registry that `gives` an object, or a list of them.

    A refusal ends the command with its reason; exit code 2 says that nobody could be asked so, and 3 that there was no answer.
    """
    from eventide.registry.client import RegistryClient, RegistryUnavailable

    try:
        with RegistryClient(url, token=token, name="eventide-cli", tries=1) as client:
            return understood(url, client.call(method, path, body, **query), gives)
    except RegistryUnavailable as error:
        raise Unanswered(str(error)) from error
    except DefinitionError as error:
        raise Refused(str(error)) from error
    except EventideError as error:
        raise click.ClickException(harmless_lines(str(error))) from error


@click.command("list")
@click.option("--prefix", help="Only subjects that begin with this.")
@URL
@TOKEN
@AS_JSON
def list_subjects(prefix: str | None, url: str, token: str | None, as_json: bool) -> None:
    """All subjects with their latest version, level, mode and owner."""
    lines = ask(url, token, "GET", "/eventide/v1/subjects", gives=list, subjectPrefix=prefix)
    if as_json:
        click.echo(json.dumps(lines, indent=2))
        return
    if not lines:
        click.echo(f"no subject is registered{f' that begins with {prefix}' if prefix else ''}", err=True)
    for line in lines:
        owner = line["owner"]["team"] if line["owner"] else "nobody"
        click.echo(
            f"{harmless(line['subject'])}  v{line['version']} of {line['versions']}  id {line['id']}  {line['schemaType']}  "
            f"{line['compatibilityLevel']}  {line['mode']}  owned by {owner}"
        )


def _named(context: click.Context, parameter: click.Parameter, subject: str) -> str:
    if not subject.strip():
        raise click.BadParameter("it is empty; name the subject, such as orders-value.")
    return subject


_SUBJECT = click.argument("subject", callback=_named)
_SCHEMA = click.argument("schema", type=click.Path(path_type=Path, exists=True, dir_okay=False))
_KIND = click.option(
    "--type",
    "kind",
    type=click.Choice(["AVRO", "JSON", "PROTOBUF"]),
    default="AVRO",
    show_default=True,
    help="The language that the schema is written in.",
)
_REFERENCES = click.option(
    "--reference",
    "references",
    multiple=True,
    metavar="NAME=SUBJECT:VERSION",
    help="A schema that it refers to. May be repeated.",
)


@click.command("register")
@_SUBJECT
@_SCHEMA
@_KIND
@_REFERENCES
@URL
@TOKEN
def register_schema(subject: str, schema: Path, kind: str, references: tuple[str, ...], url: str, token: str | None) -> None:
    """Register SCHEMA as the next version of SUBJECT; the same again changes nothing."""
    from eventide.registry.client import RegistryRefused

    body = _proposed(schema, kind, references)
    try:
        found = ask(url, token, "POST", f"/subjects/{quote(subject, safe='')}/versions", body)
    except click.ClickException as refused:
        refusal = refused.__cause__
        if isinstance(refusal, RegistryRefused) and refusal.code == _INCOMPATIBLE:
            raise (_explained(subject, body, url, token) or refused) from refusal
        raise
    click.echo(f"{subject}  v{found['version']}  id {found['id']}")


@click.command("check")
@_SUBJECT
@_SCHEMA
@_KIND
@_REFERENCES
@click.option("--level", help="Check at this level instead of the subject's own, e.g. FULL_TRANSITIVE.")
@URL
@TOKEN
@AS_JSON
def check_schema(
    subject: str,
    schema: Path,
    kind: str,
    references: tuple[str, ...],
    level: str | None,
    url: str,
    token: str | None,
    as_json: bool,
) -> None:
    """Would SUBJECT take SCHEMA as its next version? Nothing is registered; exits with 1 if it would not, for builds."""
    found = _verdict(subject, _proposed(schema, kind, references), url, token, level)
    if as_json:
        click.echo(json.dumps(found, indent=2))
    elif found["is_compatible"]:
        click.echo(f"{subject} would take it ({found['level']})")
    else:
        click.echo("\n".join(_told(subject, found)))
    if not found["is_compatible"]:
        raise click.exceptions.Exit(1)


def _proposed(schema: Path, kind: str, references: tuple[str, ...]) -> dict[str, Any]:
    body: dict[str, Any] = {"schema": text_of(schema), "schemaType": kind}
    for given in references:
        name, _, place = given.partition("=")
        subject, _, version = place.rpartition(":")
        if not (name and subject and version.isascii() and version.isdigit()):
            raise click.BadParameter(f"{given!r} is not NAME=SUBJECT:VERSION", param_hint="--reference")
        body.setdefault("references", []).append({"name": name, "subject": subject, "version": int(version)})
    return body


def _verdict(subject: str, body: dict[str, Any], url: str, token: str | None, level: str | None = None) -> dict[str, Any]:
    path = f"/eventide/v1/compatibility/subjects/{quote(subject, safe='')}/versions"
    found: dict[str, Any] = ask(url, token, "POST", path, body, level=level)
    return found


def _explained(subject: str, body: dict[str, Any], url: str, token: str | None) -> click.ClickException | None:
    """A refusal in our words, with what to do about it; another vendor's registry has none."""
    try:
        found = _verdict(subject, body, url, token)
    except click.ClickException:
        return None
    return None if found["is_compatible"] else click.ClickException("\n".join(_told(subject, found)))


def _told(subject: str, found: dict[str, Any]) -> Iterator[str]:
    where = f": at {found['level']} it clashes with version {found['version']}" if found["version"] is not None else ""
    yield f"{subject} does not take this schema{where}."
    for reason in found["reasons"]:
        yield f"  {reason['path']}  {reason['message']}"
        yield f"    What to do: {reason['fix']}"


@click.command()
@click.argument("subject")
@click.argument("old", default="1")
@click.argument("new", default="latest")
@click.option("--with", "other", help="Compare with a version of this subject instead.")
@URL
@TOKEN
@AS_JSON
def diff(subject: str, old: str, new: str, other: str | None, url: str, token: str | None, as_json: bool) -> None:
    """What changed between two versions, and who could still read whom."""
    path = f"/eventide/v1/subjects/{quote(subject, safe='')}/diff"
    found = ask(url, token, "GET", path, **{"from": old, "to": new, "with": other})
    if as_json:
        click.echo(json.dumps(found, indent=2))
        return
    click.echo(found["text"] or "no difference")
    for side, title in (
        ("backward", "the new one cannot read the old"),
        ("forward", "the old one cannot read the new"),
    ):
        for reason in found[side]:
            click.echo(f"{title}: {reason['message']} {reason['fix']}")


@click.command()
@click.option("--prefix", default="", help="Only subjects that begin with this.")
@click.option("--who", help="Only what this account did.")
@click.option("--action", help="Only this kind of change, e.g. register.")
@click.option("--after", type=click.IntRange(min=0), default=0, help="Only what came after this sequence number.")
@click.option("--limit", type=click.IntRange(1, _PAGE), default=1000, show_default=True, help="At most so many lines.")
@click.option("--verify", is_flag=True, help="Check the chain of the whole log instead: is any line changed or gone?")
@click.option("--expect", metavar="SEQ:HASH", help="With --verify: an end of the log that was noted down earlier.")
@URL
@TOKEN
@AS_JSON
def audit(
    prefix: str,
    who: str | None,
    action: str | None,
    after: int,
    limit: int,
    verify: bool,
    expect: str | None,
    url: str,
    token: str | None,
    as_json: bool,
) -> None:
    """Who changed what, when, why and from where; with --verify, whether the log is still what was written."""
    if expect and not verify:
        raise click.UsageError("--expect needs --verify")
    if verify:
        if prefix or who or action or after:
            raise click.UsageError("--verify looks at the whole log; leave --prefix, --who, --action and --after out")
        _verify(url, token, expect, as_json)
        return
    found = ask(
        url, token, "GET", "/eventide/v1/audit", subjectPrefix=prefix or None, who=who, action=action, after=after,
        limit=limit, gives=list,
    )  # fmt: skip
    if as_json:
        click.echo(json.dumps(found, indent=2))
        return
    for line in found:
        at = datetime.fromtimestamp(line["at"] / 1000, UTC).isoformat(timespec="milliseconds")
        why = f"  because {line['reason']}" if line["reason"] else ""
        click.echo(
            f"{line['seq']}  {at}  {line['who']}  {line['action']} {line['subject'] or '(the registry)'}  "
            f"{line['outcome']}  from {line['origin']}{why}  {json.dumps(line['detail'])}"
        )


def _verify(url: str, token: str | None, expect: str | None, as_json: bool) -> None:
    """Walk along the chain on this side, so that the registry is not its own witness."""
    from eventide.registry.audit_chain import Head, verify

    try:
        expected = Head.parse(expect) if expect else None
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--expect") from error
    said = ask(url, token, "GET", "/eventide/v1/audit/head")
    head = Head(said["seq"], said["hash"])
    found = verify(_lines(url, token), head, expected)
    if as_json:
        told = {"sound": found.is_sound, "lines": found.lines, "end": str(found.last), "faults": found.faults}
        click.echo(json.dumps(told, indent=2))
    else:
        click.echo("\n".join(found.faults) or f"{found.lines} lines, all as they were written; the log ends at {found.last}")
    if not found.is_sound:
        raise click.exceptions.Exit(1)


def _lines(url: str, token: str | None) -> Iterator[dict[str, Any]]:
    after = 0
    while page := ask(url, token, "GET", "/eventide/v1/audit", gives=list, after=after, limit=_PAGE):
        yield from page
        after = max(after + 1, *(line["seq"] for line in page))


@click.command()
@click.option("--set", "prefix", help="Name the owner of the subjects that begin with this.")
@click.option("--remove", help="Take the owner of this prefix away.")
@click.option("--team", default="", help="Who owns them.")
@click.option("--domain", default="", help="What part of the business they belong to.")
@click.option("--contact", default="", help="Where to ask.")
@click.option("--on-call", default="", help="Whom to wake.")
@URL
@TOKEN
@AS_JSON
def owners(
    prefix: str | None,
    remove: str | None,
    team: str,
    domain: str,
    contact: str,
    on_call: str,
    url: str,
    token: str | None,
    as_json: bool,
) -> None:
    """Who owns which subjects; with --set or --remove change it."""
    path = "/eventide/v1/owners"
    if prefix is not None:
        body = {"prefix": prefix, "team": team, "domain": domain, "contact": contact, "on_call": on_call}
        found = [ask(url, token, "PUT", path, body)]
    elif remove is not None:
        found = [ask(url, token, "DELETE", path, prefix=remove)]
    else:
        found = ask(url, token, "GET", path, gives=list)
    if as_json:
        click.echo(json.dumps(found, indent=2))
        return
    for line in found:
        facts = "  ".join(f"{k} {line[k]}" for k in ("team", "domain", "contact", "on_call") if line.get(k))
        click.echo(f"{line['prefix'] or '(every subject)'}  {facts or 'nobody'}")


COMMANDS = (list_subjects, register_schema, check_schema, diff, audit, owners)
