"""A store that speaks S3: moto, whose own server takes what has arrived of a request that broke off for all of it, headers and body.

So half a copy becomes an empty object. As the real store, this one takes no request that is not whole. Nor is it true of moto that of two
that create an object, one wins: it looks first and writes later. Here what is written is written one after the other.

`python tests/support/object_store.py PORT LOG` serves on loopback until it is killed, and notes each request in a file. With a third
argument, `careless`, it knows no conditions, as stores of other makers do not.
"""

from __future__ import annotations

import io
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
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

    def __init__(
        self, store: Callable[[dict[str, Any], Any], Iterable[bytes]], log: str | None = None, careless: bool = False
    ) -> None:
        self.store, self.careless, self.writing = store, careless, threading.Lock()
        self.log = None if log is None else open(log, "a", buffering=1)  # noqa: SIM115

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
        left_out = {"HTTP_TRANSFER_ENCODING", *(["HTTP_IF_NONE_MATCH"] if self.careless else [])}
        whole = {name: value for name, value in environ.items() if name not in left_out}
        if self.log is not None:
            query = f"?{environ['QUERY_STRING']}" if environ.get("QUERY_STRING") else ""
            self.log.write(f"{environ['REQUEST_METHOD']} {environ['PATH_INFO']}{query}\n")
        asked = {**whole, "wsgi.input": io.BytesIO(body), "CONTENT_LENGTH": str(len(body))}
        if environ["REQUEST_METHOD"] in ("GET", "HEAD"):
            return self.store(asked, start)
        with self.writing:
            return self.store(asked, start)


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


class ObjectStore:
    """The store in a process of its own, with one bucket, `lake`."""

    def __init__(self, folder: Path, *, careless: bool = False) -> None:
        from tests.support.postgres import free_port

        self.port = free_port()
        self.log = folder / f"requests-{self.port}.txt"
        self.log.touch()
        mood = ["careless"] if careless else []
        self.process = subprocess.Popen(
            [sys.executable, __file__, str(self.port), str(self.log), *mood],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self._make_bucket()

    @property
    def environment(self) -> dict[str, str]:
        """What leads a program there."""
        return environment_at(self.port)

    def _make_bucket(self) -> None:
        import boto3
        from botocore.exceptions import ClientError, EndpointConnectionError

        keys = {"aws_access_key_id": "k", "aws_secret_access_key": "s", "region_name": "us-east-1"}
        client = boto3.client("s3", endpoint_url=f"http://127.0.0.1:{self.port}", **keys)
        deadline = time.monotonic() + 60
        while True:
            try:
                client.create_bucket(Bucket="lake")
                return
            except (EndpointConnectionError, ClientError):
                assert self.process.poll() is None and time.monotonic() < deadline, "the object store did not start"
                time.sleep(0.1)

    def requests(self) -> list[str]:
        """Every request so far: its verb and its path."""
        return self.log.read_text().splitlines()

    def close(self) -> None:
        self.process.kill()
        self.process.wait()


def environment_at(port: int) -> dict[str, str]:
    """What leads a program to a store at a port of this machine."""
    keys = {"AWS_ACCESS_KEY_ID": "k", "AWS_SECRET_ACCESS_KEY": "s", "AWS_REGION": "us-east-1"}
    return {**keys, "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}", "AWS_ALLOW_HTTP": "true"}


if __name__ == "__main__":
    log, careless = (sys.argv[2] if len(sys.argv) > 2 else None), "careless" in sys.argv[3:]
    store = Whole(DomainDispatcherApplication(create_backend_app), log, careless)
    run_simple("127.0.0.1", int(sys.argv[1]), store, threaded=True, request_handler=WholeHeaders)
