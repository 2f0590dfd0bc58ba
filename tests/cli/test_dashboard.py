"""`eventide dashboard`: what it is started with, and what it refuses."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.cli.stated import defined, ran

from eventide.cli.main import main


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("dashboard")
    ran(defined(made), [{"north": [1, 2], "south": [10, 70]}], [80])
    return made


def started(root: Path, *given: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", "from eventide.cli.main import main; main()", "dashboard", "--port", "0", *given]
    return subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ})


@pytest.mark.parametrize("given", [["state"], ["pipe.py"]])
def test_it_serves_a_state_or_a_pipelines_file_and_ctrl_c_ends_it(root: Path, given: list[str]) -> None:
    process = started(root, *given)
    assert process.stdout is not None
    address = process.stdout.readline().strip()
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+", address), process.communicate()
    facts = json.loads(urllib.request.urlopen(f"{address}/api/pipelines/0").read())["facts"]
    assert (facts["pipeline"], facts["batch"], facts["rows"]["in"]) == ("p", 0, 4)
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=30)
    assert process.returncode in (0, 130) and "Traceback" not in told


def test_an_address_that_others_reach_asks_for_a_token(root: Path) -> None:
    process = started(root, "state", "--host", "0.0.0.0")
    assert process.stdout is not None
    address = process.stdout.readline().strip()
    found = re.fullmatch(r"http://0\.0\.0\.0:(\d+)/\?token=(\S{20,})", address)
    assert found is not None
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(f"http://127.0.0.1:{found[1]}/api/board")
    asked = urllib.request.Request(f"http://127.0.0.1:{found[1]}/api/board", headers={"authorization": f"Bearer {found[2]}"})
    assert refused.value.code == 401 and urllib.request.urlopen(asked).status == 200
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=30)


def test_what_is_no_state_is_refused_before_anything_listens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    nothing = CliRunner().invoke(main, ["dashboard"])
    assert nothing.exit_code == 2 and "there is no state below ./state" in nothing.output
    (tmp_path / "report.json").write_text("[1")
    (tmp_path / "state/x/journal").mkdir(parents=True)
    assert CliRunner().invoke(main, ["dashboard"]).exit_code == 2
    broken = CliRunner().invoke(main, ["dashboard", "--tuned", "report.json", str(tmp_path / "state/x")])
    assert broken.exit_code == 2
