"""Random pane logs, and the table that each must end in."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa

from eventide.sinks import Delivery, PaneShape

BASE = 1_750_000_000_000_000
MINUTE = 60_000_000
SHAPE = PaneShape(keys=(("bank", pa.string()),), values=(("total", pa.int64()), ("n", pa.int64())))
DELTAS = PaneShape(
    keys=SHAPE.keys,
    values=(("total", pa.int64()), ("least", pa.int64()), ("most", pa.int64())),
    accumulation="discarding",
    additive=(("least", "min"), ("most", "max")),
)
Pane = dict[str, Any]


def pane(window: str, sequence: int, op: str = "insert", generation: int = 0, slot: int = 0, **values: Any) -> Pane:
    """One pane; the window's bounds follow from its slot."""
    return {
        "window_id": window,
        "window_start": BASE + slot * MINUTE,
        "window_end": BASE + (slot + 1) * MINUTE,
        "bank": f"bank {slot % 7}",
        **values,
        "sequence": sequence,
        "op": op,
        "timing": "late" if sequence else "on_time",
        "generation": generation,
        "emitted_at": BASE + sequence,
    }


def batch(panes: list[Pane], shape: PaneShape = SHAPE) -> list[pa.RecordBatch]:
    """Panes as a sink gets them."""
    return [pa.RecordBatch.from_pylist(panes, schema=shape.schema)] if panes else []


def delivery(output: str, number: int, watermark: int | None = None) -> Delivery:
    return Delivery("test", output, number, BASE + number, watermark)


def random_log(number: int, seed: int = 7) -> list[Pane]:
    """The panes of some windows: corrections, withdrawals, sessions merged away, second generations."""
    draw = random.Random(f"{seed}/{number}")
    panes: list[Pane] = []
    for w in range(draw.randint(1, 4)):
        window, slot = f"log {number} window {w}", number * 4 + w
        for generation in range(draw.choice([1, 1, 1, 2])):
            retracts = draw.random() < 0.6
            last = draw.randint(0, 3)
            for sequence in range(last + 1):
                values = {"total": draw.randint(-(10**12), 10**12), "n": draw.randint(0, 99)}
                panes.append(pane(window, sequence, "insert", generation, slot, **values))
                if retracts and (sequence < last or draw.random() < 0.4):
                    panes.append(pane(window, sequence, "retract", generation, slot, **values))
    return panes


def random_deltas(number: int, seed: int = 7) -> list[Pane]:
    """Deltas of some windows, over one or two generations."""
    draw = random.Random(f"{seed}/{number}")
    panes = []
    for w in range(draw.randint(1, 3)):
        for generation in range(draw.choice([1, 1, 2])):
            for sequence in range(draw.randint(1, 4)):
                values = {name: draw.randint(-(10**9), 10**9) for name in DELTAS.value_names}
                panes.append(pane(f"log {number} window {w}", sequence, "insert", generation, number * 3 + w, **values))
    return panes


def expected(panes: list[Pane]) -> dict[str, tuple[Any, ...]]:
    """The table, by the definition of rank, one window at a time."""
    best: dict[str, Pane] = {}
    for p in panes:
        old = best.get(p["window_id"])
        if old is None or rank(p) > rank(old):
            best[p["window_id"]] = p
    return {w: (p["bank"], p["total"], p["n"], p["sequence"], p["generation"]) for w, p in best.items() if p["op"] == "insert"}


def expected_sums(panes: list[Pane]) -> dict[str, tuple[Any, ...]]:
    """The table that a view of deltas shows."""
    sums = {}
    for window in {p["window_id"] for p in panes}:
        mine = [p for p in panes if p["window_id"] == window]
        newest = max(p["generation"] for p in mine)
        mine = list({p["sequence"]: p for p in mine if p["generation"] == newest}.values())
        total, least, most = ([p[name] for p in mine] for name in DELTAS.value_names)
        sums[window] = (mine[0]["bank"], sum(total), min(least), max(most), max(p["sequence"] for p in mine), newest)
    return sums


def rank(p: Pane) -> tuple[int, int, bool]:
    return (p["generation"], p["sequence"], p["op"] == "retract")


def seen(rows: list[dict[str, Any]], shape: PaneShape = SHAPE) -> dict[str, tuple[Any, ...]]:
    """A reader's rows in the form of `expected`; a window must not come twice."""
    columns = ["bank", *shape.value_names, "sequence", "generation"]
    table = {row["window_id"]: tuple(row[name] for name in columns) for row in rows}
    assert len(table) == len(rows), "a window came twice"
    return table


def disturbed(panes: list[Pane], seed: int, copies: int = 2, cuts: int = 6) -> list[list[Pane]]:
    """Every pane at least once, some twice, in any order, cut into deliveries."""
    draw = random.Random(seed)
    log = [p for p in panes for _ in range(draw.randint(1, copies))]
    draw.shuffle(log)
    edges = sorted(draw.randint(0, len(log)) for _ in range(cuts - 1))
    return [log[a:b] for a, b in zip([0, *edges], [*edges, len(log)], strict=True)]
