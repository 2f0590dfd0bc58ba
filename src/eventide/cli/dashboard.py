"""`eventide dashboard [FILE|STATE]…`: one page about pipelines, served from their states without Spark."""

from __future__ import annotations

import json
import os
import secrets
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from eventide.cli.faults import Refused, retrying, text_of
from eventide.cli.states import opened
from eventide.served import is_loopback

if TYPE_CHECKING:
    from eventide.dashboard.watched import Place

TOKEN = "EVENTIDE_DASHBOARD_TOKEN"  # noqa: S105 (the name of a variable)
REGISTRY_TOKEN = "EVENTIDE_REGISTRY_TOKEN"  # noqa: S105
HERE = "state"
"""Where states are looked for if none is named."""


@click.command()
@click.argument("places", metavar="[FILE|STATE]…", nargs=-1)
@click.option(
    "--host", default="127.0.0.1", show_default=True, help="The address to listen on; any but this machine's own needs a token."
)
@click.option("--port", default=8090, show_default=True, help="The port to listen on; 0 takes a free one.")
@click.option("--registry", metavar="URL", help=f"The schema registry to show; its token is taken from {REGISTRY_TOKEN}.")
@click.option(
    "--tuned",
    type=click.Path(exists=True, dir_okay=False),
    help="What `eventide tune --json` wrote: draws the curve of completeness.",
)
@click.option(
    "--reconciled", type=click.Path(exists=True, dir_okay=False), help="What `eventide reconcile --json` wrote: shows the gaps."
)
def dashboard(
    places: tuple[str, ...], host: str, port: int, registry: str | None, tuned: str | None, reconciled: str | None
) -> None:
    """Serve a page about pipelines, running or stopped: by their FILEs, or by their STATE directories, else all below ./state.

    Starts no Spark and writes nothing. On an address that others reach, the page asks for a token: that of EVENTIDE_DASHBOARD_TOKEN, or else one that is made and printed. Ctrl-C ends it.
    """
    from eventide.dashboard.app import Board, application
    from eventide.dashboard.schemas import Schemas

    token = None if is_loopback(host) else os.environ.get(TOKEN) or secrets.token_urlsafe(24)
    with retrying():
        found = [_place(place) for place in places or _below(Path(HERE))]
    reports = {name: _report(path) for name, path in (("tuned", tuned), ("reconciled", reconciled)) if path is not None}
    schemas = None if registry is None else Schemas.at(registry, os.environ.get(REGISTRY_TOKEN))
    listening = _listen(host, port)
    board = Board(found, schemas, reports)
    board.start()
    _announce(host, listening.getsockname()[1], token)
    try:
        _serve(application(board, token), listening)
    finally:
        board.stop()


def _place(place: str) -> Place:
    from eventide.dashboard.watched import Place

    state = opened(place)
    return Place(state.path, state.name)


def _below(root: Path) -> list[str]:
    """The states directly below a directory."""
    found = [str(path) for path in sorted(root.iterdir()) if (path / "journal").is_dir()] if root.is_dir() else []
    if not found:
        raise Refused(
            f"there is no state below ./{root}. Name a pipeline's FILE or its STATE directory: eventide dashboard FILE"
        )
    return found


def _report(path: str) -> Any:
    try:
        found = json.loads(text_of(Path(path)))
    except ValueError as error:
        raise Refused(f"{path} is no JSON ({error}). Let the command write it anew, with --json {path}.") from error
    if not isinstance(found, dict):
        raise Refused(f"{path} holds no report: eventide tune and eventide reconcile write one with --json {path}.")
    return found


def _listen(host: str, port: int) -> socket.socket:
    listening = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
    except (OSError, OverflowError) as error:
        raise Refused(f"{host}:{port} cannot be listened on ({error}). Take another one: --port 0 takes a free one.") from error
    listening.listen(128)
    return listening


def _announce(host: str, port: int, token: str | None) -> None:
    shown = f"[{host}]" if ":" in host else host
    given = "" if token is None else f"/?token={token}"
    click.echo(f"http://{shown}:{port}{given}")
    if token is not None:
        click.echo(
            "without TLS the token can be read on the way: put a proxy with TLS before it, or a tunnel (ssh -L).", err=True
        )


def _serve(application: Any, listening: socket.socket) -> None:
    import uvicorn

    config = uvicorn.Config(
        application, log_level="warning", access_log=False, server_header=False, timeout_graceful_shutdown=1
    )
    uvicorn.Server(config).run(sockets=[listening])
