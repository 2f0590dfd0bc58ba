"""ClickHouse over HTTP: its real engine (chdb) behind the protocol that its clients speak, in a process of its own.

A request is a statement with the format of its answer, or an insert with rows in its body; one that is not whole is not taken, as by the
real server. What this front does not have: users, sessions, settings by URL.

`python tests/support/clickhouse_server.py PORT DIRECTORY` serves on loopback until it is killed.
"""

from __future__ import annotations

import re
import sys
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from chdb.session import Session

INSERT = re.compile(rb"(?is)\s*(insert\s+into\s.+?)\s+format\s+(\w+)\s*(?:\n(.*))?$")
ENGINE = threading.Lock()


class Front(BaseHTTPRequestHandler):
    """One connection of a client."""

    protocol_version = "HTTP/1.1"
    session: Session
    rows: Path

    def do_POST(self) -> None:
        body = self._body()
        if body is None:  # the line broke inside the request
            self.close_connection = True
            return
        said = parse_qs(urlsplit(self.path).query).get("query", [""])[0].encode()
        try:
            with ENGINE:
                self._answer(200, self._run(b"%s\n%s" % (said, body) if said else body), {})
        except RuntimeError as error:
            code = re.search(r"Code: (\d+)", str(error))
            self._answer(500, str(error).encode(), {"X-ClickHouse-Exception-Code": code[1] if code else "0"})

    do_GET = do_POST

    def _body(self) -> bytes | None:
        if self.headers.get("Transfer-Encoding") == "chunked":
            parts = []
            while size := int(self.rfile.readline() or b"-1", 16):
                part = self.rfile.read(size + 2) if size > 0 else b""
                if size < 0 or len(part) < size + 2:
                    return None
                parts.append(part[:-2])
            return b"".join(parts) if self.rfile.readline() else None
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length)
        return body if len(body) == length else None

    def _run(self, request: bytes) -> bytes:
        insert = INSERT.match(request)
        if insert is None:
            return bytes(self.session.query(request.decode(), "TabSeparated").bytes() or b"")
        with tempfile.NamedTemporaryFile(dir=self.rows) as rows:
            rows.write(insert[3] or b"")
            rows.flush()
            self.session.query(f"{insert[1].decode()} select * from file('{rows.name}', '{insert[2].decode()}')")
        return b""

    def _answer(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), "X-ClickHouse-Summary": "{}", **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Nothing: faults are the point."""


def main() -> None:
    """Serve."""
    port, directory = int(sys.argv[1]), Path(sys.argv[2])
    Front.rows = directory / "rows"
    Front.rows.mkdir(parents=True)
    Front.session = Session(str(directory / "data"))
    Front.session.query("create database if not exists sales")
    Front.session.query("use sales")
    with ThreadingHTTPServer(("127.0.0.1", port), Front) as server:
        server.daemon_threads = True
        server.handle_error = lambda *_: None  # type: ignore[method-assign, assignment]
        server.serve_forever()


if __name__ == "__main__":
    main()
