"""What a benchmark's processes cost, driver, JVM and workers together: CPU seconds, memory, and runs compared in pairs."""

from __future__ import annotations

import os
import random
import statistics
import threading
import time
from collections.abc import Callable
from pathlib import Path

PER_SECOND = os.sysconf("SC_CLK_TCK")


def below(root: int, exclude: frozenset[int] = frozenset()) -> dict[int, list[str]]:
    """A process and all below it: the numbers of /proc/<pid>/stat after the name."""
    stats: dict[int, list[str]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stats[int(entry.name)] = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
    found, todo = {}, [root]
    while todo:
        pid = todo.pop()
        if pid in stats:
            found[pid] = stats[pid]
        todo += [child for child, fields in stats.items() if int(fields[1]) == pid and child not in exclude]
    return found


def cpu(exclude: frozenset[int] = frozenset()) -> float:
    """CPU seconds of this process and all below it, those that have ended included."""
    return sum(sum(map(int, fields[11:15])) for fields in below(os.getpid(), exclude).values()) / PER_SECOND


class Memory(threading.Thread):
    """The peak of what this process and all below it hold (PSS: shared pages count once), sampled ten times a second."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.peak, self.ended = 0, False

    def __enter__(self) -> Memory:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.ended = True
        self.join()

    def run(self) -> None:
        while not self.ended:
            self.peak = max(self.peak, sum(held(pid) for pid in below(os.getpid())))
            time.sleep(0.1)


def held(pid: int) -> int:
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return 0


def in_pairs(without: Callable[[], float], with_it: Callable[[], float], pairs: int) -> list[tuple[float, float]]:
    """Both in turn, the order changing from pair to pair, so that a slow spell of the machine hits both sides."""
    found = []
    for nth in range(pairs):
        if nth % 2:
            late = with_it()
            found.append((without(), late))
        else:
            found.append((without(), with_it()))
    return found


def shown(shares: list[float]) -> str:
    """The median, with its 95% bootstrap interval."""
    low, high = interval(shares)
    return f"{statistics.median(shares):+.1%} (95% interval {low:+.1%} to {high:+.1%})"


def interval(shares: list[float], draws: int = 10_000) -> tuple[float, float]:
    """The 95% bootstrap interval of the median."""
    rng = random.Random(0)
    medians = sorted(statistics.median(rng.choices(shares, k=len(shares))) for _ in range(draws))
    return medians[int(0.025 * draws)], medians[int(0.975 * draws)]
