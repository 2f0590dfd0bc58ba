"""Which faults the tests that need no Spark find: each is put in alone, in a forked child of a process that has collected the tests.

    python tests/faults/hunt.py                     every fault (some hours on one core)
    python tests/faults/hunt.py --sample 200        so many, drawn at random
    python tests/faults/hunt.py --only kernel/session_windows.py

A fault in a function replaces the code of that function in the child; one at the level of a module or class is read from a module that
is imported anew, in a process of its own. A child runs the tests that call the function, those that found the last faults there first,
until one fails. What no test finds must stand in equivalent.toml with its reason; what stands there and is found, or is no fault of the
code any more, is reported too.
"""

from __future__ import annotations

import argparse
import functools
import hashlib
import itertools
import json
import os
import random
import re
import resource
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

os.environ.setdefault("POLARS_MAX_THREADS", "1")
HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE))

import pytest  # noqa: E402
from forks import in_child  # noqa: E402
from hypothesis import Phase, settings  # noqa: E402
from mutants import MODULES, SRC, Mutant, mutants  # noqa: E402
from placing import Faulty, module_name, put_in  # noqa: E402

EQUIVALENT = HERE / "equivalent.toml"
ENGINE = (
    "test_engine_equals_oracle", "test_aggregates_equal_oracle", "test_unruly_world_equals_oracle", "test_small_scope", "test_conservation",
    "test_triggers_equal_oracle", "test_books_and_ledger", "test_microbatch", "test_second_try", "test_archive", "test_changes",
    "test_views_equal_oracle", "test_several_aggregations", "test_several_aggregations_of_a_run", "test_watermark_of_late_rows",
    "test_stages_equal_oracle", "test_stages_of_a_run", "test_joins_equal_oracle", "test_joins_of_a_run",
    "test_conservation_of_joins_and_stages", "test_changed_definitions_equal_oracle", "test_followed_changes",
    "test_clocks_of_an_older_state", "test_session_layers", "test_joins_of_unlike_rows", "test_hostile_values_in_windows", "test_stages_bound",
)  # fmt: skip
TESTS = ["tests/model", "tests/kernel", "tests/testing", "tests/test_docstrings.py", *(f"tests/engine/{n}.py" for n in ENGINE)]
SPARK = {"spark", "broker", "postgres_server"}
OWN_FAULT = re.compile("on_purpose|notices")
"""Tests that put in a fault of their own, and so say nothing of another."""
FAULT = "EVENTIDE_FAULT"
EXAMPLES = 25


class Tests:
    """The tests, collected once, and what each of them calls; a pytest plugin whose run of the tests is the hunt itself."""

    def __init__(self, hunt: Callable[[Tests], None], paths: list[str], examples: int) -> None:
        self.hunt, self.paths, self.examples = hunt, paths, examples
        self.items: dict[str, pytest.Item] = {}
        self.calls: dict[str, list[str]] = {}
        self.seconds: dict[str, float] = {}

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        for item in session.items:
            if item.get_closest_marker("soak") is None and not SPARK & set(getattr(item, "fixturenames", ())) and _ours(item):
                self.items[item.nodeid] = item
                _at_most(item, self.examples)
        if any(re.match(r"polars-\d", task.read_text()) for task in Path("/proc/self/task").glob("*/comm")):
            raise SystemExit(
                "collecting the tests has started Polars' threads, which no forked child would have: compute nothing at import"
            )
        self.hunt(self)
        return True

    def run(self, names: Iterable[str], tell: Callable[[str], None]) -> str | None:
        """The name of the first test that fails."""
        from _pytest.runner import runtestprotocol

        for name in names:
            tell(name)
            limit = int(resource.getrusage(resource.RUSAGE_SELF).ru_utime + 10 + 6 * self.seconds.get(name, 60))
            resource.setrlimit(resource.RLIMIT_CPU, (limit, resource.RLIM_INFINITY))
            reports = runtestprotocol(self.items[name], nextitem=None, log=False)
            if any(report.failed for report in reports):
                return name
        return None

    def survey(self, trust: bool) -> None:
        """Run every test once, unharmed, and note the functions that it calls and how long it takes; what is noted already stands."""
        kept = ROOT / "artifacts/faults/survey.json"
        noted = json.loads(kept.read_text()) if kept.exists() else {}
        for name, item in self.items.items():
            of = _digest(item.path, self.examples)
            if name not in noted or (noted[name]["of"] != of and not trust):
                found = json.loads(in_child(lambda tell, name=name: self._surveyed(name), 900)[0] or "null")
                if found is None or found["failed"]:
                    raise SystemExit(f"{name} fails without any fault")
                noted[name] = {**found, "of": of}
                kept.parent.mkdir(parents=True, exist_ok=True)
                kept.write_text(json.dumps(noted))
            self.seconds[name] = noted[name]["seconds"]
            for function in noted[name]["calls"]:
                self.calls.setdefault(function, []).append(name)

    def _surveyed(self, name: str) -> str:
        ours = {str(path): path.relative_to(SRC).as_posix() for path in MODULES}
        called: dict[int, Any] = {}

        def note(frame: Any, _event: str, _: Any) -> None:
            called[id(frame.f_code)] = frame.f_code

        begun = time.process_time()
        sys.settrace(note)  # it gives no trace for the lines within, and so is told of calls only
        failed = self.run([name], lambda _: None)
        sys.settrace(None)
        met = {(code.co_filename, code.co_qualname.partition(".<locals>")[0]) for code in called.values()}
        calls = sorted(f"{ours[file]} {function}" for file, function in met if file in ours)
        return json.dumps({"failed": failed, "seconds": time.process_time() - begun, "calls": calls})


def _ours(item: pytest.Item) -> bool:
    """Of the examples in docstrings, those of the modules that faults are put into; of tests all but those with a fault of their own."""
    if "test_docstrings.py" not in item.nodeid:
        return not OWN_FAULT.search(item.name)
    return any(item.nodeid.endswith(f"[{module_name(path)}]") for path in MODULES)


def _at_most(item: pytest.Item, examples: int) -> None:
    """Random streams beyond a number find little more, and a fault that nothing finds would have to outlive them all."""
    test: Any = getattr(item, "obj", None)
    if used := getattr(test, "_hypothesis_internal_use_settings", None):
        test._hypothesis_internal_use_settings = settings(used, max_examples=min(used.max_examples, examples))


@functools.cache
def _digest(test: Path, examples: int) -> str:
    """Of the code, of a test and of what stands beside it, and of how many random streams it tries."""
    beside = [path for path in test.parent.glob("*.py") if not path.name.startswith("test_")]
    files = sorted([*SRC.rglob("*.py"), test, *beside])
    return hashlib.sha256(b"".join([str(examples).encode(), *(path.read_bytes() for path in files)])).hexdigest()[:16]


class Hunt:
    """Puts in one fault after the other, and keeps what came of each."""

    def __init__(self, chosen: list[Mutant], log: Path | None, patience: float, trust: bool) -> None:
        self.chosen, self.log, self.patience, self.trust = chosen, log, patience, trust
        self.found: dict[str, str] = {}
        self.lived: list[str] = []
        self.finders: dict[str, list[str]] = {}
        self.reasons: dict[str, str] = tomllib.loads(EQUIVALENT.read_text()) if EQUIVALENT.exists() else {}

    def __call__(self, tests: Tests) -> None:
        tests.survey(self.trust)
        for number, mutant in enumerate(self.chosen, 1):
            finder = self._finder(tests, mutant)
            if finder is None:
                self.lived.append(mutant.name)
            else:
                self.found[mutant.name] = finder
            line = f"{number}/{len(self.chosen)} {'LIVES' if finder is None else 'found'} {mutant.name}  [{finder or ''}]"
            print(line, flush=True)
            if self.log:
                with self.log.open("a") as log:
                    log.write(line + "\n")

    def _finder(self, tests: Tests, mutant: Mutant) -> str | None:
        """The test that finds a fault; None: it lives. A test that dies of it, or no longer ends, has found it."""
        names = self._ordered(tests, mutant)

        def work(tell: Callable[[str], None]) -> str:
            if not put_in(mutant):
                return "fresh"
            return json.dumps(tests.run(names, tell))

        answer, told = in_child(work, 120 + 4 * sum(tests.seconds[n] for n in names))
        if answer == "fresh":
            return self._fresh(tests, mutant, names)
        finder = told if answer is None else json.loads(answer)
        if finder:
            self._remember(mutant, finder)
        return finder

    def _ordered(self, tests: Tests, mutant: Mutant) -> list[str]:
        """The tests that call the function: last finders first, then the quickest."""
        called = tests.calls.get(f"{mutant.module} {mutant.function}", []) if mutant.function else list(tests.items)
        recent = [*self.finders.get(f"{mutant.module} {mutant.function}", []), *self.finders.get(mutant.module, [])]
        rank = {name: index for index, name in reversed(list(enumerate(recent)))}
        ordered = sorted(called, key=lambda name: (rank.get(name, len(rank) + 1), tests.seconds[name]))
        spent = itertools.accumulate(tests.seconds[name] for name in ordered)
        return [name for name, seconds in zip(ordered, spent, strict=True) if seconds <= self.patience]

    def _remember(self, mutant: Mutant, finder: str) -> None:
        for place in (f"{mutant.module} {mutant.function}", mutant.module):
            known = self.finders.setdefault(place, [])
            known[:] = [finder, *(n for n in known if n != finder)][:6]

    def _fresh(self, tests: Tests, mutant: Mutant, names: list[str]) -> str | None:
        """In a process of its own, whose import of the module has the fault."""
        job = json.dumps(
            {
                "module": mutant.module, "number": mutant.number, "names": names, "seconds": tests.seconds,
                "paths": tests.paths, "examples": tests.examples,
            }
        )  # fmt: skip
        with subprocess.Popen(
            [sys.executable, __file__], env={**os.environ, FAULT: "1"}, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, text=True,
        ) as child:  # fmt: skip
            try:
                said, _ = child.communicate(job, timeout=300 + 4 * sum(tests.seconds[n] for n in names))
            except subprocess.TimeoutExpired:
                child.kill()
                return "the time limit"
        answers = [line[3:] for line in said.splitlines() if line.startswith("is ")]
        return json.loads(answers[-1]) if answers else "the import"


def one_fault_in_a_fresh_process() -> None:
    """What `_fresh` starts."""
    job = json.load(sys.stdin)
    mutant = mutants(SRC / job["module"])[job["number"]]
    sys.meta_path.insert(0, Faulty(mutant))

    def hunt(tests: Tests) -> None:
        tests.seconds = job["seconds"]
        answer = tests.run([name for name in job["names"] if name in tests.items], lambda _: None)
        sys.__stdout__.write(f"\nis {json.dumps(answer)}\n")

    collect(hunt, job["paths"], job["examples"])


def collect(hunt: Callable[[Tests], None], paths: list[str], examples: int) -> int:
    """Collect the tests and hand them over. Random streams are the same each time, and nobody looks for a smaller one."""
    settings.register_profile(
        "faults", derandomize=True, database=None, phases=(Phase.explicit, Phase.generate), report_multiple_bugs=False
    )
    settings.load_profile("faults")
    options = ["-q", "--assert=plain", "--tb=no", "-p", "no:cacheprovider", "-p", "no:faulthandler", "-m", "not soak"]
    os.chdir(ROOT)
    return int(pytest.main([*options, "--rootdir", str(ROOT), *paths], plugins=[Tests(hunt, paths, examples)]))


def main() -> int:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--sample", type=int, help="so many faults, drawn at random")
    asked.add_argument("--seed", type=int, default=1)
    asked.add_argument("--only", default="", help="faults whose name contains this")
    asked.add_argument("--names", type=Path, help="a file with the names of the faults")
    asked.add_argument("--piece", default="1/1", help="the first, second ... of so many equal pieces: 1/10")
    asked.add_argument("--log", type=Path, help="a file to which a line is added for each fault")
    asked.add_argument("--patience", type=float, default=1e9, help="seconds of tests for each fault, at most")
    asked.add_argument("--examples", type=int, default=EXAMPLES, help="random streams that a test tries, at most")
    asked.add_argument("--tests", nargs="+", default=TESTS, help="the tests that look for them")
    asked.add_argument("--trust", action="store_true", help="what each test calls was noted before, and is taken to hold still")
    told = asked.parse_args()
    every = [m for path in MODULES for m in mutants(path)]
    chosen = [m for m in every if told.only in m.name]
    if told.names:
        wanted = set(told.names.read_text().splitlines())
        chosen = [m for m in chosen if m.name in wanted]
    if told.sample:
        chosen = random.Random(told.seed).sample(chosen, min(told.sample, len(chosen)))
    piece, pieces = map(int, told.piece.split("/"))
    hunt = Hunt(chosen[piece - 1 :: pieces], told.log, told.patience, told.trust)
    collect(hunt, told.tests, told.examples)
    return report(hunt, {m.name for m in every})


def report(hunt: Hunt, every: set[str]) -> int:
    listed = [name for name in hunt.lived if name in hunt.reasons]
    holes = [name for name in hunt.lived if name not in hunt.reasons]
    wrong = [name for name in hunt.reasons if name in hunt.found or name not in every]
    real = len(hunt.found) + len(holes)
    print(
        f"\n{real + len(listed)} faults, of which {len(listed)} are listed as equivalent; of the other {real} were found "
        f"{len(hunt.found)} ({len(hunt.found) / max(1, real):.1%})"
    )
    for name in holes:
        print(f"  not found: {name}")
    for name in wrong:
        print(f"  listed as equivalent, but {'found' if name in hunt.found else 'no fault of the code'}: {name}")
    return 1 if holes or wrong else 0


if __name__ == "__main__":
    sys.exit(one_fault_in_a_fresh_process() if os.environ.get(FAULT) else main())
