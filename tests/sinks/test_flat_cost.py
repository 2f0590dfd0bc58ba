"""A thousand deliveries into each table on files: the last cost no more than the first. `make soak-sinks` says the figures."""

from __future__ import annotations

import hashlib
import json
import time
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from tests.sinks.panes import SHAPE, Pane, batch, delivery, expected, pane, seen
from tests.sinks.places import Delta, Iceberg, Parquet, Place, World

DELIVERIES = 1000


def minute(number: int) -> list[Pane]:
    """A hundred new windows, corrections of the three minutes before, and at times of one long ago."""
    panes = [pane(f"m{number}b{k}", 0, slot=number, total=k, n=1) for k in range(100)]
    for back in (1, 2, 3):
        panes += [pane(f"m{number - back}b{k}", back, slot=number - back, total=k + back, n=1) for k in range(0, 100, 15)]
    panes = [p for p in panes if not p["window_id"].startswith("m-")]
    return panes + ([pane(f"m{number // 3}b5", 9, slot=number // 3, total=5, n=5)] if number % 50 == 49 else [])


def yardstick() -> float:
    """Seconds of CPU that a piece of work takes which is always the same: twice as many where others are at work on the machine."""
    begun = time.process_time()
    for _ in range(3):
        for text in [json.dumps({"a": number, "b": str(number)}) for number in range(300)]:
            json.loads(text)
        numbers = np.arange(2000)
        pl.DataFrame({"a": numbers % 77, "b": numbers}).sort("a", "b").group_by("a").agg(pl.col("b").sum())
    hashlib.sha256(bytes(400_000)).hexdigest()
    return time.process_time() - begun


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kind", [Delta, Iceberg, Parquet], ids=lambda kind: kind.name)
def test_the_last_deliveries_cost_no_more_than_the_first(kind: type[Place], tmp_path: Path) -> None:
    """Time of this process is compared, not of the wall, and by what a yardstick takes beside it: others may be at work on the machine."""
    place, log = kind(World(tmp_path)), []
    # A thousand deliveries come within minutes here, and not within hours: the past is kept in proportion.
    writer = place.sink(keep_for="5 seconds").open(place.output, SHAPE)
    costs, waits, yards = [], [], []
    for number in range(DELIVERIES):
        panes = minute(number)
        log += panes
        arriving = batch(panes)
        worked, waited = time.process_time(), time.perf_counter()
        writer.deliver(arriving, delivery(place.output, number))
        costs.append(time.process_time() - worked)
        waits.append(time.perf_counter() - waited)
        yards.append(yardstick())
    writer.close()

    def mean(values: list[float], first: int) -> float:
        return sum(values[first : first + 100]) * 10  # milliseconds, over a hundred deliveries

    risen = (mean(costs, 900) / mean(yards, 900)) / (mean(costs, 100) / mean(yards, 100))
    files = sum(1 for path in tmp_path.rglob("*") if path.is_file())
    print(
        f"\n{kind.name}: deliveries 100-200 take {mean(costs, 100):.0f} ms of CPU ({mean(waits, 100):.0f} ms), "
        f"900-1,000 take {mean(costs, 900):.0f} ms ({mean(waits, 900):.0f} ms), {mean(costs, 900) / mean(costs, 100):.2f} x, "
        f"beside the yardstick {risen:.2f} x; {files} files"
    )
    assert seen(place.rows(SHAPE)) == expected(log)
    assert risen <= 1.2
