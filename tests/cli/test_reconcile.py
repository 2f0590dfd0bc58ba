"""`eventide reconcile`: the sum that closes, printed and written."""

import json

from click.testing import CliRunner
from tests.reconcile.test_reconcile import SCHEMA

from eventide.cli.main import main


def test_the_command_prints_a_sum_that_closes(spark, burst):
    tmp_path, pipeline, _ = burst
    place = tmp_path / "upi.py"
    place.write_text(
        "import eventide as ev\n"
        f"payments = ev.files('payments', {str(tmp_path / 'landing')!r}, event_time='ts', arrival='at', schema={SCHEMA!r},"
        " watermark=ev.bounded('30 s'), files_per_batch=1)\n"
        "minutes = payments.window(ev.tumbling('1 minute'), by='bank').agg(total=ev.sum('paise'), n=ev.count(), largest=ev.max('paise'))\n"
        f"out = minutes.to('upi_minute', ev.sqlite({str(tmp_path / 'upi.db')!r}), late=ev.divert())\n"
        f"pipeline = ev.Pipeline('upi', out, state={pipeline.state!r}, archive={pipeline.archive!r})\n"
    )
    done = CliRunner().invoke(main, ["reconcile", str(place), "--json", str(tmp_path / "report.json")])
    assert done.exit_code == 0, done.output
    assert "late tail" in done.output and "every difference is explained" in done.output
    assert json.loads((tmp_path / "report.json").read_text())["explained"] is True
