"""`eventide migrate check` in a build. The commands of a rollout, one after the other: tests/migration/test_docs.py and test_end_to_end.py."""

import json

import pytest
from click.testing import CliRunner
from tests.migration.desk import CREATED_AT, RENAME, SIGNUP_DATE, USER_ID, record
from tests.migration.test_drift import FOUR

from eventide.cli.main import main
from eventide.migration.plan.planning import expanded, propose
from eventide.migration.rollout.migration import Migration


@pytest.fixture
def planned(tmp_path):
    """A migration in a file, as `status --json` writes it, for builds without a registry."""
    current = record(USER_ID, SIGNUP_DATE)
    plan = propose("AVRO", current, record(USER_ID, CREATED_AT), said=RENAME)
    body = {**Migration("signup", "users-value", plan, 0).as_json(), "schemas": {"expanded": expanded(plan, current)}}
    path = tmp_path / "signup.json"
    path.write_text(json.dumps(body))
    return path


@pytest.mark.parametrize("form", ["parquet", "ndjson", "csv", "json"])
def test_a_build_fails_on_drift_in_files(planned, tmp_path, form):
    events = tmp_path / f"events.{form}"
    getattr(FOUR, f"write_{form}")(events)
    arguments = ["migrate", "check", "signup", str(events), "--plan", str(planned), "--key", "user_id", "--fail-on-drift"]
    ran = CliRunner().invoke(main, arguments)
    assert ran.exit_code == 1, ran.output
    assert "4 events: neither 0, agree 3, new only 0, old only 0, differ 1" in ran.output
    assert '"user_id": 3' in ran.output and "1 of 4 events drift; the budget is 0.0000%." in ran.output
    assert CliRunner().invoke(main, [*arguments, "--budget", "0.25"]).exit_code == 0
    assert CliRunner().invoke(main, arguments[:-1]).exit_code == 0


def test_a_build_that_had_nothing_to_compare_fails(planned, tmp_path):
    other = tmp_path / "other.ndjson"
    other.write_text('{"user": 1}\n')
    (tmp_path / "empty").mkdir()
    for events in (other, tmp_path / "empty"):
        ran = CliRunner().invoke(main, ["migrate", "check", "signup", str(events), "--plan", str(planned), "--fail-on-drift"])
        assert ran.exit_code == 1 and "has either shape (signup_date, created_at), so nothing was checked" in ran.output
    ran = CliRunner().invoke(main, ["migrate", "check", "signup", str(other), "--plan", str(other), "--fail-on-drift"])
    assert ran.exit_code == 2 and "other.ndjson is no migration" in ran.output
