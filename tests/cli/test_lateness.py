"""`eventide lateness`: percentiles, causes and bias, and the promises of a contract held against them."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from tests.lateness.test_promise import GOOD, Measured

from eventide.cli import lateness as command
from eventide.cli.main import main
from eventide.lateness.promise import Promise
from eventide.lateness.witness import DISORDER, IDLENESS
from eventide.tuning.report import as_json
from eventide.tuning.tune import tune


def test_the_command_shows_percentiles_causes_and_bias(clicks):
    _, file = clicks
    shown = CliRunner().invoke(main, ["lateness", str(file)])
    assert shown.exit_code == 0, shown.output
    for text in ("1,356 rows", f"strict: {DISORDER} 5, {IDLENESS} 30", "By region", "south", "late at window",
                 "late at source: the event's time lay behind its own lane's watermark"):  # fmt: skip
        assert text in shown.output
    by_hour = CliRunner().invoke(main, ["lateness", str(file), "--by", "hour"])
    assert "2026-11-08T12:00:00Z" in by_hour.output


def test_a_contract_from_the_tuning_is_held_against_the_run(spark, clicks, tmp_path):
    pipeline, file = clicks
    promise = Promise.of_tuning(as_json(tune(pipeline, spark=spark)))
    assert promise.freshness is not None and promise.completeness is not None
    for promised, status in ((promise, 1), (Promise(promise.freshness, 0.9), 0), (Promise(1_000), 1)):
        (tmp_path / "c.yaml").write_text(json.dumps({"slaProperties": promised.as_properties()}))
        done = CliRunner().invoke(main, ["lateness", str(file), "--contract", str(tmp_path / "c.yaml")])
        assert done.exit_code == status, done.output  # `strict` refuses 35 of its rows: 97.4%


@pytest.mark.parametrize(
    ("promised", "status", "said"),
    [
        (
            [{"property": "freshness", "value": 12, "unit": "s"}, {"property": "retention", "value": 1}],
            0,
            "retention: not checked",
        ),
        ([{"property": "freshness", "value": 4}], 1, "BROKEN  freshness: 99% within 4 s promised, 5.00 s in lane s 0"),
        (
            [{"property": "completeness", "value": 99.9, "unit": "%"}],
            0,
            "kept    completeness: 99.9000% promised, 99.9000% in totals",
        ),
        ([{"property": "retention", "value": 1}], 2, "nothing to check"),
        (None, 2, "promises nothing"),
    ],
)
def test_the_command_ends_with_0_or_1_and_with_2_where_nothing_is_promised(
    monkeypatch: Any, tmp_path: Path, promised: Any, status: int, said: str
) -> None:
    measured = Measured([5e6], GOOD)
    monkeypatch.setattr(command, "load", lambda path: SimpleNamespace(lateness=lambda: measured))
    (tmp_path / "p.py").write_text("")
    (tmp_path / "c.yaml").write_text(yaml.safe_dump({"kind": "DataContract", "slaProperties": promised}))
    done = CliRunner().invoke(main, ["lateness", str(tmp_path / "p.py"), "--contract", str(tmp_path / "c.yaml")])
    assert (done.exit_code, said in done.output) == (status, True), done.output
