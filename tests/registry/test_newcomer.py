"""What somebody meets who starts a registry for the first time, and what their dashboards find."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner

from eventide.cli.registry import registry
from eventide.registry.service import Options
from eventide.registry.service.auth import Accounts, hashed
from tests.registry.conftest import Ask, InThread
from tests.registry.schemas import CLASH, V1, V2, order


def test_the_first_line_says_where_it_listens(tmp_path: Path) -> None:
    code = "import sys; from eventide.cli.registry import registry; registry(sys.argv[1:])"
    # A warning is due as well, for everybody may write: it comes second.
    command = ["serve", "--host", "0.0.0.0", "--port", "0", "--store", f"sqlite:///{tmp_path}/r.db"]
    running = subprocess.Popen(
        [sys.executable, "-c", code, *command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    try:
        assert running.stdout is not None
        first = running.stdout.readline()
        found = re.match(r"The registry listens on http://0\.0\.0\.0:(\d+) \(sqlite:///", first)
        assert found, first
        assert httpx.get(f"http://127.0.0.1:{found[1]}/health", timeout=30).json() == {"status": "ok"}
    finally:
        running.terminate()
        running.wait(timeout=20)


@pytest.fixture
def guarded(sqlite_url: str) -> Iterator[InThread]:
    grants = {"all": [{"prefix": "", "role": "read"}], "some": [{"prefix": "a.", "role": "admin"}]}
    accounts = Accounts([{"name": name, "secret": hashed(name), "grants": given} for name, given in grants.items()])
    running = InThread(sqlite_url, Options(accounts=accounts))
    yield running
    running.stop()


def test_health_needs_no_account_and_tells_nothing(guarded: InThread) -> None:
    stranger, wrong = Ask(guarded.url), Ask(guarded.url, {"Authorization": "Bearer some.wrong"})
    for ask in (stranger, wrong):
        for path in ("/health", "/eventide/v1/health"):
            assert ask.ok("GET", path) == {"status": "ok"}
        for path in ("/", "/subjects", "/metrics", "/contexts", "/v1/metadata/id", "/health/", "/eventide/v1/health/x"):
            status = ask("GET", path).status_code
            assert status in ((401,) if path != "/health/" and not path.endswith("x") else (200, 401, 404))
        assert ask("POST", "/health").status_code == 405


def test_metrics_are_for_who_may_read_everything(guarded: InThread) -> None:
    assert Ask(guarded.url, {"Authorization": "Bearer some.some"})("GET", "/metrics").status_code == 403
    assert Ask(guarded.url, {"Authorization": "Bearer all.all"})("GET", "/metrics").status_code == 200


def _samples(ask: Ask) -> dict[str, float]:
    answer = ask("GET", "/metrics", headers={"Accept": "text/plain"})
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    lines = [line for line in answer.text.splitlines() if not line.startswith("#")]
    assert all(re.fullmatch(r'[a-z_]+({[a-z_]+="[^"]*"(,[a-z_]+="[^"]*")*})? [0-9.e+-]+', line) for line in lines), answer.text
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}


def test_metrics_under_the_names_that_dashboards_use_and_under_ours(ask: Ask) -> None:
    before = _samples(ask)
    assert before["kafka_schema_registry_registered_count"] == 0
    ask.register("s", V1)
    ask.register("s", V2)
    ask.register("j", json.dumps({"type": "object"}), schemaType="JSON")
    ask.ok("DELETE", "/subjects/s/versions/1")
    for _ in range(3):
        ask.ok("GET", "/schemas/ids/1")
    assert ask("POST", "/subjects/s/versions", {"schema": CLASH}).status_code == 409
    assert ask("GET", "/subjects/none/versions").status_code == 404
    assert ask("GET", "/no/such/path").status_code == 404
    now = _samples(ask)
    assert now["kafka_schema_registry_registered_count"] == 2 and now["kafka_schema_registry_deleted_count"] == 1
    assert now["kafka_schema_registry_node_count"] == now["kafka_schema_registry_master_slave_role"] == 1
    assert now['kafka_schema_registry_schemas_created{schema_type="json"}'] == 1
    assert now['kafka_schema_registry_schemas_deleted{schema_type="avro"}'] == 1
    assert now["kafka_schema_registry_api_failure_count"] == 3 and now["kafka_schema_registry_api_success_count"] == 8
    assert now["eventide_registry_subjects"] == 2
    assert now['eventide_registry_refusals_total{error_code="40901"}'] == 1
    assert now['eventide_registry_refusals_total{error_code="40401"}'] == 1
    register = '{method="POST",route="/subjects/{subject}/versions",status="200"}'
    assert now["eventide_registry_requests_total" + register] == 3
    assert now['eventide_registry_requests_total{method="GET",route="/schemas/ids/{id}",status="200"}'] == 3
    assert now['eventide_registry_request_seconds_count{route="/subjects/{subject}/versions"}'] == 5
    buckets = [
        v
        for k, v in now.items()
        if k.startswith('eventide_registry_request_seconds_bucket{route="/subjects/{subject}/versions",le')
    ]
    assert buckets == sorted(buckets) and buckets[-1] == 5


def test_paths_of_strangers_do_not_become_names_of_metrics(ask: Ask) -> None:
    for i in range(20):
        ask("GET", f"/made/up/{i}")
        ask("GET", f'/subjects/a"{i}')
    assert len([name for name in _samples(ask) if "requests_total" in name]) <= 3


def test_the_level_where_nobody_has_set_one(sqlite_url: str) -> None:
    running = InThread(sqlite_url, Options(default_level="FULL"))
    ask = Ask(running.url)
    assert ask.ok("GET", "/config") == {"compatibilityLevel": "FULL"}
    assert ask.ok("GET", "/config/s?defaultToGlobal=true") == {"compatibilityLevel": "FULL"}
    ask.register("s", V1)
    assert ask.ok("GET", "/eventide/v1/subjects")[0]["compatibilityLevel"] == "FULL"
    assert ask("POST", "/subjects/s/versions", {"schema": order(("other", "int", 1))}).status_code == 409
    ask.ok("PUT", "/config", {"compatibility": "NONE"})
    assert ask.ok("GET", "/config") == {"compatibilityLevel": "NONE"}, "what is set is stronger"
    ask.ok("DELETE", "/config")
    assert ask.ok("GET", "/config") == {"compatibilityLevel": "FULL"}
    running.stop()
    wrong = CliRunner().invoke(registry, ["serve", "--default-compatibility", "SOMETIMES"])
    assert wrong.exit_code == 2 and "SOMETIMES" in wrong.output and "FULL_TRANSITIVE" in wrong.output


def test_a_limit_of_zero_lists_everything(ask: Ask) -> None:
    for i in range(3):
        ask.register(f"s{i}", order((f"f{i}", "int")))
    for path in ("/subjects", "/schemas", "/eventide/v1/subjects", "/subjects/s0/versions", "/schemas/ids/1/subjects",
                 "/contexts", "/eventide/v1/audit"):  # fmt: skip
        everything = ask.ok("GET", path)
        assert everything and ask.ok("GET", path + "?limit=0") == ask.ok("GET", path + "?limit=-1") == everything
        assert len(ask.ok("GET", path + "?limit=1")) == 1
