"""`eventide init`: the file that it writes runs as it is, and nothing is replaced."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from asked import refused, shown
from pyspark.sql.types import LongType, StringType, StructField, StructType, TimestampType
from tests.engine.crash_driver import Here, batch_of

from eventide.cli.loading import load
from eventide.engine.run import Run


def test_what_it_writes_runs_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "eventide run pipeline.py" in shown("init", str(tmp_path / "new"))
    monkeypatch.chdir(tmp_path / "new")
    assert "ok: there is no state yet" in shown("validate", "pipeline.py")
    names = {"event_time": TimestampType(), "arrived_at": TimestampType(), "bank": StringType(), "paise": LongType()}
    schema = StructType(
        [StructField(name, kind) for name, kind in names.items()]
    )  # as Spark reads it; the rest needs no session
    monkeypatch.setattr("eventide.engine.feeds.files.parse_ddl", lambda text: schema)
    pipeline = load("pipeline.py")
    run = Run(pipeline, Here(), "state")  # type: ignore[arg-type]
    run.open()
    landed = [(str(p.resolve()), p.stat().st_mtime_ns // 1_000_000 * 1000) for p in sorted(Path("landing").rglob("*.json"))]
    run.batch(batch_of(pipeline, landed), 0, drain=True)  # type: ignore[arg-type]
    run.close()
    ledger = run.ledger
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
