"""A line that breaks: a proxy on loopback, in a process of its own, that cuts, delays and halves what passes at random points.

It is a process because some clients hold Python's lock while they wait for an answer, and would wait for a proxy in this one for ever.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import select
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

FAULTS = ("cut", "half", "delay", "refuse", "swallow")
"""Both ends cut; the answer broken off while the request arrived; a pause; nobody there; the request lost before it arrived."""
LONGEST_PAUSE = 0.15
RESET = b"\1\0\0\0\0\0\0\0"
"""The linger of a socket that ends with a reset: a clean end could look like the end of an answer."""


class Line:
    """One connection through the proxy: a fault at some byte of one direction, and after a mere pause another one."""

    def __init__(
        self, client: socket.socket, upstream: tuple[str, int], next_fault: Callable[[], tuple[str, int, int]]
    ) -> None:
        self.client, self.server = client, socket.create_connection(upstream)
        self.next_fault = next_fault
        self.fault, self.at, self.direction = next_fault()
        self.passed = [0, 0]
        self.struck: list[str] = []

    def run(self) -> None:
        """Pass bytes both ways until either end is through, or the fault has struck."""
        ends = (self.client, self.server)
        with self.client, self.server:
            while True:
                for end in select.select(ends, [], [])[0]:
                    direction = ends.index(end)
                    with contextlib.suppress(OSError):
                        if (data := end.recv(65536)) and self._passed(ends[1 - direction], direction, data):
                            continue
                    for one in ends:
                        with contextlib.suppress(OSError):
                            one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET if self.fault == "cut" else bytes(8))
                    return

    def _passed(self, to: socket.socket, direction: int, data: bytes) -> bool:
        """Pass data on; False if the line is cut."""
        here = self.passed[direction]
        self.passed[direction] += len(data)
        if not self.fault or direction != self.direction or here + len(data) <= self.at:
            to.sendall(data)
            return True
        self.struck.append(self.fault)
        if self.fault == "delay":
            time.sleep(LONGEST_PAUSE)
            to.sendall(data)
            self.fault, further, self.direction = self.next_fault()
            self.at = self.passed[self.direction] + further
            return True
        if self.fault == "half":
            to.sendall(data[: self.at - here])
        return False


class Proxy:
    """The proxy itself, as it runs in its process."""

    def __init__(self, upstream: tuple[str, int], seed: int, share: float, reach: int, port: int = 0) -> None:
        self.upstream, self.draw, self.share, self.reach = upstream, random.Random(seed), share, reach
        self.listener = socket.create_server(("127.0.0.1", port))
        self.counts = dict.fromkeys(FAULTS, 0)
        self.active = False

    def serve(self) -> None:
        """Take connections for ever."""
        while True:
            client, _ = self.listener.accept()
            threading.Thread(target=self._handle, args=(client,), daemon=True).start()

    def _handle(self, client: socket.socket) -> None:
        if self.active and self.draw.random() < self.share / len(FAULTS):
            self.counts["refuse"] += 1
            client.close()
            return
        with client, contextlib.suppress(OSError):
            line = Line(client, self.upstream, self._drawn)
            line.run()
            for fault in line.struck:
                self.counts[fault] += 1

    def _drawn(self) -> tuple[str, int, int]:
        """A fault ("" for none), the byte at which it strikes, and in which direction."""
        if not self.active or self.draw.random() >= self.share:
            return "", 0, 0
        fault = self.draw.choice([fault for fault in FAULTS if fault != "refuse"])
        at = int(self.reach * self.draw.random() ** 3)  # near the beginning of a line more often than far into it
        return fault, at, {"half": 1, "swallow": 0}.get(fault, self.draw.randrange(2))


def main() -> None:
    """Serve; a line on standard input is a command, and each is answered by a line."""
    settings = json.loads(sys.argv[1])
    proxy = Proxy(tuple(settings["upstream"]), settings["seed"], settings["share"], settings["reach"], settings["port"])
    threading.Thread(target=proxy.serve, daemon=True).start()
    print(proxy.listener.getsockname()[1], flush=True)
    for command in sys.stdin:
        proxy.active = {"on": True, "off": False}.get(command.strip(), proxy.active)
        print(json.dumps(proxy.counts), flush=True)


class Breaking:
    """A breaking line to a server, as tests hold it."""

    def __init__(self, port: int, seed: int = 1, share: float = 0.5, reach: int = 20_000, listen: int = 0) -> None:
        settings = {"upstream": ["127.0.0.1", port], "seed": seed, "share": share, "reach": reach, "port": listen}
        self.process = subprocess.Popen(
            [sys.executable, str(Path(__file__)), json.dumps(settings)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": ""},
        )
        self.port = int(self._answer())

    def _answer(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def _say(self, command: str) -> dict[str, int]:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{command}\n")
        self.process.stdin.flush()
        found: dict[str, int] = json.loads(self._answer())
        return found

    def __enter__(self) -> Breaking:
        self._say("on")
        return self

    def __exit__(self, *_: Any) -> None:
        self.process.kill()
        self.process.wait()

    def break_(self) -> None:
        """Faults again."""
        self._say("on")

    def heal(self) -> None:
        """No more faults."""
        self._say("off")

    @property
    def counts(self) -> dict[str, int]:
        """How many faults of each kind have struck."""
        return self._say("")

    @property
    def struck(self) -> int:
        """How many faults have struck."""
        return sum(self.counts.values())

    def until(self, faults: int, step: Callable[[int], None], most: int = 5000) -> int:
        """Do steps until so many faults have struck; says how many steps it took."""
        for number in range(most):
            step(number)
            if self.struck >= faults:
                return number + 1
        raise AssertionError(f"only {self.counts} after {most} steps")


if __name__ == "__main__":
    main()
