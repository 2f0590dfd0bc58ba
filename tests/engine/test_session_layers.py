"""Sessions are written as layers, by the keys that a batch touched: whatever lies over what, they are those of the oracle."""

from __future__ import annotations

import random
from pathlib import Path

import polars as pl
import pytest
from agreement import assert_agreement, oracle
from feeding import SECOND, Feeding
from inline import KINDS, InlineRun, Table, run_engine
from landing import START as BEGAN

import eventide as ev
from eventide.engine.batch import bucket_task
from eventide.kernel.columns import END
from eventide.kernel.session_layers import standing
from eventide.kernel.view import START
from eventide.model import aggregate
from eventide.model.plan import OutputPlan, Plan, SourcePlan
from eventide.model.policy import RETRACTING
from eventide.model.trigger import AtExpiry, EveryRows, PerRow
from eventide.model.watermark import Bounded
from eventide.model.window import Session
from eventide.state.store import PartKind
from eventide.testing.streams import Stream, generate, tailed_delay


@pytest.mark.parametrize("seed", range(24))
def test_layers_say_what_the_oracle_says(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Written whole only after some layers, however much changed: few sessions change less than half of themselves in a batch."""
    monkeypatch.setattr(bucket_task, "is_whole", lambda rows, changed: len(rows) in (0, 1 + seed % 4))
    rng = random.Random(seed)
    outputs = (
        OutputPlan("one", 0),
        OutputPlan("two", rng.choice([7, 30]), late=PerRow(), accumulation=RETRACTING),
        OutputPlan("three", 20, early=rng.choice([None, EveryRows(3)]), late=rng.choice([EveryRows(2), AtExpiry()])),
    )
    plan = Plan(
        (SourcePlan(Bounded(5), ("0", "1"), rng.choice([None, 15])),),
        Session(rng.choice([3, 8])),
        (("n", aggregate.count()), ("s", aggregate.sum("value"))),
        outputs,
    )
    table = rng.choice([Table(), Table((), KINDS)])
    stream = Stream(lanes=2, rows=60, delay=tailed_delay(4, 0.3, 40), keys=("a", "b", None, "c", "d"))
    events = generate(stream, seed)
    clocks = sorted(rng.randint(0, max(e.arrival for e in events)) for _ in range(12))
    deepest = [0]

    def after(out: InlineRun) -> None:
        layers = [p for p in out.ledger.parts if p.kind == PartKind.SESSIONS]
        own = {(p.output, p.bucket) for p in layers}
        deepest[0] = max([deepest[0], *(sum((p.output, p.bucket) == one for p in layers) for one in own)])

    engine = table.engine(plan, str(tmp_path), rng.choice([1, 2]))
    got = run_engine(engine, events, clocks, rng, after)
    assert_agreement(plan, got, oracle(plan, table.as_the_oracle_sees(events)), table)
    assert seed % 4 == 0 or deepest[0] > 1, "nothing lay over anything"


def test_without_keys_the_newest_layer_is_all_there_is() -> None:
    old, new = pl.DataFrame({START: [1, 9], END: [5, 12]}), pl.DataFrame({START: [9], END: [14]})
    found = standing([old, new])
    assert found is not None and found.rows() == [(9, 14)]
    gone = standing([old, pl.DataFrame({START: [None], END: [12]}, schema={START: pl.Int64, END: pl.Int64})])
    assert gone is not None and gone.is_empty()


def test_since_when_sessions_were_looked_at_counts_those_that_a_view_hides(tmp_path: Path) -> None:
    """So that a later generation knows from where on an absent result is one that was withdrawn."""
    feeding = Feeding(tmp_path)
    read = ev.files(
        "payments", str(tmp_path / "in"), event_time="ts", arrival="at", lane="directory", watermark=ev.bounded("0 s")
    )
    found = read.window(ev.session("2 s"), by="bank").agg(n=ev.count()).where("n > 9")
    pipe = ev.Pipeline("hidden", found.to("out", late=ev.accumulate("5 s")), state=str(tmp_path / "state"), buckets=1)
    feeding.land("x", (1, 1, "a", 5), (8, 8, "a", 5), (15, 15, "a", 5), (60, 60, "a", 5))
    feeding.open(pipe)
    feeding.batch("x")
    assert feeding.said() == []
    assert feeding.run.ledger.looked_from == {"out": BEGAN + SECOND}
    feeding.run.close()
