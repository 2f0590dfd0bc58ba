"""`eventide doctor`: each thing that a run needs, found where it is there, and told with what to do where it is not."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path
from typing import Any

import pytest
from asked import written
from click.testing import CliRunner
from stated import defined, ran

from eventide.cli import main

KAFKA = """
import eventide as ev
rows = ev.kafka("rows", servers="127.0.0.1:{port}", topic="t", value=ev.json("ts timestamp, bank string"), event_time="ts", watermark=ev.bounded("5 s"))
pipeline = ev.Pipeline("p", rows.window(ev.tumbling("1 minute"), by="bank").agg(n=ev.count()).to("out", late=ev.drop()), state={state!r})
"""


def looked(*arguments: str) -> tuple[int, dict[str, dict[str, Any]]]:
    result = CliRunner().invoke(main.main, ["doctor", *arguments, "--json"])
    assert result.exit_code in (0, 1) and (result.exception is None or isinstance(result.exception, SystemExit)), result.output
    return result.exit_code, {one["what"]: one for one in json.loads(result.stdout)}


def test_a_machine_and_a_pipeline_that_can_run_are_found_so(tmp_path: Path) -> None:
    file = defined(tmp_path)
    ran(file, [{"a": [0]}], [100])
    code, found = looked(str(file))
    assert code == 0, found
    assert {
        "Python",
        "Spark",
        "Java",
        "ports",
        "working files",
        "clock",
        "connectors",
        "state",
        "source rows",
        "clock of the state",
    } == {*found}
    shown = CliRunner().invoke(main.main, ["doctor"])
    assert shown.exit_code == 0 and "✓ Java" in shown.stdout


def test_an_old_java_and_none_are_told_with_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bin").mkdir()
    old = tmp_path / "bin" / "java"
    old.write_text("#!/bin/sh\necho 'openjdk version \"1.8.0_392\"' >&2\n")
    old.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    code, found = looked()
    assert code == 1 and "is Java 8, and Spark needs 17" in found["Java"]["said"]
    old.unlink()
    assert looked()[1]["Java"]["level"] == "bad"


def test_places_and_servers_that_are_not_there_are_told(tmp_path: Path) -> None:
    code, found = looked(written(tmp_path))
    assert code == 1 and "is no directory" in found["source rows"]["said"] and found["state"]["level"] == "ok"
    (tmp_path / "state").write_text("")
    assert "is a file" in looked(written(tmp_path))[1]["state"]["said"]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        file = written(tmp_path, KAFKA.format(port=free.getsockname()[1], state=str(tmp_path / "elsewhere")))
        code, found = looked(file)
        assert code == 1 and "no server answers" in found["source rows"]["said"]
        free.listen(1)
        assert looked(file)[1]["source rows"]["level"] == "ok"


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is closed to root")
def test_a_place_without_rights_is_told(tmp_path: Path) -> None:
    (tmp_path / "landing").mkdir()
    tmp_path.chmod(0o500)
    assert "cannot be written" in looked(written(tmp_path))[1]["state"]["said"]


def test_a_clock_that_was_set_back_is_told(tmp_path: Path) -> None:
    file = defined(tmp_path)
    ran(file, [{"a": [0]}], [4_000_000_000 - 1_790_000_000])
    code, found = looked(str(file))
    assert code == 1 and "Set the clock" in found["clock of the state"]["said"]


def test_a_state_in_an_object_store_is_asked_for(tmp_path: Path, lake: str) -> None:
    (tmp_path / "landing").mkdir()
    _, found = looked(written(tmp_path, state=lake))
    assert found["state"]["level"] == "ok" and f"{lake} answers" in found["state"]["said"]
