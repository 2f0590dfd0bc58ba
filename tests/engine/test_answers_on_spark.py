"""Spark gives the documents' figures, a backfill gives the live run's answers, and transcripts pass as they do with the oracle."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from landing import answer_of, answer_of_the_oracle, assert_same, land, lane_rows, pipeline

import eventide as ev
from eventide.testing import OutsideTheModel, differences, replay
from eventide.testing.recipes import delayed_stream, upi_payments

CASES = Path(__file__).parents[1] / "testing"
OTHERS = Path(__file__).parents[2] / "../shared/conformance"


def test_a_backfill_equals_the_live_run_late_rows_included(spark: Any, tmp_path: Path) -> None:
    from pyspark.sql import functions as F

    rows = 6_000
    lanes = lane_rows(rows)
    land(tmp_path / "in", lanes, [3, 2, 2, 1], "unevenly")
    live = pipeline(str(tmp_path / "in"), str(tmp_path / "state"), 3)
    handle = live.run(spark)
    assert_same(answer_of(live, spark, handle.rows, handle.outputs), answer_of_the_oracle(rows))
    whole = pl.concat([f.with_row_index("off").with_columns(pl.lit(lane).alias("lane")) for lane, f in lanes.items()])
    whole.write_parquet(tmp_path / "history.parquet")
    history = spark.read.parquet(str(tmp_path / "history.parquet")).orderBy(F.rand(seed=1))
    done = live.backfill(history, spark, lane="lane", offset="off", state=str(tmp_path / "again"))
    assert_same(answer_of(done.pipeline, spark, done.rows, done.outputs), answer_of_the_oracle(rows, drain=True))


def landed(root: Path, events: list[Any], files: int) -> str:
    """Golden events as files of one lane."""
    frame = pl.DataFrame(
        {
            "ts": [e.event_time for e in events],
            "at": [e.arrival for e in events],
            **{name: [e.row[name] for e in events] for name in events[0].row},
        }
    )
    cut = -(-len(frame) // files)
    land(root, {"0": frame}, [1], "evenly") if files == 1 else _several(root, frame, cut)
    return str(root)


def _several(root: Path, frame: pl.DataFrame, cut: int) -> None:
    import os

    root.mkdir(parents=True)
    for number, start in enumerate(range(0, len(frame), cut)):
        path = root / f"{number:03d}.parquet"
        frame[start : start + cut].write_parquet(path)
        os.utime(path, (1_700_000_000 + number,) * 2)


def golden(root: str, bound: int) -> ev.sources.files.FileSource:
    return ev.files(
        "golden", root, event_time="ts", arrival="at", watermark=ev.bounded(f"{bound} s"), files_per_batch=2, max_ahead=None
    )


ALLOWED = {0: (17_001, 0, 2_999), 5: (17_001, 1_692, 1_307), 15: (17_001, 2_894, 105), 30: (17_001, 2_999, 0)}
REFUSED = {0: 6832, 2: 4923, 5: 2999, 10: 1307, 20: 105, 40: 0}


@pytest.mark.parametrize("bound", REFUSED)
def test_the_completeness_curve_comes_out_exactly(spark: Any, tmp_path: Path, bound: int) -> None:
    source = golden(landed(tmp_path / "in", delayed_stream(), 4), bound)
    tens = source.window(ev.tumbling("10 s")).agg(n=ev.count())
    outputs = [tens.to("strict", late=ev.drop())]
    if bound == 5:
        outputs += [tens.to(f"allowed {g}", late=ev.accumulate(f"{g} s", refused=ev.divert())) for g in ALLOWED if g]
    said = ev.Pipeline("curve", *outputs, state=str(tmp_path / "state")).run(spark).outputs
    assert said["strict"].get("refused", 0) == REFUSED[bound]
    assert said["strict"]["on_time"] == 20_000 - REFUSED[bound]
    for allowed, want in ALLOWED.items() if bound == 5 else ():
        counts = said["strict" if allowed == 0 else f"allowed {allowed}"]
        assert tuple(counts.get(v, 0) for v in ("on_time", "admitted", "refused")) == want


def test_the_three_policies_come_out_to_the_paisa(spark: Any, tmp_path: Path) -> None:
    events = upi_payments()
    root = landed(tmp_path / "in", events, 6)
    minutes = golden(root, 30).window(ev.tumbling("60 s")).agg(total=ev.sum("paise"))
    outputs = [
        minutes.to("drop", late=ev.drop()),
        minutes.to("accumulate", late=ev.accumulate("300 s")),
        minutes.to("divert", late=ev.divert()),
    ]
    pipe = ev.Pipeline("policies", *outputs, state=str(tmp_path / "state"))
    history = spark.read.parquet(f"{root}/*.parquet").selectExpr("*", "_metadata.file_path as p", "_metadata.row_index as r")
    history = history.selectExpr("*", "int(substring(element_at(split(p, '/'), -1), 1, 3)) * 1000 + r as off")
    done = pipe.backfill(history, spark, offset="off", state=str(tmp_path / "drained"))
    main = {}
    for output in done.pipeline.outputs:
        best: dict[Any, Any] = {}
        for p in done.pipeline.panes(spark, output.name).collect():
            if p["window_id"] not in best or p["sequence"] > best[p["window_id"]][0]:
                best[p["window_id"]] = (p["sequence"], p["total"])
        main[output.name] = sum(total for _, total in best.values())
    side = done.pipeline.late(spark, "divert").groupBy().sum("paise").collect()[0][0]
    assert main == {"drop": 14_242_067, "accumulate": 14_503_572, "divert": 14_242_067}
    assert side == 312_715 and side + main["divert"] == sum(e.row["paise"] for e in events) == 14_554_782
    refused = {name: counts.get("refused", 0) for name, counts in done.outputs.items()}
    assert refused == {"drop": 13, "accumulate": 2, "divert": 13}


def transcripts() -> list[Any]:
    found = json.loads((CASES / "cases.json").read_text())["cases"]
    for name, groups in (("beam", ("cases",)), ("flink", ("window_cases", "retract_cases"))):
        path = OTHERS / f"{name}.json"
        if path.exists():
            data = json.loads(path.read_text())
            found += [case for group in groups for case in data[group]]
    return found


def assert_spark_passes(cases: list[Any], at_least: int) -> None:
    passed, failed = 0, {}
    for case in cases:
        try:
            if differences(case, replay(case)):
                continue
        except OutsideTheModel:
            continue
        found = differences(case, replay(case, engine="spark"))
        if found:
            failed[case["name"]] = found
        passed += not found
    assert not failed, failed
    assert passed >= at_least, f"only {passed} transcripts were there to pass"


def test_spark_passes_transcripts_that_the_oracle_passes(spark: Any) -> None:
    own = json.loads((CASES / "cases.json").read_text())["cases"]
    assert_spark_passes(own[:3], 1)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_spark_passes_every_transcript_that_the_oracle_passes(spark: Any) -> None:
    assert_spark_passes(transcripts(), 10)
