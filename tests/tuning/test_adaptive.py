"""The adaptive watermark on drifting delays: as complete as a fixed bound with less waiting, or more complete as fast."""

import importlib.util
from pathlib import Path

import pytest

from eventide.model.watermark import adaptive

PLACE = Path(__file__).parents[2] / "benchmarks" / "adaptive.py"


@pytest.fixture(scope="module")
def bench():
    import sys

    made = importlib.util.spec_from_file_location("adaptive_benchmark", PLACE)
    module = importlib.util.module_from_spec(made)
    sys.modules["adaptive_benchmark"] = module
    made.loader.exec_module(module)
    return module


def test_an_adaptive_bound_waits_less_for_the_same_rows_and_holds_its_share_in_every_hour(bench):
    rows = bench.drifting(seed=2, hours=4)
    ours = bench.judge(adaptive(0.95, ceiling="3 minutes", step="30 s", start="10 s"), rows)
    _, as_complete = bench.fixed_like(rows, ours, by="completeness")
    _, as_fast = bench.fixed_like(rows, ours, by="latency")
    assert ours.worst_hour >= 0.95
    assert as_complete.latency > 1.15 * ours.latency
    assert 1 - as_fast.completeness > 1.3 * (1 - ours.completeness)
