"""A Redis server of the machine's own, on a socket in a directory of its own and a port of loopback; nothing of it stays."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import pytest

from tests.support.postgres import free_port


class RedisServer:
    """Debian's redis-server."""

    def __init__(self) -> None:
        program = shutil.which("redis-server")
        if program is None:
            pytest.fail(
                "these tests start redis-server, which is not there. As root: make programs (apt-get install redis-server)."
            )
        self.directory = Path(tempfile.mkdtemp(prefix="redis"))
        socket = self.directory / "redis.sock"
        self.url, self.port = f"unix://{socket}", free_port()
        listening = ("--bind", "127.0.0.1", "--port", str(self.port), "--unixsocket", str(socket))
        settings = (*listening, "--save", "", "--dir", str(self.directory))
        self.process = subprocess.Popen([program, *settings], stdout=subprocess.DEVNULL)
        while not socket.exists():
            if self.process.poll() is not None:
                raise RuntimeError(f"redis-server ended with {self.process.returncode}")
            time.sleep(0.01)

    def close(self) -> None:
        self.process.terminate()
        self.process.wait(timeout=10)
        shutil.rmtree(self.directory, ignore_errors=True)
