"""Two or more versions of Eventide over the same files, by turns, in one run: is the newest as fast as the one before it?

    python benchmarks/versions.py REV [REV ...] [--rounds 7] [--rows 4000000] [--cases tumbling-1k,sliding-1k]

The last version is the working tree. Each has a process and a Spark of its own, warm, which waits while another one works; who begins a round is
drawn. The answers of all must be equal. The ratio is the older version's time by the newest's, round by round, and their median.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
NEWEST = "working tree"


def serve(tree: Path) -> None:
    """A version at work: a line in, {"case", "data", "work"}; a line out, {"seconds", "answer"}."""
    sys.path.insert(0, str(tree / "benchmarks"))
    import polars as pl

    import engine

    spark, said = engine.local_session(), sys.stdout
    for line in sys.stdin:
        asked = json.loads(line)
        _, size, slide = engine.CASES[asked["case"]]
        work = Path(asked["work"])
        shutil.rmtree(work, ignore_errors=True)
        seconds, _ = engine.ours(spark, Path(asked["data"]), work, size, slide)
        panes = pl.read_parquet(str(work / "state/panes/totals/**/*.parquet"))
        rows = panes.select("window_start", "window_end", "key", "total", "n").sort("window_end", "key").hash_rows(seed=1)
        answer = hashlib.sha256(rows.to_numpy().tobytes()).hexdigest()
        said.write(json.dumps({"seconds": seconds, "answer": answer}) + "\n")
        said.flush()


class Version:
    """A version in a process of its own."""

    def __init__(self, name: str, tree: Path) -> None:
        self.name = name
        environment = {**os.environ, "PYTHONPATH": str(tree / "src")}
        command = [sys.executable, __file__, "--serve", str(tree)]
        self.process = subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def run(self, case: str, data: Path, work: Path) -> dict[str, Any]:
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(json.dumps({"case": case, "data": str(data), "work": str(work)}) + "\n")
        self.process.stdin.flush()
        said = self.process.stdout.readline()
        if not said:
            raise SystemExit(f"{self.name} ended with {self.process.wait()}")
        return json.loads(said)


def measured(versions: list[Version], case: str, data: Path, work: Path, rounds: int) -> dict[str, list[float]]:
    """The seconds of each version, round by round; their answers are compared."""
    taken: dict[str, list[float]] = {version.name: [] for version in versions}
    for number in range(rounds):
        answers = {}
        for version in random.sample(versions, len(versions)):
            found = version.run(case, data, work / "at-work")
            taken[version.name].append(found["seconds"])
            answers[version.name] = found["answer"]
        assert len({*map(str, answers.values())}) == 1, answers
        print(f"{case} {number + 1}: " + ", ".join(f"{name} {times[-1]:.2f} s" for name, times in taken.items()), flush=True)
    return taken


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("revisions", nargs="+")
    asked.add_argument("--rounds", type=int, default=7)
    asked.add_argument("--rows", type=int, default=4_000_000)
    asked.add_argument("--cases", default="tumbling-1k,sliding-1k")
    told = asked.parse_args()
    from engine import CASES, write_stream

    with tempfile.TemporaryDirectory(prefix="eventide-versions-") as made:
        work = Path(made)
        versions = []
        for revision in told.revisions:
            tree = work / revision
            subprocess.run(["git", "-C", str(HERE), "worktree", "add", "--quiet", "--detach", str(tree), revision], check=True)
            versions.append(Version(revision, tree))
        versions.append(Version(NEWEST, HERE.parent))
        try:
            for case in told.cases.split(","):
                keys = CASES[case][0]
                warm, data = work / f"warm-{keys}", work / f"data-{keys}"
                if not data.exists():
                    write_stream(warm, 40_000, keys, 1)
                    write_stream(data, told.rows, keys, 10)
                for version in versions:
                    version.run(case, warm, work / "at-work")
                taken = measured(versions, case, data, work, told.rounds)
                for revision in told.revisions:
                    ratios = [old / new for old, new in zip(taken[revision], taken[NEWEST], strict=True)]
                    print(
                        f"{case}: {revision} by {NEWEST}, median of {told.rounds}: {statistics.median(ratios):.3f} {sorted(round(r, 2) for r in ratios)}"
                    )
        finally:
            for version in versions:
                version.process.kill()
            for revision in told.revisions:
                subprocess.run(["git", "-C", str(HERE), "worktree", "remove", "--force", str(work / revision)], check=False)


if __name__ == "__main__":
    if sys.argv[1] == "--serve":
        serve(Path(sys.argv[2]))
    else:
        main()
