"""Two or more versions of Eventide over the same stream, by turns, in one run: is the newest as fast as the one before it?

    python benchmarks/versions.py REV [REV ...] [--rounds 7] [--rows 4000000] [--cases parquet-1k,sliding-5s]

The last version is the working tree. Each has a process and a Spark of its own, warm, which waits while another one works; who begins a round is
drawn. The answers of all must be equal. The ratio is the older version's time by the newest's, round by round, and their median.
"""

from __future__ import annotations

import argparse
import random
import statistics
import subprocess
import tempfile
from pathlib import Path

from bench import BATCHES, Streams
from cases import CASES, Case
from truth import found
from worker import HERE, Worker

NEWEST = "working tree"


def measured(versions: list[Worker], case: Case, streams: Streams, rounds: int) -> dict[str, list[float]]:
    """The seconds of each version, round by round; their answers are compared."""
    data, _ = streams.of(case)
    taken: dict[str, list[float]] = {version.name: [] for version in versions}
    for number in range(rounds + 1):
        answers = []
        for version in random.sample(versions, len(versions)):
            told = version.run(case, data, streams.root / "at-work", streams.rows // BATCHES)
            answers.append(found(streams.root / "at-work"))
            if number:  # the first one is to be warm
                taken[version.name].append(told["seconds"])
        assert all(one.equals(answers[0]) for one in answers), "the versions do not agree"
        if number:
            print(
                f"{case.name} {number}: " + ", ".join(f"{name} {times[-1]:.2f} s" for name, times in taken.items()), flush=True
            )
    return taken


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("revisions", nargs="+")
    asked.add_argument("--rounds", type=int, default=7)
    asked.add_argument("--rows", type=int, default=4_000_000)
    asked.add_argument("--cases", default="parquet-1k,sliding-5s")
    told = asked.parse_args()
    with tempfile.TemporaryDirectory(prefix="eventide-versions-") as made:
        streams, cases = Streams(Path(made), told.rows), [CASES[name] for name in told.cases.split(",")]
        kafka = any(case.kafka for case in cases)
        versions = []
        for revision in told.revisions:
            tree = streams.root / revision
            subprocess.run(["git", "-C", str(HERE), "worktree", "add", "--quiet", "--detach", str(tree), revision], check=True)
            versions.append(Worker(revision, "eventide", kafka, tree / "src"))
        versions.append(Worker(NEWEST, "eventide", kafka))
        try:
            for case in cases:
                taken = measured(versions, case, streams, told.rounds)
                for revision in told.revisions:
                    ratios = [old / new for old, new in zip(taken[revision], taken[NEWEST], strict=True)]
                    every = sorted(round(ratio, 2) for ratio in ratios)
                    print(
                        f"{case.name}: {revision} by {NEWEST}, median of {told.rounds}: {statistics.median(ratios):.3f} {every}"
                    )
        finally:
            streams.close()
            for version in versions:
                version.close()
            for revision in told.revisions:
                tree = streams.root / revision
                subprocess.run(["git", "-C", str(HERE), "worktree", "remove", "--force", str(tree)], check=False)


if __name__ == "__main__":
    main()
