"""The state machine on Spark: landings, touches, kills, restarts, live and caught up by turns, as the oracle says after every step."""

from __future__ import annotations

import os
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test
from machine import TOTALS
from spark_machine import SparkMachine


def tried(spark: Any, runs: int, steps: int) -> None:
    SparkMachine.spark = spark
    how = settings(
        max_examples=runs,
        stateful_step_count=steps,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        database=None,
        print_blob=True,
    )
    run_state_machine_as_test(SparkMachine, settings=how)
    print(f"\n{dict(TOTALS)}")


def test_a_pipeline_on_spark_through_whatever_happens_to_it(spark: Any) -> None:
    tried(spark, 2, 15)


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_thirty_pipelines_on_spark_through_whatever_happens_to_them(spark: Any) -> None:
    tried(spark, int(os.environ.get("EVENTIDE_EXAMPLES", "30")), 30)
