"""A registry to ask: in this process by default, as a process of its own where that matters."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
import uvicorn

from eventide.registry.service import Application, Options
from eventide.registry.store import open_store
from tests.support.postgres import PostgresServer

V1 = "application/vnd.schemaregistry.v1+json"


class Ask:
    """A client that speaks plain HTTP, so that tests see what any client would."""

    def __init__(self, url: str, headers: dict[str, str] | None = None) -> None:
        self.url = url
        self.http = httpx.Client(base_url=url, headers=headers, timeout=30)

    def __call__(self, method: str, path: str, body: Any = None, **kwargs: Any) -> httpx.Response:
        headers = {"Content-Type": V1, **kwargs.pop("headers", {})} if body is not None else kwargs.pop("headers", {})
        content = body if isinstance(body, bytes) else None if body is None else json.dumps(body).encode()
        # A URL given as text is sent as it is: httpx would tidy up the very path tricks that are to be tested.
        return self.http.request(method, self.url + path, content=content, headers=headers, **kwargs)

    def ok(self, method: str, path: str, body: Any = None, **kwargs: Any) -> Any:
        answer = self(method, path, body, **kwargs)
        assert answer.status_code == 200, (method, path, answer.status_code, answer.text)
        return answer.json()

    def register(self, subject: str, schema: Any, **more: Any) -> dict[str, Any]:
        text = schema if isinstance(schema, str) else json.dumps(schema)
        return self.ok("POST", f"/subjects/{subject}/versions", {"schema": text, **more})


class InThread:
    """The service on a free port of the loopback, in a thread of the test's own process."""

    def __init__(self, store_url: str, options: Options = Options()) -> None:  # noqa: B008
        self.app = Application(open_store(store_url), options)
        config = uvicorn.Config(self.app, host="127.0.0.1", port=0, log_level="warning", lifespan="on")
        self.server = uvicorn.Server(config)
        self.thread = threading.Thread(target=lambda: asyncio.run(self.server.serve()), daemon=True)
        self.thread.start()
        wait_until(lambda: self.server.started)
        self.port = self.server.servers[0].sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"

    def stop(self) -> None:
        self.server.should_exit = True
        self.thread.join(timeout=20)


class Process:
    """The service as a process of its own, to be killed."""

    def __init__(self, store_url: str, *arguments: str) -> None:
        ready = Path(tempfile.mkdtemp()) / "port"
        code = "import sys; from eventide.cli.registry import registry; registry(sys.argv[1:])"
        serve = ["serve", "--port", "0", "--store", store_url, "--port-file", str(ready), *arguments]
        self.process = subprocess.Popen([sys.executable, "-c", code, *serve], env=os.environ.copy())
        wait_until(lambda: (ready.exists() and ready.read_text()) or self.process.poll() is not None)
        assert self.process.poll() is None, "the service did not start"
        self.port = int(ready.read_text())
        self.url = f"http://127.0.0.1:{self.port}"

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(timeout=20)

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(timeout=20)


def wait_until(condition: Any, seconds: float = 20.0) -> None:
    """Wait for a condition, not for luck."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.005)


@pytest.fixture(scope="session")
def postgres(postgres_server: PostgresServer) -> str:
    """A PostgreSQL server of the tests' own."""
    return str(postgres_server.dsn)


def fresh_database(server: str) -> str:
    """An empty database on a server."""
    name = f"registry_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{name}"'.encode())
    return server.rsplit("/", 1)[0] + f"/{name}"


@pytest.fixture
def postgres_url(postgres: str) -> str:
    return fresh_database(postgres)


@pytest.fixture(params=["sqlite", "postgres"])
def store_url(request: pytest.FixtureRequest) -> str:
    """Each store in turn, empty."""
    return str(request.getfixturevalue(f"{request.param}_url"))


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/registry.db"


@pytest.fixture
def service(sqlite_url: str) -> Iterator[InThread]:
    running = InThread(sqlite_url)
    yield running
    running.stop()


@pytest.fixture
def ask(service: InThread) -> Ask:
    return Ask(service.url)
