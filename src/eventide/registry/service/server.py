"""Running the service: sockets, TLS, and a warning where anybody could write."""

from __future__ import annotations

import logging
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import uvicorn

from eventide.redaction import masked
from eventide.registry.service.app import Application, Options
from eventide.registry.store import open_store
from eventide.served import is_loopback

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Tls:
    """The certificate that the service shows, and the authority that client certificates must come from."""

    certificate: Path
    key: Path | None = None
    client_authority: Path | None = None


def serve(
    store_url: str,
    *,
    host: str = "127.0.0.1",
    port: int = 8081,
    options: Options = Options(),  # noqa: B008 - frozen
    tls: Tls | None = None,
    access_log: bool = False,
    port_file: Path | None = None,
    announce: Callable[[str], None] = log.info,
) -> None:
    """Serve a registry until the process is told to stop; with port 0 on a free one, written to `port_file`.

    The first thing said is where it listens, to `announce`.
    """
    application = Application(open_store(store_url), options)
    listening = _listen(host, port)
    shown = f"[{host}]" if ":" in host else host
    announce(
        f"The registry listens on {'https' if tls else 'http'}://{shown}:{listening.getsockname()[1]} ({masked(store_url)})"
    )
    if options.accounts is None and not is_loopback(host):
        log.warning(
            "the registry listens on %s without authentication: whoever reaches it may change and delete schemas. "
            "Give --accounts FILE, or listen on 127.0.0.1.",
            host,
        )
    if options.accounts is not None and tls is None and not is_loopback(host):
        log.warning("credentials will cross the network unencrypted on %s; give --tls-cert and --tls-key.", host)
    config = uvicorn.Config(
        application,
        log_level="info",
        access_log=access_log,
        server_header=False,
        date_header=False,
        backlog=2048,
        timeout_keep_alive=75,
        ssl_certfile=str(tls.certificate) if tls else None,
        ssl_keyfile=str(tls.key) if tls and tls.key else None,
        ssl_ca_certs=str(tls.client_authority) if tls and tls.client_authority else None,
        ssl_cert_reqs=ssl.CERT_REQUIRED if tls and tls.client_authority else ssl.CERT_NONE,
    )
    if port_file is not None:
        # Connections wait in the backlog from here on, so whoever reads the file may connect at once.
        beside = port_file.with_suffix(".new")
        beside.write_text(str(listening.getsockname()[1]))
        beside.rename(port_file)
    uvicorn.Server(config).run(sockets=[listening])


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listening.bind((host, port))
    listening.listen(2048)
    return listening
