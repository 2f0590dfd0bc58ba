"""`/metrics` of a run, on this machine only: what its state says, and how its sinks are doing before anything of it is committed."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from eventide.dashboard.metrics import exposition, in_text, of_process
from eventide.dashboard.watched import Place, Watched
from eventide.served import MEDIA, is_loopback

HOST = "127.0.0.1"


class Scrape(ThreadingHTTPServer):
    r"""Answers `/metrics`, `/healthz` and `/readyz` in threads of its own, until it is closed; the state is looked at when it is asked.

    >>> import tempfile, urllib.request
    >>> with Scrape(0, Place(tempfile.mkdtemp(), "clicks")) as scrape:
    ...     print(urllib.request.urlopen(f"http://127.0.0.1:{scrape.server_port}/healthz").read())
    b'ok\n'
    """

    daemon_threads = True

    def __init__(self, port: int, place: Place) -> None:
        super().__init__((HOST, port), _Answer)
        self.watched = Watched(place, pictures=False)
        self.looking = threading.Lock()

    def __enter__(self) -> Scrape:
        threading.Thread(target=self.serve_forever, name="metrics", daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        self.shutdown()
        self.server_close()

    def told(self) -> str:
        """Everything, as it is now."""
        with self.looking:
            self.watched.look()
            facts = [self.watched.facts] if self.watched.facts else []
        return exposition(facts) + "".join(in_text(of_process([self.watched.place.name])))


class _Answer(BaseHTTPRequestHandler):
    server: Scrape

    def do_GET(self) -> None:
        host = self.headers.get("host", "").rpartition(":")[0].strip("[]")
        if not is_loopback(host):
            return self._say(403, "this is for this machine only\n")
        if self.path == "/healthz":
            return self._say(200, "ok\n")
        if self.path not in ("/metrics", "/readyz"):
            return self._say(404, "there are /metrics, /healthz and /readyz\n")
        told = self.server.told()
        if self.path == "/metrics":
            return self._say(200, told, MEDIA)
        fault = self.server.watched.fault
        return self._say(200, "ok\n") if fault is None else self._say(503, f"{fault}\n")

    def _say(self, status: int, text: str, media: str = "text/plain; charset=utf-8") -> None:
        body = text.encode("utf-8", "backslashreplace")
        self.send_response(status)
        self.send_header("content-type", media)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """A scrape is no news."""


__all__ = ["Scrape"]
