"""The wheel and the sdist as a user gets them: with the packages of the base install alone every command is there, and what is missing is named."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import venv
import zipfile
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
COMMANDS = ("dead", "demo", "late", "lateness", "reconcile", "run", "state", "tune", "validate", "watermark", "windows")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Both, built by pip and hatchling as for a release; no network is needed where hatchling is installed."""
    out = tmp_path_factory.mktemp("dist")
    code = f"import os; os.chdir({str(ROOT)!r}); from hatchling.build import build_sdist, build_wheel; print(build_sdist({str(out)!r})); print(build_wheel({str(out)!r}))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0, ran.stderr
    return out


def base_packages() -> set[str]:
    """The distributions that `pip install eventide` brings, extras left out."""
    found: set[str] = set()
    waiting = ["eventide"]
    while waiting:
        name = waiting.pop()
        for needed in distribution(name).requires or ():
            if "extra ==" in needed:
                continue
            other = re.split(r"[^A-Za-z0-9_.-]", needed)[0].lower().replace("_", "-")
            try:
                distribution(other)
            except PackageNotFoundError:  # needed on other systems only
                continue
            if other not in found:
                found.add(other)
                waiting.append(other)
    return found


@pytest.fixture(scope="module")
def python(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A clean environment: the wheel, and links to the packages of the base install that are here already."""
    home = tmp_path_factory.mktemp("venv")
    venv.create(home, with_pip=False, symlinks=True)
    site = next((home / "lib").glob("python3*/site-packages"))
    with zipfile.ZipFile(next(built.glob("*.whl"))) as wheel:
        wheel.extractall(site)
    for name in base_packages():
        for file in distribution(name).files or ():
            top = file.parts[0]
            whole = Path(str(distribution(name).locate_file(top)))
            if top not in ("..", "__pycache__") and whole.exists() and not (site / top).exists():
                (site / top).symlink_to(whole)
    return home / "bin" / "python"


def eventide(python: Path, *arguments: str, where: Path) -> subprocess.CompletedProcess[str]:
    env = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")}
    code = "from eventide.cli.main import main; main(prog_name='eventide')"
    return subprocess.run([python, "-c", code, *arguments], capture_output=True, text=True, timeout=300, cwd=where, env=env)


def test_the_sdist_has_what_the_wheel_is_made_of(built: Path) -> None:
    with tarfile.open(next(built.glob("*.tar.gz"))) as archive, zipfile.ZipFile(next(built.glob("*.whl"))) as wheel:
        source = {
            name.partition("/src/")[2] for name in archive.getnames() if "/src/eventide/" in name and name.endswith(".py")
        }
        packed = {name for name in wheel.namelist() if name.startswith("eventide/") and name.endswith(".py")}
        assert source == packed and len(packed) > 200
        assert any(name.endswith("/LICENSE") for name in archive.getnames())
        assert any(
            name.endswith("entry_points.txt") and b"eventide.cli.main:main" in wheel.read(name) for name in wheel.namelist()
        )


@pytest.mark.parametrize("command", COMMANDS)
def test_the_commands_of_the_base_install_need_no_extra(python: Path, tmp_path: Path, command: str) -> None:
    ran = eventide(python, command, "--help", where=tmp_path)
    assert ran.returncode == 0 and f"Usage: eventide {command}" in ran.stdout, ran.stderr


@pytest.mark.parametrize("command", ["dead", "late", "state", "watermark", "windows"])
def test_a_pipeline_that_never_ran_is_told_as_one(python: Path, tmp_path: Path, command: str) -> None:
    (tmp_path / "demo/landing").mkdir(parents=True)
    (tmp_path / "p.py").write_text(PIPELINE)
    ran = eventide(python, command, "p.py", where=tmp_path)
    assert (ran.returncode, "has committed nothing in" in ran.stderr, "Traceback" in ran.stderr) == (2, True, False), ran.stderr
    assert not (tmp_path / "state").exists()


@pytest.mark.parametrize(("arguments", "extra"), [(["registry", "list"], "registry"), (["migrate", "list"], "registry")])
def test_other_commands_say_what_brings_them(python: Path, tmp_path: Path, arguments: list[str], extra: str) -> None:
    ran = eventide(python, *arguments, where=tmp_path)
    assert ran.returncode == 2 and f"pip install 'eventide[{extra}]'" in ran.stderr and "Traceback" not in ran.stderr


@pytest.mark.parametrize(
    ("sink", "extra"),
    [
        ('ev.postgres("postgresql://localhost/x")', "postgres"), ('ev.duckdb("x.duckdb")', "duckdb"), ('ev.delta("x")', "delta"),
        ('ev.iceberg({"type": "sql", "uri": "sqlite://"}, "ns.x")', "iceberg"), ('ev.clickhouse("http://localhost:8123")', "clickhouse"),
        ('ev.kafka_topic("localhost:9092", "x")', "kafka"), ('ev.webhook("http://localhost:1/x")', "webhook"),
    ],
)  # fmt: skip
def test_a_sink_whose_package_is_missing_says_what_brings_it(python: Path, tmp_path: Path, sink: str, extra: str) -> None:
    code = f"""
import pyarrow as pa, eventide as ev
from eventide.sinks.shape import PaneShape
shape = PaneShape((("k", pa.string()),), (("n", pa.int64()),), "accumulating")
try:
    {sink}.open("out", shape)
except ev.EventideError as error:
    print(error)
"""
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    ran = subprocess.run([python, "-c", code], capture_output=True, text=True, timeout=120, cwd=tmp_path, env=env)
    assert ran.returncode == 0 and f"pip install 'eventide[{extra}]'" in ran.stdout, ran.stdout + ran.stderr


PIPELINE = """
import eventide as ev

paid = ev.files("payments", "demo/landing", schema="event_time timestamp, arrived_at timestamp, bank string, paise bigint",
                event_time="event_time", arrival="arrived_at", lane="directory", files_per_batch=12, watermark=ev.bounded("30 s"))
minutes = paid.window(ev.tumbling("1 minute"), by="bank").agg(total=ev.sum("paise"), n=ev.count())
pipeline = ev.Pipeline("minutes", minutes.to("out", ev.sqlite("out.db"), late=ev.drop()), state="state", archive="archive", measure=True)
"""


@pytest.fixture(params=["3.11", "3.12", "3.13"])
def interpreter(request: pytest.FixtureRequest) -> str:
    """A Python of this version, wherever the path has one that starts (a shim of pyenv's may not)."""
    name = f"python{request.param}"
    for folder in (Path(sys.executable).parent, *map(Path, os.environ.get("PATH", "").split(os.pathsep))):
        if (folder / name).exists() and subprocess.run([folder / name, "--version"], capture_output=True).returncode == 0:
            return str(folder / name)
    pytest.skip(f"there is no {name} on the path, so the install was not tried on it")


@pytest.mark.soak
@pytest.mark.timeout(2400)
def test_pip_install_alone_runs_a_pipeline_and_everything_around_it(built: Path, tmp_path: Path, interpreter: str) -> None:
    """By pip, from the index, into an environment that has nothing."""
    subprocess.run([interpreter, "-m", "venv", tmp_path / "venv"], check=True, timeout=300)
    python = tmp_path / "venv" / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "-q", next(built.glob("*.whl"))], check=True, timeout=1200)
    (tmp_path / "minutes.py").write_text(PIPELINE)
    for asked, says in (
        (["demo", "--rows", "40000"], "banks corrected"),
        (["run", "minutes.py", "--until-caught-up"], "✓"),
        (["tune", "minutes.py"], "watermark=ev.bounded"),
        (["lateness", "minutes.py"], "Late rows by cause"),
        (["reconcile", "minutes.py"], "✓ every difference is explained"),
    ):
        ran = eventide(python, *asked, where=tmp_path)
        assert ran.returncode == 0 and says in ran.stdout, (asked, ran.stdout, ran.stderr)
        assert not ran.stderr.strip(), ran.stderr
