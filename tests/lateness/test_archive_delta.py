"""The archive as a Delta table: what is committed is in its log once, whatever happens in between."""

import deltalake
import pytest

import eventide as ev
from tests.lateness.test_live import killed, payments, upi


def kept(pipeline):
    return deltalake.DeltaTable(pipeline.archive).to_pyarrow_table()


@pytest.fixture
def pipeline(tmp_path):
    (tmp_path / "landing").mkdir()
    payments(500).write_parquet(tmp_path / "landing" / "0.parquet")
    return upi(tmp_path, archive=str(tmp_path / "archive"), archive_format="delta")


def test_killed_before_or_after_the_commit_the_table_holds_every_event_once(spark, pipeline, tmp_path):
    for point in ("scan", "deliver", "commit"):
        killed(pipeline, spark, point)
        assert not deltalake.DeltaTable.is_deltatable(pipeline.archive)  # committed at last, but not yet entered
    payments(300, seed=4).with_columns(channel=1).write_parquet(tmp_path / "landing" / "1.parquet")
    pipeline.run(spark)
    table = kept(pipeline)
    assert table.num_rows == 800 and len(set(table["_offset"].to_pylist())) == 800
    assert {"arrival_day", "event_day", "paise"} <= set(table.column_names)
    assert {"2026-11-08", "2026-11-09"} <= set(table["arrival_day"].to_pylist())
    assert pipeline.archived(spark).count() == 800
    version = deltalake.DeltaTable(pipeline.archive).version()
    pipeline.run(spark)
    assert deltalake.DeltaTable(pipeline.archive).version() == version


def test_a_run_that_started_over_takes_the_place_of_what_was_archived(spark, pipeline, tmp_path):
    pipeline.run(spark)
    again = upi(tmp_path / "again", archive=pipeline.archive, archive_format="delta", generation=1)
    (tmp_path / "again").mkdir()
    (tmp_path / "landing").rename(tmp_path / "again" / "landing")
    again.run(spark)
    assert kept(again).num_rows == 500


def test_a_format_that_does_not_exist_is_refused(tmp_path):
    with pytest.raises(ev.DefinitionError, match='"parquet" or "delta"'):
        upi(tmp_path, archive="kept", archive_format="csv")
