"""`eventide init`: the file that it writes runs as it is, and nothing is replaced."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest
from asked import refused, shown

from eventide.cli.loading import load


def test_what_it_writes_runs_as_it_is(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "eventide run pipeline.py" in shown("init", str(tmp_path / "new"))
    monkeypatch.chdir(tmp_path / "new")
    assert "ok: there is no state yet" in shown("validate", "pipeline.py")
    ledger = load("pipeline.py").run(spark, drain=True).run.ledger
    assert (ledger.rows["in"], ledger.rows["dead"]) == (360, 0) and ledger.outputs["totals"]["rows_admitted"] > 0
    with sqlite3.connect("payments.db") as base:
        assert base.execute("select sum(n) from totals").fetchone()[0] == 360 - ledger.outputs["totals"]["rows_refused"]
    base.close()


def test_nothing_is_replaced(tmp_path: Path) -> None:
    shown("init", str(tmp_path))
    written = (tmp_path / "pipeline.py").read_bytes()
    assert "is not replaced" in refused("init", str(tmp_path))
    (tmp_path / "pipeline.py").unlink()
    assert "landing is there already" in refused("init", str(tmp_path)) and written
    (tmp_path / "file").write_text("")
    assert "Name a directory" in refused("init", str(tmp_path / "file" / "below"))
