"""Each example by its one command: it prints what its README shows, and that is what the oracle says."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from eventide.model.event import Event
from eventide.model.graph import LEFT, Between, Graph, Join, Reading, Rows
from eventide.model.oracle import Oracle
from eventide.model.plan import OutputPlan, SourcePlan
from eventide.model.watermark import Bounded

EXAMPLES = Path(__file__).parents[1] / "examples"
SECOND = 1_000_000


def printed(name: str, where: Path) -> list[str]:
    """What the example prints, run as its README says."""
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name), str(where)], capture_output=True, text=True, timeout=300, check=True
    )
    return done.stdout.splitlines()


def shown(name: str) -> list[str]:
    """What its README says that it prints: the last indented lines."""
    lines = (EXAMPLES / name / "README.md").read_text().splitlines()
    indented = [number for number, line in enumerate(lines) if line.startswith("    ")]
    first = next(n for n in reversed(indented) if n - 1 not in indented)
    return [line[4:] for line in lines[first:] if line.startswith("    ")]


def made_by(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"data_of_{name}", EXAMPLES / name / "data.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def orders_and_payments() -> dict[str, int]:
    """The hour, one event at a time."""
    sides: list[list[Any]] = [*made_by("orders_and_payments").happenings()]
    columns = [(("order_id", "string"), (name, "string")) for name in ("rupees", "bank")]
    join = Join("pairs", "orders", "payments", (("order_id", "order_id"),), Between(0, 600 * SECOND), LEFT, 1200 * SECOND)
    graph = Graph(
        (SourcePlan(Bounded(10 * SECOND), ("0",)), SourcePlan(Bounded(30 * SECOND), ("0",))),
        (Rows("orders", (0,), columns[0]), Rows("payments", (1,), columns[1]), join),
        (Reading("pairs", OutputPlan("paid", 1200 * SECOND)),),
    )
    events = [
        Event(round(came * 1e6), round(at * 1e6), None, {"order_id": order, columns[side][1][0]: value}, side, "0", offset)
        for side, rows in enumerate(sides)
        for offset, (at, came, order, value) in enumerate(rows)
    ]
    oracle = Oracle(graph)
    for event in sorted(events, key=lambda e: e.position):
        oracle.event(event)
    oracle.drain()
    null = [p for p in oracle.panes if p.values["bank"] is None]
    inserted, gone = ([p for p in null if p.op == op] for op in ("insert", "retract"))
    return {
        "in": len(events), "said": len(inserted), "back": len(gone), "unpaid": len(inserted) - len(gone),
        "paid": len(oracle.panes) - len(null), "late": len(oracle.late),
        "rupees": sum(p.values["rupees"] for p in inserted) - sum(p.values["rupees"] for p in gone),
    }  # fmt: skip


def test_orders_and_payments(tmp_path: Path) -> None:
    said = orders_and_payments()
    assert said["back"] > 0 and said["late"] > 0
    assert printed("orders_and_payments", tmp_path / "it") == shown("orders_and_payments") == [
        f"{said['in']:,} orders and payments in, all accounted for",
        f"  said to be unpaid, at some time   {said['said']:>6,}",
        f"  taken back when the gateway came  {said['back']:>6,}",
        f"  unpaid in the end                 {said['unpaid']:>6,}   ₹{said['rupees']:,}",
        f"  paid                              {said['paid']:>6,}",
        f"  too late for twenty minutes       {said['late']:>6,}   kept in paid_late",
    ]  # fmt: skip
