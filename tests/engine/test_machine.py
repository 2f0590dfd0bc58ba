"""Through any sequence of landings, touches, kills, restarts, changed outputs, new generations, backfills and clocks that jump, the sinks
hold what the oracle says."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test
from machine import TOTALS, PipelineMachine


def tried(runs: int, steps: int) -> None:
    how = settings(
        max_examples=runs,
        stateful_step_count=steps,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        database=None,
        print_blob=True,
    )
    run_state_machine_as_test(PipelineMachine, settings=how)
    print(f"\n{dict(TOTALS)}")


def test_a_pipeline_through_whatever_happens_to_it() -> None:
    tried(8, 30)


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_five_hundred_pipelines_through_whatever_happens_to_them() -> None:
    tried(int(os.environ.get("EVENTIDE_EXAMPLES", "500")), 30)
