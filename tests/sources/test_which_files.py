"""One rule says which files of a landing directory are read: Spark's listing and ours agree over names of every kind."""

from __future__ import annotations

import gzip
import os
import random
from pathlib import Path
from typing import Any
from urllib.parse import quote

import polars as pl
import pytest

import eventide as ev
from eventide.engine.feeds.files import FileFeed
from eventide.engine.feeds.landed import below
from eventide.errors import DefinitionError
from eventide.sources.filenames import FORMATS, is_read

WEEK = 7 * 86_400
DDL = "at timestamp, paise bigint"
LINE = '{"at": "2025-10-09T08:53:20Z", "paise": 1}\n'


def names(form: str, seed: int) -> list[str]:
    """Names that producers, copies under way, editors and other systems leave."""
    rng = random.Random(seed)
    stems = [
        "1",
        "a b",
        "%41",
        "+x",
        "é",
        "😀",
        "caf\udce9",
        "x=1",
        ".h",
        "_h",
        "_x=1",
        "_metadata",
        "_SUCCESS",
        "a.b.c",
        "[1]",
        "{2}",
        "*",
        "a\\b",
    ]
    ends = [
        "",
        "",
        "",
        "",
        ".gz",
        ".bz2",
        ".zst",
        ".lz4",
        ".tmp",
        ".crc",
        "._COPYING_",
        ".zip",
        "~",
        ".GZ",
        ".gz.tmp",
        ".swp",
        "x",
    ]
    forms = [form, form, form, "jsonl", "ndjson", "json", "csv", "parquet", "avro", form.upper(), "txt"]
    places = ["", "d/", "d/e=1/", "_temporary/", ".spark/", "_p=2/", "d/_x/", "c._COPYING_/"]
    drawn = {rng.choice(places) + rng.choice(stems) + "." + rng.choice(forms) + rng.choice(ends) for _ in range(400)}
    return sorted(drawn)


def what_spark_takes(spark: Any, feed: FileFeed, checkpoint: Path) -> set[str]:
    taken: set[str] = set()

    def take(frame: Any, _: int) -> None:
        taken.update(below(row["__path"], feed.source.path) for row in frame.select("__path").collect())

    writer = feed.frame(spark).writeStream.foreachBatch(take).option("checkpointLocation", str(checkpoint))
    writer.trigger(availableNow=True).start().awaitTermination()
    return taken


@pytest.mark.parametrize("form", FORMATS)
def test_spark_s_listing_and_ours_are_the_same(spark: Any, tmp_path: Path, form: str) -> None:
    root = tmp_path / "in here%"
    for nth, name in enumerate(names(form, seed=FORMATS.index(form))):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
        os.utime(path, (1_700_000_000 + nth,) * 2)
    (root / "d\udcff").mkdir()
    (root / f"d\udcff/1.{form}").write_text("x")
    source = ev.files("paid", str(root), format=form, schema=DDL, event_time="at", watermark=ev.ascending())
    feed = FileFeed.open(spark, 0, source)
    ours = {below(file.path, source.path) for file in feed.listed() if file.fault is None}
    read = {name for name in names(form, seed=FORMATS.index(form)) if is_read(name, form)}
    assert ours == {name for name in read if "\udce9" not in name} and len(ours) > 10
    assert what_spark_takes(spark, feed, tmp_path / "checkpoint") == ours
    unnamed = {file.path for file in feed.listed() if "its name is not UTF-8" in (file.fault or "")}
    assert unnamed == {f"{root.as_uri()}/{quote(os.fsencode(name))}" for name in {*read, f"d\udcff/1.{form}"} - ours}


def pipeline(tmp_path: Path, **more: Any) -> ev.Pipeline:
    paid = ev.files(
        "paid", str(tmp_path / "in"), event_time="at", watermark=ev.ascending(), **{"format": "json", "schema": DDL, **more}
    )
    counts = paid.window(ev.tumbling("10 seconds")).agg(n=ev.count())
    return ev.Pipeline("paid", counts.to("n", late=ev.divert()), state=str(tmp_path / "state"))


def test_files_of_any_age_are_read_and_names_that_change_are_read_once(spark: Any, tmp_path: Path) -> None:
    """A month older than what was read; a time in the far future; compressed; under another name until it is whole."""
    landing = tmp_path / "in"
    landing.mkdir()
    (landing / "1.json").write_text(LINE)
    (landing / "2.json.tmp").write_text(LINE * 2)
    (landing / "3.json.gz").write_bytes(gzip.compress(LINE.encode() * 4))
    os.utime(landing / "3.json.gz", (7_000_000_000,) * 2)
    pipe = pipeline(tmp_path)
    assert pipe.run(spark).rows["in"] == 5
    (landing / "2.json.tmp").rename(landing / "2.json")
    (landing / "4.jsonl").write_text(LINE * 8)
    old = os.stat(landing / "1.json").st_mtime - 5 * WEEK
    os.utime(landing / "4.jsonl", (old, old))
    os.utime(landing / "1.json")
    handle = pipe.run(spark)
    assert handle.rows["in"] == 15 and handle.rows.get("dead", 0) == 0
    swept = handle.run.ledger.swept
    assert swept is not None and swept[0] == handle.run.last_clock


@pytest.mark.parametrize("through", ["worker", "transform", "lanes", "spark"])
@pytest.mark.parametrize("form", ["parquet", "json"])
def test_a_bad_file_is_one_dead_letter_on_every_way(spark: Any, tmp_path: Path, through: str, form: str) -> None:
    if through == "spark" and form != "parquet":
        pytest.skip("Spark reads only Parquet for us")
    landing = tmp_path / "in"
    landing.mkdir()
    rows = pl.DataFrame({"at": [1_760_000_000_000_000, 1_760_000_020_000_000], "paise": [1, 2]}).with_columns(
        pl.col("at").cast(pl.Datetime("us", "UTC"))
    )
    for nth, good in enumerate([True, False, True, False, False]):
        path = landing / f"{nth}.{form}"
        if form == "parquet":
            rows.write_parquet(path)
        else:
            path = landing / f"{nth}.json.gz"
            path.write_bytes(gzip.compress(LINE.encode() * 2))
        if not good:
            path.write_bytes([path.read_bytes()[:-4], b"", b"at,paise\n1,2\n"][nth % 3])
        os.utime(path, (1_760_000_000 + nth,) * 2)
    pipe = pipeline(
        tmp_path,
        format=form,
        lane="column:paise" if through == "lanes" else "source",
        read="spark" if through == "spark" else "auto",
    )
    if through == "transform":
        (source,) = pipe.aggregation.stream.sources
        changed = source.transform(lambda frame: frame.where("paise > 0"))
        counts = changed.window(ev.tumbling("10 seconds")).agg(n=ev.count())
        pipe = ev.Pipeline("paid", counts.to("n", late=ev.divert()), state=str(tmp_path / "state"))
    handle = pipe.run(spark)
    letters = [row["reason"] for row in pipe.dead_letters(spark).collect()]
    assert (handle.rows["in"], handle.rows["dead"]) == (7, 3), letters
    assert all(f"the file {landing}/" in letter for letter in letters)
    assert (
        sum("(0 bytes) cannot be read: it is empty" in letter or "it is empty, or gone" in letter for letter in letters) == 2
    ), letters
    assert handle.watermark is not None, "no lane was made of a dead letter"


def test_a_pattern_is_no_directory(tmp_path: Path) -> None:
    with pytest.raises(DefinitionError, match="name one directory, not a pattern; all that lies below it is read"):
        pipeline(tmp_path / "*")


def test_lanes_that_fall_silent_are_found_idle_on_a_busy_directory(spark: Any, tmp_path: Path) -> None:
    """A file lands between Spark's listing and ours, at every batch: region y sends no more, and W goes on without it."""
    from eventide.engine.run import Run

    landing = tmp_path / "in"
    landing.mkdir()
    start, nth = 1_760_000_000, [0]

    def land(*rows: tuple[int, str]) -> None:
        lines = [f'{{"at": {(start + second) * 1_000_000}, "region": "{region}"}}\n' for second, region in rows]
        path = tmp_path / "aside"
        path.write_text("".join(lines))
        os.utime(path, (start + max(second for second, _ in rows),) * 2)
        path.rename(landing / f"{nth[0]:03d}.json")
        nth[0] += 1

    def clock() -> int:
        land((10 * nth[0], "x"))
        return (start + 10 * nth[0]) * 1_000_000

    land((0, "x"), (0, "y"))
    regions = ev.files(
        "regions", str(landing), format="json", schema="at bigint, region string", event_time="at", watermark=ev.ascending(),
        lane="column:region", idle_after="15 seconds",
    )  # fmt: skip
    counts = regions.window(ev.tumbling("10 seconds")).agg(n=ev.count())
    pipe = ev.Pipeline("busy", counts.to("n", late=ev.divert()), state=str(tmp_path / "state"))
    run = Run(pipe, spark, str(tmp_path / "state"), clock=clock)
    run.open()
    query = run.start(interval="10 milliseconds")
    try:
        while run.ledger.batch < 6 and query.isActive:
            query.awaitTermination(0.05)
    finally:
        query.stop()
        run.close()
    assert run.ledger.frontier.watermark is not None
    assert run.ledger.frontier.watermark > (start + 20) * 1_000_000, "y has been silent since the start"


@pytest.mark.parametrize("through", ["worker", "transform", "lanes"])
def test_a_name_that_is_no_text_is_one_dead_letter_on_every_way(spark: Any, tmp_path: Path, through: str) -> None:
    landing = tmp_path / "in"
    landing.mkdir()
    for name in ("1.json", "caf\udce9.json"):
        (landing / name).write_text(LINE)
    pipe = pipeline(tmp_path, lane="column:paise" if through == "lanes" else "source")
    if through == "transform":
        (source,) = pipe.aggregation.stream.sources
        changed = source.transform(lambda frame: frame.where("paise > 0"))
        counts = changed.window(ev.tumbling("10 seconds")).agg(n=ev.count())
        pipe = ev.Pipeline("paid", counts.to("n", late=ev.divert()), state=str(tmp_path / "state"))
    for _ in range(2):
        handle = pipe.run(spark)
        assert (handle.rows["in"], handle.rows["dead"]) == (2, 1)
    (letter,) = [row["reason"] for row in pipe.dead_letters(spark).collect()]
    assert f"the file file://{landing}/caf%E9.json (43 bytes) cannot be read: its name is not UTF-8" in letter
    (landing / "caf\udce9.json").rename(landing / "café.json")
    handle = pipe.run(spark)
    assert (handle.rows["in"], handle.rows["dead"]) == (3, 1)
