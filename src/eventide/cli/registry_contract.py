"""`eventide registry contract`: a subject as a data contract (Open Data Contract Standard v3), out and in."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import click

from eventide.cli.faults import Refused, refuse_unwritable, text_of
from eventide.cli.registry_ask import TOKEN, URL, ask
from eventide.errors import DefinitionError, EventideError


@click.group()
def contract() -> None:
    """A subject as a data contract in the Open Data Contract Standard v3: its schema, owner, freshness and completeness."""


@contract.command("export")
@click.argument("subject")
@click.option("--version", default="latest", show_default=True, help="The version of the schema.")
@click.option(
    "--tune", "tuned", type=click.Path(path_type=Path, exists=True, dir_okay=False), help="What `eventide tune --json` wrote."
)
@click.option("--freshness", help='Promise this instead: 99% of rows arrive within it, as in "30 s".')
@click.option(
    "--completeness", type=click.FloatRange(0, 1), help="Promise this instead: the share of rows in results in the end."
)
@click.option("--out", type=click.Path(path_type=Path), help="Write it here instead of printing it.")
@URL
@TOKEN
def export(
    subject: str,
    version: str,
    tuned: Path | None,
    freshness: str | None,
    completeness: float | None,
    out: Path | None,
    url: str,
    token: str | None,
) -> None:
    """Write the contract of SUBJECT."""
    from eventide.registry.contract import Parts, build, write

    if out is not None:
        refuse_unwritable("--out", str(out))
    if completeness is not None and completeness != completeness:
        raise click.BadParameter("nan is no share of the rows", param_hint="--completeness")
    found = ask(url, token, "GET", f"/subjects/{quote(subject, safe='')}/versions/{quote(version, safe='')}")
    references = found.get("references", [])
    try:
        parts = Parts(
            subject, found["schemaType"], found["schema"], references, found["version"], _owner(url, token, subject),
            _promises(tuned, freshness, completeness),
        )  # fmt: skip
        text = write(build(parts, _texts(url, token, references)))
    except DefinitionError as error:
        raise Refused(str(error)) from error
    except EventideError as error:
        raise click.ClickException(str(error)) from error
    if out is None:
        click.echo(text, nl=False)
        return
    out.write_text(text)
    click.echo(f"{subject} version {found['version']} is in {out}. Check it with: eventide lateness PIPELINE --contract {out}")


@contract.command("import")
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option("--subject", help="Register it under this subject instead of the one that the contract names.")
@URL
@TOKEN
def import_contract(file: Path, subject: str | None, url: str, token: str | None) -> None:
    """Register the schema of the contract in FILE and name its owner; the same again changes nothing."""
    from eventide.registry.contract import ContractRefused, read, take_apart

    try:
        document = read(text_of(file))
        custom = document.get("customProperties") or []
        held: list[Any] = [each["value"] for each in custom if each.get("property") == "eventideReferences"]
        parts = take_apart(document, subject, _texts(url, token, held[0] if held else []))
    except (ContractRefused, Refused, AttributeError, KeyError, TypeError) as error:
        raise click.ClickException(f"{file}: {error}") from error
    body = {"schema": parts.text, "schemaType": parts.kind, "references": parts.references}
    found = ask(url, token, "POST", f"/subjects/{quote(parts.subject, safe='')}/versions", body)
    click.echo(f"{parts.subject}  v{found['version']}  id {found['id']}")
    before = _owner(url, token, parts.subject)
    if parts.owner is not None and parts.owner != {name: (before or {}).get(name, "") for name in parts.owner}:
        ask(url, token, "PUT", "/eventide/v1/owners", {"prefix": parts.subject, **parts.owner})
        click.echo(f"{parts.subject}  owned by {parts.owner['team']}")


def _owner(url: str, token: str | None, subject: str) -> dict[str, str] | None:
    owners: list[dict[str, str]] = ask(url, token, "GET", "/eventide/v1/owners", gives=list)
    return max((o for o in owners if subject.startswith(o["prefix"])), key=lambda o: len(o["prefix"]), default=None)


def _texts(url: str, token: str | None, references: Iterable[dict[str, Any]]) -> dict[str, str]:
    """The schemas that a schema refers to, by name, those that they refer to included."""
    texts: dict[str, str] = {}
    for reference in references:
        if reference["name"] not in texts:
            path = f"/subjects/{quote(reference['subject'], safe='')}/versions/{reference['version']}"
            found = ask(url, token, "GET", path)
            texts = {**_texts(url, token, found.get("references", [])), **texts, reference["name"]: found["schema"]}
    return texts


def _promises(tuned: Path | None, freshness: str | None, completeness: float | None) -> list[dict[str, Any]]:
    from eventide.lateness.promise import Promise
    from eventide.model.time import duration

    promise = Promise()
    if tuned is not None:
        try:
            promise = Promise.of_tuning(json.loads(text_of(tuned)))
        except ValueError as error:
            raise DefinitionError(f"{tuned} is no JSON of `eventide tune --json`: {error}") from error
    span = duration(freshness, what="--freshness") if freshness else promise.freshness
    return Promise(span, promise.completeness if completeness is None else completeness).as_properties()
