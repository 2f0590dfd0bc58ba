"""Metrics: what a scrape says is what the state says, and what alerts and boards ask for is there."""

from __future__ import annotations

import io
import json
import re
import urllib.error
import urllib.request
from pathlib import Path

import pytest
import yaml
from rich.console import Console
from tests.dashboard.at_work import AtWork

from eventide.cli.faults import Refused
from eventide.cli.following import Heard
from eventide.cli.loading import load
from eventide.dashboard.metrics import exposition
from eventide.dashboard.scrape import Scrape
from eventide.dashboard.watched import Place, Watched
from eventide.state.state import State

ROOT = Path(__file__).parents[2]
SAMPLE = re.compile(r'([a-z_]+)(?:\{((?:[a-z]+="(?:[^"\\\n]|\\.)*",?)*)\})? (\S+)')
LANE = 'north"\\ \u2603'


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> AtWork:
    made = AtWork(tmp_path_factory.mktemp("metrics"))
    made.batch({LANE: [1, 2, 50], "south": [10, 20, 70]}, 80)
    made.batch({LANE: [55, 90, 3], "south": [95, 130]}, 140)
    return made


def samples(text: str) -> dict[str, float]:
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    matches = [SAMPLE.fullmatch(line) for line in lines]
    assert all(matches), [line for line, found in zip(lines, matches, strict=True) if not found]
    return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines}


def test_a_scrape_says_what_the_state_says(work: AtWork) -> None:
    ledger = State(work.state, "payments").ledger
    with Scrape(0, Place(work.state, "payments")) as scrape:
        told = samples(urllib.request.urlopen(f"http://127.0.0.1:{scrape.server_port}/metrics").read().decode())
    assert told['eventide_rows_total{pipeline="payments",what="in"}'] == ledger.rows["in"] == 11
    for verdict in ("on_time", "admitted", "refused"):
        name = f'eventide_output_rows_total{{pipeline="payments",output="patient",verdict="{verdict}"}}'
        assert told[name] == ledger.outputs["patient"][f"rows_{verdict}"]
    assert told['eventide_up{pipeline="payments"}'] == 1
    assert told['eventide_run_failed_tries_total{pipeline="payments"}'] >= 0
    assert any(name.startswith("eventide_watermark_held_since_seconds") and 'north\\"\\\\ \u2603' in name for name in told)


def test_who_is_not_this_machine_is_told_nothing(work: AtWork) -> None:
    with Scrape(0, Place(work.state, "payments")) as scrape:
        asked = urllib.request.Request(f"http://127.0.0.1:{scrape.server_port}/metrics", headers={"host": "elsewhere.example"})
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(asked)
    assert refused.value.code == 403


def test_readiness_says_what_cannot_be_read(tmp_path: Path) -> None:
    with Scrape(0, Place(str(tmp_path), "nothing yet")) as scrape:
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(f"http://127.0.0.1:{scrape.server_port}/readyz")
        assert refused.value.code == 503 and b"has committed nothing" in refused.value.read()


def test_alerts_and_the_board_ask_for_metrics_that_there_are(work: AtWork) -> None:
    watched = Watched(Place(work.state, "payments"))
    watched.look()
    known = set(re.findall(r"# TYPE (\S+)", exposition([watched.facts]))) | {"eventide_run_failed_tries_total"}
    rules = yaml.safe_load((ROOT / "monitoring/alerts.yml").read_text())["groups"][0]["rules"]
    board = json.loads((ROOT / "monitoring/grafana.json").read_text())
    asked = [rule["expr"] for rule in rules] + [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    named = {name for expression in asked for name in re.findall(r"eventide_\w+", expression)}
    assert named and named <= known, named - known


def test_a_run_serves_them_where_it_was_asked_to_and_a_port_that_is_taken_is_told(work: AtWork) -> None:
    said, pipeline = io.StringIO(), load(str(work.file))
    with Heard().opened(pipeline, Console(file=said)) as follow:
        assert follow == [] and said.getvalue() == ""
    with Heard(metrics=0).opened(pipeline, Console(file=said, width=200)):
        [address] = re.findall(r"metrics at (http://127\.0\.0\.1:(\d+)/metrics)", said.getvalue())
        assert b"eventide_up" in urllib.request.urlopen(address[0]).read()
        taken = Heard(metrics=int(address[1])).opened(pipeline, Console(file=said))
        with pytest.raises(Refused, match=f"--metrics {address[1]}: .*Take another port"), taken:
            raise AssertionError("let in")
