"""A state that was made when the sweep saw every change of every lane is gone on with, and says what the oracle says."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from agreement import assert_agreement, oracle
from inline import ONE_KEY, InlineRun, run_engine

from eventide.kernel.bound_plan import BoundPlan
from eventide.model import aggregate
from eventide.model.plan import OutputPlan, Plan, SourcePlan
from eventide.model.trigger import PerRow
from eventide.model.watermark import Bounded
from eventide.model.window import Session, Sliding
from eventide.testing.streams import Stream, generate, tailed_delay


@pytest.mark.parametrize("seed", range(30))
def test_progress_that_waits_stands_in_for_clocks_that_were_not_kept(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lanes are read unevenly, so that what was read in the older way is swept together with what is read in the newer."""
    rng = random.Random(seed)
    window = rng.choice([Session(5), Session(10), Sliding(10, 10)])
    within = rng.choice([None, 10]) if isinstance(window, Session) else 10
    source = SourcePlan(Bounded(rng.choice([0, 5])), ("0", "1", "2"), rng.choice([None, 15]))
    outputs = (OutputPlan("one", 0, late=PerRow()), OutputPlan("two", 7, late=PerRow()))
    plan = Plan((source,), window, (("n", aggregate.count()),), outputs, dedupe_within=within)
    stream = Stream(lanes=3, rows=60, delay=tailed_delay(4, 0.3, 40), duplicates=0.2 if within else 0.0, keys=("a", "b"))
    events = generate(stream, seed)
    clocks = sorted(rng.randint(0, max(e.arrival for e in events)) for _ in range(6))
    older, batches = [True], [0]
    monkeypatch.setattr(BoundPlan, "sweeps_all", property(lambda self: older[0]))

    def after(out: InlineRun) -> None:
        batches[0] += 1
        older[0] = batches[0] < 3

    got = run_engine(ONE_KEY.engine(plan, str(tmp_path), 2), events, clocks, rng, after)
    assert_agreement(plan, got, oracle(plan, events), ONE_KEY)
