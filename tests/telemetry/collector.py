"""A server that keeps what is posted to it, and answers as it is told to."""

from __future__ import annotations

import threading
from email.message import Message
from http.server import BaseHTTPRequestHandler, HTTPServer
from types import TracebackType


class Collector(HTTPServer):
    def __init__(self, *answers: int) -> None:
        self.got: list[tuple[str, Message, bytes]] = []
        self.answers = list(answers)
        """Statuses of the first answers; then 200."""
        super().__init__(("127.0.0.1", 0), _Post)

    def __enter__(self) -> Collector:
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.shutdown()
        self.server_close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def posted(self, path: str) -> list[bytes]:
        return [body for to, _, body in self.got if to == path]


class _Post(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        self.server.got.append((self.path, self.headers, body))
        status = self.server.answers.pop(0) if self.server.answers else 200
        self.send_response(status)
        if status in (301, 302, 307):
            self.send_header("location", f"{self.server.url}/elsewhere")
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Quiet."""
