"""One run at a time on a state directory: a small record says who, and is renewed while the run lives."""

from __future__ import annotations

import json
import os
import socket
import time
import uuid
from dataclasses import dataclass
from typing import Any

from eventide.engine.journal import RecordFiles
from eventide.errors import EventideError

EXPIRES_AFTER = 120.0
"""Seconds without renewal after which a run on another machine is taken for dead."""
PATH = "lease.json"


class StateInUse(EventideError):
    """Another run holds the state directory."""


@dataclass
class Lease:
    """Held from start to stop."""

    files: RecordFiles
    holder: str

    @classmethod
    def take(cls, files: RecordFiles, root: str) -> Lease:
        """Take the lease, or say who holds it; a holder that is dead on this machine is replaced at once."""
        body = files.read(PATH)
        if body is not None:
            held = _record(body, root)
            if _alive(held):
                raise StateInUse(
                    f"the state directory {root} is in use by process {held['pid']} on {held['host']} "
                    f"(last seen {time.time() - held['renewed']:.0f} s ago). Stop that run first; two runs would write the same batches."
                )
        lease = cls(files, uuid.uuid4().hex)
        lease.renew(first=True)
        return lease

    def renew(self, first: bool = False) -> None:
        """Say that the run lives; stops it if somebody else took the directory meanwhile."""
        if not first:
            body = self.files.read(PATH)
            if body is None or json.loads(body)["holder"] != self.holder:
                raise StateInUse("another run took over this state directory; this one stops before it writes anything more.")
        facts = {"holder": self.holder, "pid": os.getpid(), "start": _start_time(os.getpid()), "host": socket.gethostname()}
        self.files.write(PATH, json.dumps({**facts, "renewed": time.time()}).encode())

    def release(self) -> None:
        """Let the next run start at once."""
        body = self.files.read(PATH)
        if body is not None and json.loads(body)["holder"] == self.holder:
            self.files.delete(PATH)


def _record(body: bytes, root: str) -> dict[str, Any]:
    try:
        held = json.loads(body)
        return {name: held[name] for name in ("holder", "pid", "start", "host", "renewed")}
    except (ValueError, KeyError, TypeError) as error:
        raise StateInUse(
            f"{root}/{PATH}, which says who uses the state directory, is damaged ({error}). If no run is alive there, remove that file."
        ) from error


def _alive(held: dict[str, Any]) -> bool:
    if held["host"] == socket.gethostname():
        return _start_time(held["pid"]) == held["start"] and held["start"] is not None
    return bool(time.time() - held["renewed"] < EXPIRES_AFTER)


def _start_time(pid: int) -> str | None:
    """When a process of this machine started, so that a number used again is not taken for the same process."""
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[19]
    except FileNotFoundError:
        return None
    except OSError:
        return _signalled(pid)


def _signalled(pid: int) -> str | None:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    except PermissionError:
        return "?"
    return "?"
