"""`eventide registry`: serve a schema registry, and ask one."""

from __future__ import annotations

import json
import logging
import os
import secrets
from pathlib import Path
from typing import Any

import click

from eventide.cli import registry_ask, registry_contract
from eventide.cli.faults import Refused, Unanswered, refuse_unwritable
from eventide.cli.registry_ask import AS_JSON, TOKEN
from eventide.errors import EventideError
from eventide.redaction import masked


@click.group()
def registry() -> None:
    """A Confluent-compatible schema registry: serve it, look into it, prepare for it."""


@registry.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=8081, show_default=True, help="The port to listen on; 0 takes a free one."
)
@click.option(
    "--store", default="sqlite:///registry.db", show_default=True, help="sqlite:///FILE or postgresql://USER@HOST/DB."
)
@click.option("--accounts", type=click.Path(path_type=Path, exists=True), help="Who is let in; see `account`.")
@click.option("--tls-cert", type=click.Path(path_type=Path, exists=True), help="The certificate to show.")
@click.option("--tls-key", type=click.Path(path_type=Path, exists=True), help="Its key, if not in the same file.")
@click.option("--tls-client-ca", type=click.Path(path_type=Path, exists=True), help="Demand client certificates of it.")
@click.option(
    "--body-limit",
    type=click.IntRange(min=1),
    default=2 * 1024 * 1024,
    show_default=True,
    help="The largest request, in bytes.",
)
@click.option("--default-compatibility", default="BACKWARD", show_default=True, help="The level where nobody has set one.")
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
    default_compatibility: str,
    require_owner: bool | None,
    access_log: bool,
    port_file: Path | None,
) -> None:
    """Serve a registry until interrupted."""
    from eventide.migration.rollout.service import Migrations
    from eventide.registry.compatibility import LEVELS
    from eventide.registry.service import Options
    from eventide.registry.service import serve as run
    from eventide.registry.service.auth import Accounts
    from eventide.registry.service.server import Tls
    from eventide.registry.store import StoreUnavailable

    if tls_cert is None and (tls_key or tls_client_ca):
        raise click.UsageError(
            "--tls-key and --tls-client-ca need --tls-cert: without a certificate nothing is encrypted, and nobody is asked for one."
        )
    if default_compatibility.upper() not in LEVELS:
        message = f"{default_compatibility!r} is no compatibility level; take one of {', '.join(LEVELS)}"
        raise click.BadParameter(message, param_hint="--default-compatibility")
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
    try:
        options = Options(
            accounts=Accounts.load(accounts) if accounts else None,
            body_limit=body_limit,
            require_owner=require_owner,
            default_level=default_compatibility.upper(),
            extensions=(Migrations(),),
        )
        tls = Tls(tls_cert, tls_key, tls_client_ca) if tls_cert else None
        run(store, host=host, port=port, options=options, tls=tls, access_log=access_log, port_file=port_file,
            announce=click.echo)  # fmt: skip
    except StoreUnavailable as error:
        raise Unanswered(f"{masked(store)}: {' '.join(str(error).split())}") from error
    except (ValueError, OSError, EventideError) as error:
        raise Refused(masked(" ".join(str(error).split()))) from error


@registry.command()
@click.argument("name")
@click.option("--file", "path", type=click.Path(path_type=Path), required=True, help="The accounts file to write.")
@click.option(
    "--role", type=click.Choice(["read", "write", "admin"]), default="read", show_default=True, help="What it may do with them."
)
@click.option("--prefix", multiple=True, help="The subjects it is for; all of them if left out. May be repeated.")
@click.option("--password", help="The secret; a new random one if left out.")
def account(name: str, path: Path, role: str, prefix: tuple[str, ...], password: str | None) -> None:
    """Add or replace an account; its secret is shown once and only its hash is kept."""
    from eventide.registry.service.auth import hashed

    if "." in name or ":" in name or not name.strip():
        raise click.BadParameter("a name has neither '.' nor ':', and is not empty", param_hint="NAME")
    if password is not None and not password.strip():
        raise click.BadParameter("it is empty; leave it out, and a random one is made", param_hint="--password")
    refuse_unwritable("--file", str(path))
    secret = secrets.token_urlsafe(24) if password is None else password
    kept = [account for account in _accounts(path) if account["name"] != name]
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


def _accounts(path: Path) -> list[dict[str, Any]]:
    """The accounts of a file, none if it is not there yet; what is no such file is not written over."""
    from eventide.registry.service.auth import Accounts

    if not path.exists():
        return []
    try:
        Accounts.load(path)
    except (ValueError, OSError) as error:
        raise Refused(f"{error} It stays as it is.") from error
    found: list[dict[str, Any]] = json.loads(path.read_text())
    return found


@registry.command()
@click.argument("files", nargs=-1, type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option("--topic", help="Read this Kafka topic instead of files.")
@click.option("--bootstrap", default="127.0.0.1:9092", show_default=True, help="The Kafka brokers.")
@click.option("--most", default=10_000, show_default=True, help="Read at most this many records of the topic.")
@click.option("--url", help="The registry whose ids the records carry.")
@TOKEN
@AS_JSON
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
    verdicts, advice = found.levels(), found.advice() if found.seen else None
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
    if advice is None:
        raise click.ClickException("no schema was found in what was read, so that no level can be advised.")
    for level, reasons in verdicts.items():
        click.echo(f"{level:20} {'passes' if not reasons else f'{len(reasons)} reasons against, the first: {reasons[0]}'}")
    click.echo(f"Start with NONE; {advice} is the strictest level that all of this passes.")


for _command in (*registry_ask.COMMANDS, registry_contract.contract):
    registry.add_command(_command)
