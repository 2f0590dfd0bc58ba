"""`eventide registry`: serve a schema registry, and ask one."""

from __future__ import annotations

import json
import logging
import os
import secrets
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from eventide.errors import EventideError

_URL = click.option(
    "--url", envvar="EVENTIDE_REGISTRY_URL", default="http://127.0.0.1:8081", show_default=True, help="The registry to ask."
)
_TOKEN = click.option("--token", envvar="EVENTIDE_REGISTRY_TOKEN", help="A bearer token, NAME.SECRET.")
_AS_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON, one document.")


@click.group()
def registry() -> None:
    """A Confluent-compatible schema registry: serve it, look into it, prepare for it."""


@registry.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option("--port", default=8081, show_default=True, help="The port to listen on; 0 takes a free one.")
@click.option(
    "--store", default="sqlite:///registry.db", show_default=True, help="sqlite:///FILE or postgresql://USER@HOST/DB."
)
@click.option("--accounts", type=click.Path(path_type=Path, exists=True), help="Who is let in; see `account`.")
@click.option("--tls-cert", type=click.Path(path_type=Path, exists=True), help="The certificate to show.")
@click.option("--tls-key", type=click.Path(path_type=Path, exists=True), help="Its key, if not in the same file.")
@click.option("--tls-client-ca", type=click.Path(path_type=Path, exists=True), help="Demand client certificates of it.")
@click.option("--body-limit", default=2 * 1024 * 1024, show_default=True, help="The largest request, in bytes.")
@click.option("--require-owner/--no-require-owner", default=None, help="Refuse subjects that nobody owns.")
@click.option("--access-log", is_flag=True, help="Log every request.")
@click.option("--port-file", type=click.Path(path_type=Path), help="Write the port here once it listens.")
def serve(
    host: str,
    port: int,
    store: str,
    accounts: Path | None,
    tls_cert: Path | None,
    tls_key: Path | None,
    tls_client_ca: Path | None,
    body_limit: int,
    require_owner: bool | None,
    access_log: bool,
    port_file: Path | None,
) -> None:
    """Serve a registry until interrupted."""
    from eventide.migration.service import Migrations
    from eventide.registry.service import Options
    from eventide.registry.service import serve as run
    from eventide.registry.service.auth import Accounts
    from eventide.registry.service.server import Tls

    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
    try:
        options = Options(
            accounts=Accounts.load(accounts) if accounts else None,
            body_limit=body_limit,
            require_owner=require_owner,
            extensions=(Migrations(),),
        )
        tls = Tls(tls_cert, tls_key, tls_client_ca) if tls_cert else None
        run(store, host=host, port=port, options=options, tls=tls, access_log=access_log, port_file=port_file)
    except (ValueError, OSError, EventideError) as error:
        raise click.ClickException(str(error)) from error


@registry.command()
@click.argument("name")
@click.option("--file", "path", type=click.Path(path_type=Path), required=True, help="The accounts file to write.")
@click.option("--role", type=click.Choice(["read", "write", "admin"]), default="read", show_default=True)
@click.option("--prefix", multiple=True, help="The subjects it is for; all of them if left out. May be repeated.")
@click.option("--password", help="The secret; a new random one if left out.")
def account(name: str, path: Path, role: str, prefix: tuple[str, ...], password: str | None) -> None:
    """Add or replace an account; its secret is shown once and only its hash is kept."""
    from eventide.registry.service.auth import hashed

    if "." in name or ":" in name:
        raise click.BadParameter("a name has neither '.' nor ':'", param_hint="NAME")
    secret = password or secrets.token_urlsafe(24)
    accounts = json.loads(path.read_text()) if path.exists() else []
    kept = [a for a in accounts if a["name"] != name]
    grants = [{"prefix": p, "role": role} for p in prefix or ("",)]
    kept.append({"name": name, "secret": hashed(secret), "grants": grants})
    beside = path.with_suffix(".new")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as out:
        json.dump(kept, out, indent=2)
    beside.rename(path)
    if password is None:
        click.echo(f"basic   {name}:{secret}\nbearer  {name}.{secret}")
    click.echo(f"{name} may {role} {', '.join(prefix) or 'every subject'}", err=True)


@registry.command("list")
@click.option("--prefix", help="Only subjects that begin with this.")
@_URL
@_TOKEN
@_AS_JSON
def list_subjects(prefix: str | None, url: str, token: str | None, as_json: bool) -> None:
    """All subjects with their latest version, level, mode and owner."""
    lines = _ask(url, token, "GET", "/eventide/v1/subjects", subjectPrefix=prefix)
    if as_json:
        click.echo(json.dumps(lines, indent=2))
        return
    for line in lines:
        owner = line["owner"]["team"] if line["owner"] else "nobody"
        click.echo(
            f"{line['subject']}  v{line['version']} of {line['versions']}  id {line['id']}  {line['schemaType']}  "
            f"{line['compatibilityLevel']}  {line['mode']}  owned by {owner}"
        )


@registry.command("register")
@click.argument("subject")
@click.argument("schema", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option("--type", "kind", type=click.Choice(["AVRO", "JSON", "PROTOBUF"]), default="AVRO", show_default=True)
@_URL
@_TOKEN
def register_schema(subject: str, schema: Path, kind: str, url: str, token: str | None) -> None:
    """Register SCHEMA as the next version of SUBJECT; the same again changes nothing."""
    from urllib.parse import quote

    body = {"schema": schema.read_text(), "schemaType": kind}
    found = _ask(url, token, "POST", f"/subjects/{quote(subject, safe='')}/versions", body)
    click.echo(f"{subject}  v{found['version']}  id {found['id']}")


@registry.command()
@click.argument("subject")
@click.argument("old", default="1")
@click.argument("new", default="latest")
@click.option("--with", "other", help="Compare with a version of this subject instead.")
@_URL
@_TOKEN
@_AS_JSON
def diff(subject: str, old: str, new: str, other: str | None, url: str, token: str | None, as_json: bool) -> None:
    """What changed between two versions, and who could still read whom."""
    from urllib.parse import quote

    path = f"/eventide/v1/subjects/{quote(subject, safe='')}/diff"
    found = _ask(url, token, "GET", path, **{"from": old, "to": new, "with": other})
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


@registry.command()
@click.option("--prefix", default="", help="Only subjects that begin with this.")
@click.option("--who", help="Only what this account did.")
@click.option("--action", help="Only this kind of change, e.g. register.")
@click.option("--after", default=0, help="Only what came after this sequence number.")
@click.option("--limit", default=1000, show_default=True)
@_URL
@_TOKEN
@_AS_JSON
def audit(
    prefix: str, who: str | None, action: str | None, after: int, limit: int, url: str, token: str | None, as_json: bool
) -> None:
    """Who changed what, when, why and from where."""
    found = _ask(
        url, token, "GET", "/eventide/v1/audit", subjectPrefix=prefix or None, who=who, action=action, after=after,
        limit=limit,
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


@registry.command()
@click.option("--set", "prefix", help="Name the owner of the subjects that begin with this.")
@click.option("--remove", help="Take the owner of this prefix away.")
@click.option("--team", default="")
@click.option("--domain", default="")
@click.option("--contact", default="")
@click.option("--on-call", default="")
@_URL
@_TOKEN
@_AS_JSON
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
        found = [_ask(url, token, "PUT", path, body)]
    elif remove is not None:
        found = [_ask(url, token, "DELETE", path, prefix=remove)]
    else:
        found = _ask(url, token, "GET", path)
    if as_json:
        click.echo(json.dumps(found, indent=2))
        return
    for line in found:
        facts = "  ".join(f"{k} {line[k]}" for k in ("team", "domain", "contact", "on_call") if line.get(k))
        click.echo(f"{line['prefix'] or '(every subject)'}  {facts or 'nobody'}")


@registry.command()
@click.argument("files", nargs=-1, type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option("--topic", help="Read this Kafka topic instead of files.")
@click.option("--bootstrap", default="127.0.0.1:9092", show_default=True, help="The Kafka brokers.")
@click.option("--most", default=10_000, show_default=True, help="Read at most this many records of the topic.")
@click.option("--url", help="The registry whose ids the records carry.")
@_TOKEN
@_AS_JSON
def inventory(
    files: tuple[Path, ...],
    topic: str | None,
    bootstrap: str,
    most: int,
    url: str | None,
    token: str | None,
    as_json: bool,
) -> None:
    """The schemas of records already in flight, and the strictest level that they would have passed."""
    from eventide.registry.client import RegistryClient
    from eventide.registry.inventory import of_files, of_records, topic_records

    if bool(files) == bool(topic):
        raise click.UsageError("give either files (oldest first) or --topic")
    try:
        if topic:
            client = RegistryClient(url, token=token) if url else None
            found = of_records(topic_records(bootstrap, topic, most=most), client, topic)
        else:
            found = of_files(files)
    except EventideError as error:
        raise click.ClickException(str(error)) from error
    verdicts, advice = found.levels(), found.advice()
    if as_json:
        seen = [
            {"kind": s.kind, "id": s.schema_id, "origin": s.origin, "records": s.records, "schema": s.text} for s in found.seen
        ]
        click.echo(json.dumps({"seen": seen, "unreadable": found.unreadable, "levels": verdicts, "advice": advice}, indent=2))
        return
    for s in found.seen:
        name = f"id {s.schema_id}" if s.schema_id is not None else "inferred" if s.kind == "JSON" else "in the file"
        click.echo(f"{s.kind}  {name}  {s.records} records  {s.origin}\n    {s.text}")
    for reason, count in found.unreadable.items():
        click.echo(f"unreadable  {count}  {reason}")
    for level, reasons in verdicts.items():
        click.echo(f"{level:20} {'passes' if not reasons else f'{len(reasons)} reasons against, the first: {reasons[0]}'}")
    click.echo(f"Start with NONE; {advice} is the strictest level that all of this passes.")


def _ask(url: str, token: str | None, method: str, path: str, body: Any = None, **query: Any) -> Any:
    from eventide.registry.client import RegistryClient

    try:
        with RegistryClient(url, token=token, name="eventide-cli", tries=1) as client:
            return client.call(method, path, body, **query)
    except EventideError as error:
        raise click.ClickException(str(error)) from error
