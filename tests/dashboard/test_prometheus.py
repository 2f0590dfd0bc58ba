"""A real Prometheus: it takes our alerts, and scrapes what a run serves. Debian's package prometheus has it and promtool."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import time
import urllib.parse
import urllib.request
from pathlib import Path

import pytest
import yaml
from tests.dashboard.at_work import AtWork

from eventide.dashboard.scrape import Scrape
from eventide.dashboard.watched import Place

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.soak


def tool(name: str) -> str:
    found = shutil.which(name)
    assert found, f"this needs {name}: apt-get install prometheus"
    return found


def test_promtool_takes_the_alerts() -> None:
    subprocess.run([tool("promtool"), "check", "rules", str(ROOT / "monitoring/alerts.yml")], check=True)


def test_promtool_takes_the_metrics(tmp_path: Path) -> None:
    work = AtWork(tmp_path)
    work.batch({'north"\\': [1, 2, 50], "south": [10, 20, 70]}, 80)
    with Scrape(0, Place(work.state, "payments")) as scrape:
        told = scrape.told()
    checked = subprocess.run([tool("promtool"), "check", "metrics"], input=told, text=True, capture_output=True)
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_a_prometheus_scrapes_a_run_and_loads_the_rules(tmp_path: Path) -> None:
    work = AtWork(tmp_path)
    work.batch({"north": [1, 2, 50], "south": [10, 20, 70]}, 80)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with Scrape(0, Place(work.state, "payments")) as scrape:
        config = {
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": [str(ROOT / "monitoring/alerts.yml")],
            "scrape_configs": [{"job_name": "eventide", "static_configs": [{"targets": [f"127.0.0.1:{scrape.server_port}"]}]}],
        }
        (tmp_path / "prometheus.yml").write_text(yaml.safe_dump(config))
        command = [
            tool("prometheus"),
            f"--config.file={tmp_path / 'prometheus.yml'}",
            f"--storage.tsdb.path={tmp_path / 'tsdb'}",
        ]
        process = subprocess.Popen([*command, f"--web.listen-address=127.0.0.1:{port}"], stderr=subprocess.DEVNULL)
        try:
            found = waited(port, "sum(eventide_output_rows_total)")
            assert float(found[0]["value"][1]) == 2 * 6
            rules = json.loads(urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/rules").read())["data"]["groups"]
            assert len(rules[0]["rules"]) == 6 and all(rule.get("health") in ("ok", "unknown") for rule in rules[0]["rules"])
        finally:
            process.terminate()
            process.wait(30)


def waited(port: int, query: str) -> list[dict[str, list[str]]]:
    end = time.monotonic() + 60
    while time.monotonic() < end:
        try:
            asked = urllib.parse.urlencode({"query": query})
            answer = json.loads(urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/query?{asked}").read())
            if answer["data"]["result"]:
                return answer["data"]["result"]
        except OSError:
            pass
        time.sleep(0.3)
    raise AssertionError(f"{query} had no answer")
