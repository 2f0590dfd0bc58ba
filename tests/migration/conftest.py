"""A desk with a clock of its own, and a directory in memory where there is one: these tests sync thousands of transactions."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from eventide.cli.main import main
from eventide.migration.rollout.service import Migrations
from eventide.registry.client import RegistryClient
from eventide.registry.service import Options
from tests.migration.desk import CREATED_AT, SIGNUP_DATE, USER_ID, Desk, record
from tests.registry.conftest import InThread


@pytest.fixture
def swift_path() -> Iterator[Path]:
    made = Path(tempfile.mkdtemp(dir="/dev/shm" if Path("/dev/shm").is_dir() else None))
    yield made
    shutil.rmtree(made)


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    made = Desk(tmp_path)
    yield made
    made.store.close()


class Shell:
    """The command line against one service."""

    def __init__(self, url: str) -> None:
        self.url = url

    def __call__(self, *arguments: str, exits: int = 0) -> str:
        ran = CliRunner().invoke(main, ["migrate", *arguments, "--url", self.url])
        assert ran.exit_code == exits, (arguments, ran.exit_code, ran.output, ran.exception)
        return ran.output

    def quiet(self, *arguments: str) -> int:
        """Only the exit status."""
        return CliRunner().invoke(main, ["migrate", *arguments, "--url", self.url]).exit_code


@pytest.fixture
def service(swift_path):
    running = InThread(f"sqlite:///{swift_path}/registry.db", Options(extensions=(Migrations(),)))
    yield running
    running.stop()


@pytest.fixture
def shell(service):
    return Shell(service.url)


@pytest.fixture
def client(service):
    with RegistryClient(service.url, name="tests") as made:
        made.register("users-value", record(USER_ID, SIGNUP_DATE))
        yield made


@pytest.fixture
def wanted(tmp_path):
    path = tmp_path / "wanted.avsc"
    path.write_text(record(USER_ID, CREATED_AT))
    return str(path)
