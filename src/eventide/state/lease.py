"""One run at a time on a state directory: small records say who, and are renewed by a thread of their own while the run lives.

A record is created once, under the number of the holding and of its beat: `lease/00000007-00000003.json`. Whoever creates the first
record of the next number holds the state from then on; a run that finds a higher number than its own has lost it, and stops before it
delivers or commits anything more. Should it not notice in time, its commit fails, because the other's record has the name already.
"""

from __future__ import annotations

import json
import os
import socket
import threading
import time
import uuid
from dataclasses import dataclass, field
from typing import Any

from eventide.errors import EventideError
from eventide.state.journal import RecordFiles

EXPIRES_AFTER = 120.0
"""Seconds without renewal after which a run on another machine is taken for dead."""
BEAT_EVERY = EXPIRES_AFTER / 6
DIRECTORY = "lease"
OLDER = "lease.json"
"""Where format 1 of the state said who holds it: a run of an earlier Eventide may be alive when this one starts over."""


class StateInUse(EventideError):
    """Another run holds the state directory."""


@dataclass
class Lease:
    """Held from start to stop."""

    files: RecordFiles
    number: int
    holder: str
    beat: int = 0
    _writing: threading.Lock = field(default_factory=threading.Lock, repr=False)
    _over: threading.Event = field(default_factory=threading.Event, repr=False)

    @classmethod
    def take(cls, files: RecordFiles, root: str) -> Lease:
        """Take the lease, or say who holds it; a holder that is dead on this machine is replaced at once."""
        names, older = files.names(DIRECTORY), files.read(OLDER)
        if older is not None:
            _refuse_living(_record(older, f"{root}/{OLDER}"), root)
        if names:
            body = files.read(f"{DIRECTORY}/{names[-1]}")
            # A record that is gone was replaced by its holder's next one, so that the holder is alive.
            held = (
                {"pid": "?", "host": "?", "start": None, "renewed": time.time()}
                if body is None
                else _record(body, f"{root}/{DIRECTORY}/{names[-1]}")
            )
            if not held.get("released"):
                _refuse_living(held, root)
        lease = cls(files, 1 + max(map(_number, names), default=0), uuid.uuid4().hex)
        if not files.create(lease._path, lease._body()):
            raise StateInUse(
                f"the state directory {root} was taken by another run at this moment. Two runs would write the same batches."
            )
        for name in names:
            files.delete(f"{DIRECTORY}/{name}")
        threading.Thread(target=lease._keep, name=f"lease of {root}", daemon=True).start()
        return lease

    @property
    def attempt(self) -> str:
        """What tells this run's files from those of any other."""
        return self.holder[:8]

    def check(self) -> None:
        """Stop this run if somebody else took the directory meanwhile."""
        if any(_number(name) > self.number for name in self.files.names(DIRECTORY)):
            raise StateInUse("another run took over this state directory; this one stops before it writes anything more.")

    def renew(self) -> None:
        """Say that the run lives; stops it if somebody else took the directory meanwhile."""
        self.check()
        with self._writing:
            if not self._over.is_set():
                self._say()

    def release(self) -> None:
        """Let the next run start at once."""
        with self._writing:
            if not self._over.is_set():
                self._over.set()
                self._say(released=True)

    def _keep(self) -> None:
        """Renew until it is over; a lease that was lost is found by `check`, where the run can stop."""
        while not self._over.wait(BEAT_EVERY):
            try:
                self.renew()
            except StateInUse:
                return
            except Exception:  # noqa: S112 (storage that is down now: the next beat tries again, and `check` speaks where it matters)
                continue

    def _say(self, **more: Any) -> None:
        before = self._path
        self.beat += 1
        self.files.create(self._path, self._body(**more))
        self.files.delete(before)

    @property
    def _path(self) -> str:
        return f"{DIRECTORY}/{self.number:08d}-{self.beat:08d}.json"

    def _body(self, **more: Any) -> bytes:
        facts = {"holder": self.holder, "pid": os.getpid(), "start": _start_time(os.getpid()), "host": socket.gethostname()}
        return json.dumps({**facts, "renewed": time.time(), **more}).encode()


def _number(name: str) -> int:
    digits = name.partition("-")[0]
    return int(digits) if digits.isdigit() else 0


def _refuse_living(held: dict[str, Any], root: str) -> None:
    if _alive(held):
        raise StateInUse(
            f"the state directory {root} is in use by process {held['pid']} on {held['host']} "
            f"(last seen {time.time() - held['renewed']:.0f} s ago). Stop that run first; two runs would write the same batches."
        )


def _record(body: bytes, path: str) -> dict[str, Any]:
    try:
        held = json.loads(body)
        return {
            **{name: held[name] for name in ("holder", "pid", "start", "host", "renewed")},
            "released": held.get("released"),
        }
    except (ValueError, KeyError, TypeError) as error:
        raise StateInUse(
            f"{path}, which says who uses the state directory, is damaged ({error}). If no run is alive there, remove that file."
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
