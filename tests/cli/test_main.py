"""The command itself: its version, its commands, and what it costs to ask for them."""

from __future__ import annotations

import resource
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
from asked import shown

from eventide import __version__
from eventide.cli import main


def test_it_says_its_version_and_its_commands() -> None:
    assert __version__ in shown("--version")
    for command in ("demo", "run", "registry", "tune", "reconcile", "migrate"):
        assert command in shown("-h")


def test_every_command_has_tests_of_its_own() -> None:
    assert [name for name in main.COMMANDS if not Path(__file__).with_name(f"test_{name}.py").exists()] == []


def test_every_command_is_listed_with_what_it_is_for_and_costs_nothing_until_it_is_called() -> None:
    for name in main.COMMANDS:
        assert name in vars(import_module(f"eventide.cli.{name}"))
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    for asked in ("--help", "--version"):
        ran = subprocess.run([sys.executable, "-c", ASK, asked], capture_output=True, text=True, timeout=60, check=True)
        assert ran.stderr.splitlines()[-1] == "[]", "heavy modules were imported"
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 0.6  # seconds of the processor, both together


ASK = """
import sys
from eventide.cli.main import main
try:
    main(prog_name="eventide")
finally:
    print([name for name in ("polars", "pyarrow", "pyspark", "numpy", "httpx") if name in sys.modules], file=sys.stderr)
"""


@pytest.mark.parametrize(
    ("module", "arguments", "extra"),
    [("httpx", ["registry", "list"], "registry"), ("uvicorn", ["registry", "serve"], "registry"), ("httpx", ["migrate", "list"], "registry")],
)  # fmt: skip
def test_a_command_whose_packages_are_missing_says_what_brings_them(module: str, arguments: list[str], extra: str) -> None:
    code = f"import sys; sys.modules[{module!r}] = None; from eventide.cli.main import main; main(prog_name='eventide')"
    ran = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=60)
    assert ran.returncode == 2, ran.stderr
    assert f"pip install 'eventide[{extra}]'" in ran.stderr and "Traceback" not in ran.stderr
