"""The archive's files: whose they are by their names, and where they are opened."""

import datetime as dt

import deltalake
import polars as pl
import pytest

from eventide.kernel.columns import ARRIVAL, DEAD, LANE, OFFSET, TIME
from eventide.state import archive_log as archivelog
from eventide.state.archive import ArchiveWriter, clear_uncommitted, files_of, lanes_of
from eventide.state.ledger import Ledger

DAY = 86_400_000_000
NOON = int(dt.datetime(2026, 11, 8, 12, tzinfo=dt.UTC).timestamp()) * 1_000_000


def chunk(lane="0", happened=NOON, rows=3):
    return pl.DataFrame({"n": range(rows), OFFSET: range(rows)}).with_columns(
        pl.lit(lane).alias(LANE),
        pl.lit(NOON, dtype=pl.Int64).alias(ARRIVAL),
        pl.lit(happened, dtype=pl.Int64).alias(TIME),
        pl.lit(None, dtype=pl.String).alias(DEAD),
    )


NINE = Ledger(batch=9)


def write(root, batch, chunks, lane="0", generation=0, attempt=""):
    writer = ArchiveWriter(str(root), batch, (0, lane), "clicks", generation, attempt)
    for rows in chunks:
        writer.see(rows)
    return writer.close()


def test_only_the_files_of_an_earlier_try_are_cleared(tmp_path):
    write(tmp_path, 0, [chunk()], attempt="aa")
    write(tmp_path, 1, [chunk(), chunk(happened=NOON - DAY)], attempt="aa")
    write(tmp_path, 1, [chunk()], generation=1)
    clear_uncommitted(str(tmp_path), 0, Ledger(batch=0, attempts=[(0, "aa")]))
    assert len(list(tmp_path.rglob("*.parquet"))) == 4, "who is at a batch that nobody has committed may yet commit it"
    clear_uncommitted(str(tmp_path), 0, Ledger(batch=1, attempts=[(0, "aa"), (1, "bb")]))
    assert [path.name[:17] for path in tmp_path.rglob("g0-*.parquet")] == ["g0-b000000000000-"]
    assert [file.batch for file in files_of(str(tmp_path), 1, NINE)] == [1]
    clear_uncommitted(str(tmp_path / "nowhere"), 0, Ledger(batch=0))


def test_only_the_files_of_the_run_that_committed_a_batch_are_read(tmp_path):
    write(tmp_path, 0, [chunk()], attempt="aa")
    write(tmp_path, 1, [chunk(), chunk()], attempt="aa")
    write(tmp_path, 1, [chunk()], attempt="bb")
    ledger = Ledger(batch=1, attempts=[(0, "aa"), (1, "bb")])
    assert [(f.batch, "@bb" in f.path) for f in files_of(str(tmp_path), 0, ledger)] == [(0, False), (1, True)]
    clear_uncommitted(str(tmp_path), 0, ledger)
    assert len(list(tmp_path.rglob("*.parquet"))) == 2


@pytest.mark.parametrize("lane", ["l" * 230, "उत्तर प्रदेश की पहली दुकानें", "north/1@x", "-000001"])
def test_a_lane_of_any_name_is_archived_and_read_back(tmp_path, lane):
    other = lane + "2"
    for name in (lane, other):
        write(tmp_path, 0, [chunk(name), chunk(name, happened=NOON - DAY)], lane=name)
    lanes = lanes_of(files_of(str(tmp_path), 0, NINE))
    assert set(lanes) == {(0, lane), (0, other)}
    assert [len(rows) for rows in lanes[(0, lane)]()] == [3, 3]


def test_a_lane_whose_earlier_files_have_its_whole_name_stays_one_lane(tmp_path):
    lane = "l" * 180
    (early,) = write(tmp_path, 0, [chunk(lane)], lane=lane)
    (tmp_path / early).rename((tmp_path / early).with_name(f"g0-b000000000000-s0-{lane}-000000.parquet"))
    write(tmp_path, 1, [chunk(lane)], lane=lane)
    lanes = lanes_of(files_of(str(tmp_path), 0, NINE))
    assert list(lanes) == [(0, lane)] and [len(rows) for rows in lanes[(0, lane)]()] == [3, 3]


def test_the_files_of_a_remote_archive_are_opened_where_the_archive_is(lake):
    (path,) = write(lake, 0, [chunk("l" * 230)], lane="l" * 230)
    (file,) = files_of(lake, 0, NINE)
    assert file.url == f"{lake}/{path}"
    ((lane, chunks),) = lanes_of([file]).items()
    assert lane == (0, "l" * 230) and [len(rows) for rows in chunks()] == [3]
    clear_uncommitted(lake, 0, Ledger(batch=0, attempts=[(0, "bb")]))
    assert files_of(lake, 0, NINE) == []


def test_the_files_of_a_remote_archive_are_entered_in_its_delta_log(lake):
    archivelog.publish(lake, 0, Ledger(batch=0), write(lake, 0, [chunk()]))
    write(lake, 1, [chunk()])
    archivelog.publish(lake, 0, Ledger(batch=1))
    assert deltalake.DeltaTable(lake).to_pyarrow_table().num_rows == 6
