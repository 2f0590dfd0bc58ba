"""What the pages on lateness, tuning, reconciling and testing do with a run is done with one."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import eventide as ev
from tests.test_snippets import ROOT, snippets

START = datetime(2026, 11, 8, 19, 30, tzinfo=UTC)
WRITTEN = re.compile(r"    (?:(?:measured|tuning|pipeline)\b|from eventide|for found|features\(|    print)")


def lines_of(page: str) -> str:
    """The lines of Python that stand indented in a page, but for those with something left out."""
    found = [line[4:] for line in (ROOT / "docs" / page).read_text().splitlines() if WRITTEN.match(line) and "…" not in line]
    return "\n".join(found)


def landed(directory: Path, late: int) -> None:
    """Ten minutes of payments, of which the last few came four minutes after they happened."""
    directory.mkdir(parents=True)
    at = [*range(0, 600, 5), *range(300, 300 + late)]
    came = [*(second + 1 for second in range(0, 600, 5)), *(600 + n for n in range(late))]
    columns = {
        "paid_at": [START + timedelta(seconds=n) for n in at],
        "arrived_at": [START + timedelta(seconds=n) for n in came],
        "rupees": [100 + n for n in range(len(at))],
        **{name: [f"{name} {n % 3}" for n in range(len(at))] for name in ("bank", "region", "device")},
    }
    pl.DataFrame(columns).write_parquet(directory / "payments.parquet")


@pytest.fixture(scope="module")
def ran(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> ev.Pipeline:
    here = tmp_path_factory.mktemp("a run")
    landed(here / "landing", late=30)
    columns = "paid_at timestamp, arrived_at timestamp, rupees bigint, bank string, region string, device string"
    reads = {"event_time": "paid_at", "arrival": "arrived_at", "watermark": ev.bounded("10 seconds")}
    minutes = (
        ev.files("payments", str(here / "landing"), schema=columns, **reads)
        .window(ev.tumbling("1 minute"), by="region")
        .agg(total=ev.sum("rupees"), n=ev.count())
    )
    pipeline = ev.Pipeline(
        "upi",
        minutes.to("dashboard", late=ev.drop()),
        minutes.to("serving", late=ev.drop()),
        minutes.to("training", late=ev.accumulate("10 minutes")),
        state=str(here / "state"),
        archive=str(here / "archive"),
        measure=["region"],
    )
    assert pipeline.run(spark, drain=True).outputs["dashboard"]["rows_refused"] == 30
    return pipeline


def test_the_lines_on_lateness(ran: ev.Pipeline, spark: Any, capsys: pytest.CaptureFixture[str]) -> None:
    made: dict[str, Any] = {"pipeline": ran, "spark": spark}
    written = lines_of("lateness.md")
    assert written.count("\n") >= 9
    exec(compile(written, "lateness.md", "exec"), made)
    assert made["measured"].verdicts("dashboard")["refused"] == 30
    assert "region 0" in capsys.readouterr().out


def test_the_lines_on_tuning(ran: ev.Pipeline, spark: Any) -> None:
    made: dict[str, Any] = {"pipeline": ran, "ev": ev}
    written = lines_of("tuning.md")
    assert written.count("\n") == 2
    exec(compile(written, "tuning.md", "exec"), made)
    assert made["tuning"].point(10_000_000).refused == 30


def test_the_lines_on_training_and_serving(ran: ev.Pipeline, spark: Any) -> None:
    written = lines_of("reconcile.md")
    assert written.startswith("from eventide.reconcile import features\nfeatures(")
    made: dict[str, Any] = {"pipeline": ran, "spark": spark}
    exec(compile(written.replace("\nfeatures(", "\nfound = features("), "reconcile.md", "exec"), made)
    assert made["found"].count() >= 10


def test_the_page_on_testing_passes_its_test_on_spark(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    landed(tmp_path / "landing", late=0)
    made: dict[str, Any] = {}
    for snippet in snippets("testing.md"):
        exec(compile(snippet, "testing.md", "exec"), made)
    made["test_the_files_of_a_day"](spark, tmp_path)
