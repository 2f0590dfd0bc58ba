"""`eventide tune`: what it prints, writes and draws."""

import json

import pytest
from click.testing import CliRunner

from eventide.cli.main import main
from eventide.testing.recipes import SECOND


def test_the_command_prints_writes_and_draws_what_it_found(spark, delayed, tmp_path):
    asked = [
        "tune",
        "--history",
        str(delayed),
        "--arrival",
        "arrived",
        "--window",
        "10 s",
        "--bounds",
        "0 s, 10 s",
        "--budget",
        "12 s",
    ]
    assert (
        "drawn as .svg, .png or .html, not into 'curve.gif'" in CliRunner().invoke(main, [*asked, "--plot", "curve.gif"]).output
    )
    done = CliRunner().invoke(main, [*asked, "--json", str(tmp_path / "t.json"), "--plot", str(tmp_path / "t.svg")])
    assert done.exit_code == 0, done.output
    assert 'watermark=ev.bounded("19 seconds")' in done.output and "6,832" in done.output
    answer = json.loads((tmp_path / "t.json").read_text())
    assert [point["refused"] for point in answer["curve"]] == [6832, 1307]
    assert "10 seconds" in (tmp_path / "t.svg").read_text() and "19 seconds: 99" in (tmp_path / "t.svg").read_text()


def test_a_pipeline_file_is_asked_by_its_own_windows(spark, delayed, tmp_path):
    place = tmp_path / "clicks.py"
    place.write_text(
        "import eventide as ev\n"
        f"clicks = ev.files('clicks', {str(delayed)!r}, event_time='event_time', arrival='arrived', watermark=ev.bounded('5 s'))\n"
        "pipeline = ev.Pipeline('clicks', clicks.window(ev.tumbling('10 s')).agg(n=ev.count()).to('out', late=ev.accumulate('5 s')))\n"
    )
    done = CliRunner().invoke(main, ["tune", str(place), "--json", "-"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.output)["recommended"]["bound"] == 19 * SECOND


@pytest.mark.parametrize("option", ["--bounds", "--allowed", "--budget"])
def test_a_span_that_is_none_is_said_before_history_is_read(tmp_path, option):
    asked = ["tune", "--history", str(tmp_path), "--window", "1 minute", option, "soon"]
    done = CliRunner().invoke(main, asked)
    assert done.exit_code == 2 and "'soon'" in done.output and isinstance(done.exception, SystemExit)
