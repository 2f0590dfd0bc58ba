"""One run at a time on a state directory: small records say who, and are renewed by a thread of their own while the run lives.

A record is created once, under the number of the holding and of its beat: `lease/00000007-00000003.json`. Whoever creates the first
record of the next number holds the state from then on; a run that finds a higher number than its own has lost it, and stops before it
delivers or commits anything more. Should it not notice in time, its commit fails, because the other's record has the name already.

The first record of a holding stays until a higher number has one. So a starter that was held up between its look and its record finds the
name taken, or a higher number beside its own.
"""

from __future__ import annotations

import json
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from eventide.errors import EventideError, beneath
from eventide.storage.files import RecordFiles

EXPIRES_AFTER = 120.0
"""Seconds without renewal after which a run on another machine is taken for dead."""
BEAT_EVERY = EXPIRES_AFTER / 6
DIRECTORY = "lease"
OLDER = "lease.json"
"""Where format 1 of the state said who holds it: a run of an earlier Eventide may be alive when this one starts over."""


_HELD: set[str] = set()
"""The holders among this process's own leases whose runs are not over: another of its records is of a run that is, whatever it says."""


_UNSEEN = {"pid": "?", "host": "?", "machine": "?", "start": None, "released": False, "alone": False}
"""What is known of a holder whose record was gone before it was read."""


class StateInUse(EventideError):
    """Another run holds the state directory."""


@dataclass(frozen=True)
class Holder:
    """Who held a state directory last."""

    pid: int | str
    host: str
    renewed: float
    """When it was last heard, in seconds since 1970."""
    alive: bool
    """Whether a run is at work there, as far as can be told from here."""


def holder_of(files: RecordFiles, root: str) -> Holder | None:
    """Who holds a state directory, or held it last; None: nobody has. Only looks."""
    names = files.names(DIRECTORY)
    body = files.read(f"{DIRECTORY}/{names[-1]}") if names else None
    if not names:
        return None
    if body is None:  # replaced by its holder's next one
        return Holder("?", "?", time.time(), True)
    held = _record(body, f"{root}/{DIRECTORY}/{names[-1]}")
    return Holder(held["pid"], held["host"], held["renewed"], not held["released"] and _alive(held))


@dataclass
class Lease:
    """Held from start to stop."""

    files: RecordFiles
    number: int
    holder: str
    beat: int = 0
    alone: bool = True
    """Whether no run before this one can wake up and commit: each has ended, or a batch was committed since it was last heard."""
    _writing: threading.Lock = field(default_factory=threading.Lock, repr=False)
    _leaving: bool = field(default=False, repr=False)
    """The run is over; until a record says so, other processes take it for alive."""
    _over: threading.Event = field(default_factory=threading.Event, repr=False)

    @classmethod
    def take(cls, files: RecordFiles, root: str) -> Lease:
        """Take the lease, or say who holds it; a holder that is dead on this machine is replaced at once."""
        names, older, alone = files.names(DIRECTORY), files.read(OLDER), True
        if older is not None:
            _refuse_living(_record(older, f"{root}/{OLDER}"), root, lambda: files.read(OLDER) != older)
        if names:
            body = files.read(f"{DIRECTORY}/{names[-1]}")
            # A record that is gone was replaced by its holder's next one, so that the holder is alive.
            held = {**_UNSEEN, "renewed": time.time()} if body is None else _record(body, f"{root}/{DIRECTORY}/{names[-1]}")
            if not held["released"]:
                _refuse_living(held, root, lambda: files.names(DIRECTORY)[-1:] != names[-1:])
            alone = bool(held["alone"] and (held["released"] or held["machine"] == _machine()))
        lease = cls(files, 1 + max(map(_number, names), default=0), uuid.uuid4().hex, alone=alone)
        lease._begin(root)
        return lease

    def _begin(self, root: str) -> None:
        """Create the first record, and make sure that no higher number has one."""
        _HELD.add(self.holder)
        try:
            if not self.files.create(self._path, self._body()):
                raise _taken(root)
        except BaseException:
            _HELD.discard(self.holder)  # where the record came through all the same, it keeps nobody of this process out
            raise
        threading.Thread(target=self._keep, name=f"lease of {root}", daemon=True).start()
        try:
            found = self.files.names(DIRECTORY)
            is_late = any(_number(name) > self.number for name in found)
            if not is_late:
                self.files.delete(*(f"{DIRECTORY}/{name}" for name in found if _number(name) < self.number))
        except BaseException as error:
            with beneath(error):
                self.release()
            raise
        if is_late:
            self._withdraw()
            raise _taken(root)

    def _withdraw(self) -> None:
        """Take back the record of a starter that came too late."""
        with self._writing:
            _HELD.discard(self.holder)
            self._over.set()
            self.files.delete(self._path)

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
        """Let the next run start at once; where that cannot be written now it is an error, and tried again with every beat."""
        with self._writing:
            _HELD.discard(self.holder)
            self._leaving = True
            if not self._over.is_set():
                self._say()

    def move(self, moved: Callable[[], RecordFiles]) -> None:
        """Go on in the place that the state is moved to; no record is written meanwhile, which would make the old place anew."""
        with self._writing:
            self.files = moved()

    def _keep(self) -> None:
        """Renew until it is over; a lease that was lost is found by `check`, where the run can stop."""
        while not self._over.wait(BEAT_EVERY):
            try:
                self.renew()
            except StateInUse:
                return
            except Exception:  # noqa: S112 (storage that is down now: the next beat tries again, and `check` speaks where it matters)
                continue

    def _say(self) -> None:
        before = self._path
        self.beat += 1
        self.files.create(self._path, self._body(**({"released": True} if self._leaving else {})))
        if self._leaving:
            self._over.set()
        if self.beat > 1:  # the first record stays
            self.files.delete(before)

    @property
    def _path(self) -> str:
        return f"{DIRECTORY}/{self.number:08d}-{self.beat:08d}.json"

    def _body(self, **more: bool) -> bytes:
        facts = {"holder": self.holder, "pid": os.getpid(), "start": _start_time(os.getpid()), "host": socket.gethostname()}
        return json.dumps({**facts, "machine": _machine(), "alone": self.alone, "renewed": time.time(), **more}).encode()


def _number(name: str) -> int:
    digits = name.partition("-")[0]
    return int(digits) if digits.isdigit() else 0


def _taken(root: str) -> StateInUse:
    return StateInUse(
        f"the state directory {root} was taken by another run at this moment. Two runs would write the same batches."
    )


def _refuse_living(held: dict[str, Any], root: str, has_beaten: Callable[[], bool]) -> None:
    if _alive(held) or (_machine() != held["machine"] and _within(2 * BEAT_EVERY, has_beaten)):
        raise StateInUse(
            f"the state directory {root} is in use by process {held['pid']} on {held['host']} "
            f"(last seen {max(0.0, time.time() - held['renewed']):.0f} s ago). Stop that run first; two runs would write the same batches."
        )


def _record(body: bytes, path: str) -> dict[str, Any]:
    try:
        held = json.loads(body)
        return {
            **{name: held[name] for name in ("holder", "pid", "start", "host", "renewed")},
            "machine": held.get("machine", _machine() if held["host"] == socket.gethostname() else ""),
            "released": bool(held.get("released")),
            "alone": bool(held.get("alone", True)),
        }
    except (ValueError, KeyError, TypeError) as error:
        raise StateInUse(
            f"{path}, which says who uses the state directory, is damaged ({error}). If no run is alive there, remove that file."
        ) from error


def _alive(held: dict[str, Any]) -> bool:
    if held["machine"] == _machine():
        is_there = _start_time(held["pid"]) == held["start"] and held["start"] is not None
        return is_there and (held["pid"] != os.getpid() or held["holder"] in _HELD)
    return bool(0 <= time.time() - held["renewed"] < EXPIRES_AFTER)


def _within(seconds: float, happens: Callable[[], bool]) -> bool:
    """Whether something happens while one watches: clocks of two machines may differ by more than a lease lasts."""
    end = time.monotonic() + seconds
    while not happens():
        if time.monotonic() >= end:
            return False
        time.sleep(seconds / 8)
    return True


def _machine() -> str:
    """Where a process number means the same process: machines and containers may share a name, and a name may move to another machine."""
    return f"{socket.gethostname()} {_boot()}"


@cache
def _boot() -> str:
    try:
        with open("/proc/sys/kernel/random/boot_id") as boot:
            return f"{boot.read().strip()} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return ""


def _start_time(pid: int) -> str | None:
    """When a process of this machine started, so that a number used again is not taken for the same process; None if it has ended."""
    try:
        with open(f"/proc/{pid}/stat") as stat:
            facts = stat.read().rpartition(")")[2].split()
    except FileNotFoundError:
        return None
    except OSError:
        return _signalled(pid)
    # Killed, and its parent has not asked for it yet. One whose first thread alone has ended looks the same but for its other threads.
    has_ended = facts[0] in "ZXx" and int(facts[17]) <= 1
    return None if has_ended else facts[19]


def _signalled(pid: int) -> str | None:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    except PermissionError:
        return "?"
    return "?"
