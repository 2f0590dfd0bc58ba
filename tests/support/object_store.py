"""A store that speaks S3: moto, whose own server takes what has arrived of a request that broke off for all of it, headers and body.

So half a copy becomes an empty object. As the real store, this one takes no request that is not whole.

`python tests/support/object_store.py PORT` serves on loopback until it is killed.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterable
from typing import Any

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import WSGIRequestHandler, run_simple


class Lines:
    """A stream that remembers the last line that was read from it."""

    def __init__(self, stream: Any) -> None:
        self.stream, self.last = stream, b""

    def readline(self, size: int = -1) -> bytes:
        self.last = self.stream.readline(size)
        return self.last


class WholeHeaders(WSGIRequestHandler):
    """Answers only requests whose headers end as they must, with an empty line."""

    def parse_request(self) -> bool:
        stream = self.rfile
        self.rfile = lines = Lines(stream)  # type: ignore[assignment]
        parsed = super().parse_request()
        self.rfile = stream
        self.close_connection = self.close_connection or not lines.last
        return parsed and bool(lines.last)


class Whole:
    """Lets only requests through whose whole body has arrived."""

    def __init__(self, store: Callable[[dict[str, Any], Any], Iterable[bytes]]) -> None:
        self.store = store

    def __call__(self, environ: dict[str, Any], start: Any) -> Iterable[bytes]:
        length = int(environ.get("CONTENT_LENGTH") or 0)
        in_chunks = environ.get("HTTP_TRANSFER_ENCODING") == "chunked"
        try:
            body = _unchunked(environ["wsgi.input"]) if in_chunks else environ["wsgi.input"].read(length) if length else b""
        except (OSError, ValueError):
            body, length = b"", 1
        if len(body) < length:
            start("400 Bad Request", [("Content-Type", "application/xml")])
            return [b"<Error><Code>IncompleteBody</Code></Error>"]
        whole = {name: value for name, value in environ.items() if name != "HTTP_TRANSFER_ENCODING"}
        return self.store({**whole, "wsgi.input": io.BytesIO(body), "CONTENT_LENGTH": str(len(body))}, start)


def _unchunked(stream: Any) -> bytes:
    """A body that came in chunks, to its last one; the server's own reader gives what it has when a chunk is slow to come."""
    while not isinstance(stream, io.BufferedReader):
        stream = getattr(stream, "_rfile", None) or stream._stream
    body = b""
    while size := int(stream.readline().partition(b";")[0], 16):
        chunk = stream.read(size + 2)
        if len(chunk) < size + 2:
            raise OSError("the body broke off")
        body += chunk[:-2]
    stream.readline()
    return body


if __name__ == "__main__":
    store = Whole(DomainDispatcherApplication(create_backend_app))
    run_simple("127.0.0.1", int(sys.argv[1]), store, threaded=True, request_handler=WholeHeaders)
