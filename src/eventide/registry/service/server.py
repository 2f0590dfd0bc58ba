"""Running the service: sockets, TLS, and a warning where anybody could write."""

from __future__ import annotations

import ipaddress
import logging
from dataclasses import dataclass
from pathlib import Path

import uvicorn

from eventide.registry.service.app import Application, Options
from eventide.registry.store import open_store

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Tls:
    """The certificate that the service shows, and the authority that client certificates must come from."""

    certificate: Path
    key: Path | None = None
    client_authority: Path | None = None


def is_loopback(host: str) -> bool:
    """Can only this machine reach the address?"""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def serve(
    store_url: str,
    *,
    host: str = "127.0.0.1",
    port: int = 8081,
    options: Options = Options(),  # noqa: B008 - frozen
    tls: Tls | None = None,
    access_log: bool = False,
) -> None:
    """Serve a registry until the process is told to stop."""
    if options.accounts is None and not is_loopback(host):
        log.warning(
            "the registry listens on %s without authentication: whoever reaches it may change and delete schemas. "
            "Give --accounts FILE, or listen on 127.0.0.1.",
            host,
        )
    if options.accounts is not None and tls is None and not is_loopback(host):
        log.warning("credentials will cross the network unencrypted on %s; give --tls-cert and --tls-key.", host)
    uvicorn.run(
        Application(open_store(store_url), options),
        host=host,
        port=port,
        log_level="info",
        access_log=access_log,
        server_header=False,
        date_header=False,
        backlog=2048,
        timeout_keep_alive=75,
        h11_max_incomplete_event_size=64 * 1024,
        ssl_certfile=str(tls.certificate) if tls else None,
        ssl_keyfile=str(tls.key) if tls and tls.key else None,
        ssl_ca_certs=str(tls.client_authority) if tls and tls.client_authority else None,
        ssl_cert_reqs=2 if tls and tls.client_authority else 0,
    )
