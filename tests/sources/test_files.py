"""Files that land in a directory, in each format: the same rows give the same answers, and what cannot be read is named."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import eventide as ev
from eventide.engine.batch.read import BatchScan
from eventide.engine.feeds.files import FileFeed
from eventide.engine.spark_notes import FileLog, Noted, TakenFile

NO_SPARK: Any = None
SECOND = 1_000_000
BASE = 1_760_000_000 * SECOND
SCHEMA = "at timestamp, arrived timestamp, bank string, paise bigint, share double"
FORMATS = ["parquet", "json", "csv", "avro"]


def rows(first: int, count: int, late: int = 0) -> pl.DataFrame:
    """A payment each second; the last `late` ones are of the very first window. Names are awkward, some values missing."""
    numbers = list(range(first, first + count))
    at = [BASE + n * SECOND if n < first + count - late else BASE + 1 for n in numbers]
    return pl.DataFrame(
        {
            "at": pl.Series(at).cast(pl.Datetime("us", "UTC")),
            "arrived": pl.Series([BASE + n * SECOND for n in numbers]).cast(pl.Datetime("us", "UTC")),
            "bank": ['a "quoted", bank' if n % 2 else "₹ बैंक" for n in numbers],
            "paise": [None if n % 7 == 3 else n for n in numbers],
            "share": [n / 8 for n in numbers],
        },
        schema_overrides={"paise": pl.Int64},
    )


def write(frame: pl.DataFrame, path: Path, form: str, landed: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if form == "parquet":
        frame.write_parquet(path)
    elif form == "avro":
        naive = frame.with_columns(pl.col("at", "arrived").dt.replace_time_zone(None))
        naive.write_avro(path)
    elif form == "csv":
        frame.with_columns(pl.col("at", "arrived").dt.strftime("%Y-%m-%dT%H:%M:%S%.6fZ")).write_csv(path)
    else:
        texts = frame.with_columns(pl.col("at", "arrived").dt.strftime("%Y-%m-%dT%H:%M:%S%.6fZ")).to_dicts()
        path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in texts))
    os.utime(path, (1_760_000_000 + landed, 1_760_000_000 + landed))


def source(root: Path, form: str, **more: Any) -> Any:
    return ev.files(
        "paid",
        str(root),
        format=form,
        schema=SCHEMA,
        event_time="at",
        arrival="arrived",
        watermark=ev.bounded("1 second"),
        **more,
    )


def totals(stream: Any) -> Any:
    return stream.window(ev.tumbling("10 seconds"), by="bank").agg(total=ev.sum("paise"), n=ev.count(), most=ev.max("share"))


def answers(pipeline: Any, spark: Any) -> dict[tuple[int, str], tuple[Any, ...]]:
    panes = pipeline.panes(spark).selectExpr("unix_micros(window_end) e", "*").orderBy("sequence").collect()
    return {(p["e"], p["bank"]): (p["total"], p["n"], p["most"]) for p in panes}


def by_hand(*frames: pl.DataFrame, upto: int) -> dict[tuple[int, str], tuple[Any, ...]]:
    """Every row in its window, late or not, of the windows that end by then."""
    found: dict[tuple[int, str], list[dict[str, Any]]] = {}
    for row in pl.concat(frames).with_columns(at=pl.col("at").dt.epoch("us")).to_dicts():
        end = (row["at"] // (10 * SECOND) + 1) * 10 * SECOND
        found.setdefault((end, row["bank"]), []).append(row)
    return {
        key: (sum(r["paise"] or 0 for r in mine), len(mine), max(r["share"] for r in mine))
        for key, mine in found.items()
        if key[0] <= upto
    }


@pytest.mark.parametrize("form", FORMATS)
def test_a_landing_directory_is_read_on_in_each_format(spark: Any, tmp_path: Path, form: str) -> None:
    landing = tmp_path / "in"
    first, second = rows(0, 40), rows(40, 45, late=5)
    write(first, landing / f"1.{form}", form, landed=1)
    output = totals(source(landing, form)).to("totals", late=ev.accumulate("10 minutes"))
    pipeline = ev.Pipeline("paid", output, state=str(tmp_path / "state"))
    assert pipeline.run(spark).rows["in"] == 40
    write(second, landing / f"2.{form}", form, landed=2)
    write(first, landing / f".hidden.{form}", form, landed=3)
    handle = pipeline.run(spark)
    assert (handle.rows["in"], handle.rows.get("dead", 0)) == (85, 0)
    assert handle.outputs["totals"]["rows_admitted"] == 5
    assert answers(pipeline, spark) == by_hand(first, second, upto=BASE + 70 * SECOND)


@pytest.mark.parametrize("form", FORMATS)
def test_each_subdirectory_may_be_a_lane(spark: Any, tmp_path: Path, form: str) -> None:
    landing = tmp_path / "in"
    frames = {name: rows(0, 60) for name in ("north", "south")}
    for name, frame in frames.items():
        write(frame, landing / name / f"1.{form}", form, landed=1)
    output = totals(source(landing, form, lane="directory")).to("totals", late=ev.drop())
    pipeline = ev.Pipeline("paid", output, state=str(tmp_path / "state"))
    handle = pipeline.run(spark)
    assert {lane for _, lane in handle.run.ledger.carries} == {"north", "south"}
    assert answers(pipeline, spark) == by_hand(*frames.values(), upto=BASE + 50 * SECOND)


@pytest.mark.parametrize(
    ("form", "body", "reasons"),
    [
        (
            "json",
            '{"at": "2025-10-09T08:53:20Z", "paise": 1}\n{oops\n[1]\n{"at": "2025-10-09T08:53:21Z", "paise": "x"}\n',
            ["not JSON", "not a JSON object", "another schema"],
        ),
        ("csv", "at,paise\nsoon,3\n2025-10-09T08:53:20Z,1\n2025-10-09 08:53:21+05:30,much\n", ["another schema"] * 2),
    ],
    ids=["json", "csv"],
)
def test_what_cannot_be_read_is_a_dead_letter(spark: Any, tmp_path: Path, form: str, body: str, reasons: list[str]) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / f"1.{form}").write_text(body)
    paid = ev.files(
        "paid",
        str(tmp_path / "in"),
        format=form,
        schema="at timestamp, paise bigint",
        event_time="at",
        watermark=ev.ascending(),
    )
    sums = paid.window(ev.tumbling("10 seconds")).agg(total=ev.sum("paise"))
    pipeline = ev.Pipeline("paid", sums.to("totals", late=ev.divert()), state=str(tmp_path / "state"))
    handle = pipeline.run(spark)
    assert handle.rows["dead"] == len(reasons)
    found = [row["reason"].partition(":")[0] for row in pipeline.dead_letters(spark).orderBy("offset").collect()]
    assert found == reasons


def test_the_texts_of_a_csv_file_become_what_they_say(tmp_path: Path) -> None:
    """Without Spark: every way to write an instant, a truth, a decimal; an empty cell is null."""
    from eventide.engine.feeds.decode import Reading
    from eventide.engine.feeds.file_chunks import chunks_of
    from eventide.engine.feeds.landed import LandedFile

    kinds: dict[str, pl.DataType] = {
        "at": pl.Datetime("us", "UTC"), "local": pl.Datetime("us"), "ok": pl.Boolean(), "paid": pl.Decimal(12, 2), "day": pl.Date(),
    }  # fmt: skip
    path = tmp_path / "1.csv"
    path.write_text(
        "at,local,ok,paid,day\n2025-10-09T08:53:20.25Z,2025-10-09 08:53:20,TRUE,1.50,2025-10-09\n"
        "2025-10-09 14:23:20+05:30,,false,,\n2025-10-09T08:53:20,2025-10-09T08:53:20,maybe,x,never\n"
    )
    (chunk,) = chunks_of([LandedFile(str(path), 0, "0")], "csv", Reading(0, "paid", kinds, "at", ev.ascending()), 0)
    assert chunk["__time"].to_list() == [BASE + SECOND // 4, BASE, BASE]
    assert chunk["ok"].to_list() == [True, False, None]
    assert [str(value) for value in chunk["paid"].to_list()] == ["1.50", "None", "None"]
    assert chunk["local"].null_count() == 1
    assert [reason is None for reason in chunk["__dead"].to_list()] == [True, True, False]


def test_the_files_of_a_batch_are_known_without_a_job_of_spark(spark: Any, tmp_path: Path) -> None:
    """By Spark's own note of them, and by a look at each: what its listing took, whatever a file is by now."""
    names = ("kept", "touched", "empty", "gone")
    for name in names:
        write(rows(0, 2), tmp_path / f"{name}.json", "json", 0)
    (tmp_path / "empty.json").write_bytes(b"")
    (tmp_path / "gone.json").unlink()
    os.utime(tmp_path / "touched.json", (2_000, 2_000))
    noted = FileLog(NO_SPARK, "", {0: [TakenFile(f"file://{tmp_path}/{name}.json", 7) for name in names]}, 0)
    scan = BatchScan(NO_SPARK, NO_SPARK, [FileFeed.open(spark, 0, source(tmp_path, "json"))], NO_SPARK, ())
    landed = scan.landed(NO_SPARK, {0: Noted({"logOffset": 0}, {}, noted)})[0]
    assert {Path(file.path).stem: (file.modified, file.size > 0, file.fault) for file in landed} == {
        "empty": (7, False, None), "gone": (7, False, "it is gone"), "kept": (7, True, None), "touched": (7, True, None),
    }  # fmt: skip
