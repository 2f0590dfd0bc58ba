"""History in Delta tables: filled partition by partition, brought back, and never at the cost of somebody else's rows."""

from __future__ import annotations

import polars as pl
import pytest

from eventide.migration.data import history_delta
from eventide.migration.data.history import HistoryRefused, fill
from eventide.migration.data.history_delta import fill_delta
from eventide.migration.data.upcast import Upcast
from tests.migration.test_drift import FARES, rides

deltalake = pytest.importorskip("deltalake")
NEW, OLD = Upcast.of(FARES, keep=True), Upcast.of(FARES, "old", keep=True)


def store(path, frame: pl.DataFrame, **more) -> str:
    deltalake.write_deltalake(str(path), frame.to_arrow(compat_level=pl.CompatLevel.oldest()), **more)
    return str(path)


def bases(path: str) -> list[int]:
    return pl.read_delta(path).sort("ride_id")["pricing"].struct.field("base").to_list()


def test_a_delta_table_is_filled_in_one_commit(tmp_path):
    path = store(tmp_path / "rides", rides(50).drop("pricing"))
    assert fill_delta(path, NEW) == {"files": 1, "skipped": 0, "rows": 50, "version": 1}
    assert fill_delta(path, NEW) == {"files": 0, "skipped": 1, "rows": 0, "version": 1}
    assert bases(path) == rides(50)["fare_cents"].to_list()


def by_zone(count: int) -> pl.DataFrame:
    zone = pl.col("ride_id") % 4
    return rides(count).drop("pricing").with_columns(zone=pl.when(zone > 0).then(zone))


def test_a_fill_that_was_stopped_goes_on_with_the_next_partition(tmp_path, monkeypatch):
    path = store(tmp_path / "rides", by_zone(80), partition_by=["zone"])
    write, done = history_delta._write, []

    def dies(*arguments):
        if len(done) == 2:
            raise KeyboardInterrupt
        done.append(write(*arguments))
        return done[-1]

    monkeypatch.setattr(history_delta, "_write", dies)
    with pytest.raises(KeyboardInterrupt):
        fill_delta(path, NEW)
    monkeypatch.undo()
    assert fill_delta(path, NEW) == {"files": 2, "skipped": 2, "rows": 40, "version": 4}
    assert bases(path) == rides(80)["fare_cents"].to_list()
    assert deltalake.DeltaTable(path).metadata().partition_columns == ["zone"]


@pytest.mark.parametrize("partitions", [["zone"], None])
def test_rows_that_come_while_it_is_filled_are_kept(tmp_path, monkeypatch, partitions):
    path = store(tmp_path / "rides", by_zone(80), partition_by=partitions)
    write, late = history_delta._write, [by_zone(84).tail(4)]

    def overtaken(*arguments):
        while late:
            store(path, late.pop(), mode="append")
        return write(*arguments)

    monkeypatch.setattr(history_delta, "_write", overtaken)
    fill_delta(path, NEW)
    assert pl.read_delta(path)["ride_id"].sort().to_list() == list(range(84))
    fill_delta(path, NEW)
    assert bases(path) == rides(84)["fare_cents"].to_list()


def test_one_that_is_overtaken_every_time_gives_up_and_says_so(tmp_path, monkeypatch):
    path = store(tmp_path / "rides", by_zone(8), partition_by=["zone"])

    def overtaken(*_):
        raise deltalake.exceptions.CommitFailedError("overtaken")

    monkeypatch.setattr(history_delta, "_write", overtaken)
    with pytest.raises(HistoryRefused, match="nothing is lost"):
        fill_delta(path, NEW)


def test_the_files_of_a_delta_table_are_not_taken_for_loose_ones(tmp_path):
    path = store(tmp_path / "rides", rides(5).drop("pricing"))
    with pytest.raises(HistoryRefused, match="is a Delta table"):
        fill(path, NEW, "m")
    assert len(pl.read_delta(path)) == 5


def test_a_dropped_field_is_rebuilt_in_a_delta_table_from_a_delta_history(tmp_path):
    both = rides(100).with_columns(fare_cents=pl.col("fare_cents") + (pl.col("ride_id") == 7))  # one was recorded otherwise
    dual = store(tmp_path / "dual", both.head(60))
    store(dual, both.head(60), mode="overwrite")  # the files of an earlier version are no history
    now = store(tmp_path / "now", rides(100).drop("fare_cents"))
    assert fill_delta(now, OLD, history=dual, key=("ride_id",))["rows"] == 100
    assert pl.read_delta(now).sort("ride_id")["fare_cents"].to_list() == both["fare_cents"].to_list()
    assert fill_delta(now, OLD, history=dual, key=("ride_id",))["rows"] == 0
    with pytest.raises(HistoryRefused, match="--key"):
        fill_delta(now, OLD, history=dual)
    with pytest.raises(HistoryRefused, match="--key ride is no column of"):
        fill_delta(now, OLD, history=dual, key=("ride",))
