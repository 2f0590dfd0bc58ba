"""`eventide demo`: late payments on a local Spark, corrected in SQLite, and where every row went."""

from __future__ import annotations

import shutil
import sqlite3
import warnings
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from eventide.cli.run import watch
from eventide.cli.tables import indented, table
from eventide.errors import LossWarning
from eventide.model.time import show_duration
from eventide.testing.recipes import SECOND, CurveRow, completeness_curve, delayed_stream

BOUNDS = (0, 2, 5, 10, 20, 40)
BUDGET, LEAST = 12 * SECOND, 0.9


@click.command()
@click.option("--directory", default="demo", show_default=True, help="Where the demo keeps its files.")
@click.option("--rows", default=600_000, show_default=True, help="How many payments.")
def demo(directory: str, rows: int) -> None:
    """An hour of payments with late data through a real pipeline on this machine: Spark, files, SQLite."""
    console = Console(highlight=False)
    root = Path(directory)
    shutil.rmtree(root, ignore_errors=True)
    payments(console, root, rows)
    waiting(console)


def payments(console: Console, root: Path, rows: int) -> None:
    """The pipeline itself, then what it says."""
    from eventide.testing.diwali import night_before, write_landing

    start = night_before(datetime.now(UTC))
    console.print(f"\n[bold]An hour of payments, four cities[/bold]   {rows:,} payments, written to {root}/landing")
    late = write_landing(root / "landing", start, rows=rows)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LossWarning)  # the demo allows twenty minutes on purpose
        described = pipeline(root)
    watch(lambda: described, console, until_caught_up=True, drain=True)
    held = start + timedelta(minutes=30)
    console.print(f"\n[bold]The minute that Lucknow held back[/bold]   {held:%H:%M}, {late:,} payments came 16 minutes late\n")
    console.print(indented(corrections(root, held)))
    console.print(
        f"\n  look into it     sqlite3 {root}/upi.db .tables"
        "\n  make it yours    examples/payments.py, then: eventide run examples/payments.py\n"
    )


def pipeline(root: Path) -> Any:
    """What the demo runs; examples/payments.py is the same, to edit."""
    import eventide as ev
    from eventide.testing.diwali import SCHEMA

    paid = ev.files(
        "payments",
        str(root / "landing"),
        schema=SCHEMA,
        event_time="event_time",
        arrival="arrived_at",
        lane="directory",
        files_per_batch=12,
        watermark=ev.bounded("30 seconds"),
    )
    minutes = paid.window(ev.tumbling("1 minute"), by="bank").agg(total=ev.sum("paise"), n=ev.count())
    late = ev.divert(ev.parquet(str(root / "late")))
    return ev.Pipeline(
        "upi-minutes",
        minutes.to("dashboard", ev.sqlite(str(root / "upi.db")), late=ev.drop()),
        minutes.to("totals", ev.sqlite(str(root / "upi.db")), late=ev.retract("20 minutes", refused=late)),
        state=str(root / "state"),
    )


def corrections(root: Path, held: datetime) -> Table:
    """What both outputs say of a minute: the one that never moves, and the one that was corrected."""
    said = table("output", "rupees", "payments", "late policy")
    with sqlite3.connect(root / "upi.db") as base:
        for name, says in (
            ("dashboard", "drop()"),
            ("totals", "retract(20 minutes)"),
        ):
            total, count, corrected = base.execute(
                f"select sum(total), sum(n), sum(sequence > 0) from {name} where window_start like ?",  # noqa: S608
                (f"{held:%Y-%m-%d %H:%M}:00%",),
            ).fetchone()
            said.add_row(
                name, rupees(total or 0), f"{count or 0:,}", says + (f", {corrected} banks corrected" if corrected else "")
            )
    base.close()
    return said


def waiting(console: Console) -> None:
    """What a longer wait would have bought, from the reference engine."""
    stream = delayed_stream()
    console.print("[bold]What waiting buys[/bold]   20,000 events, 6 s late on average, 10-second windows\n")
    curve = completeness_curve(stream, [bound * SECOND for bound in BOUNDS], 10 * SECOND)
    console.print(indented(curve_table(curve)))
    console.print(choice(curve) + "\n")


def curve_table(rows: Sequence[CurveRow]) -> Table:
    """One line for each watermark bound."""
    said = table("watermark behind by", "complete", "refused", "results come after")
    for row in rows:
        said.add_row(show_duration(row.bound), f"{row.completeness:.2%}", f"{row.refused:,}", seconds(row.emit_latency))
    return said


def choice(rows: Sequence[CurveRow]) -> str:
    """Which bound a budget leaves."""
    fits = [row for row in rows if row.emit_latency <= BUDGET and row.completeness >= LEAST]
    if not fits:
        return f"\n  results within {show_duration(BUDGET)} and {LEAST:.0%} complete: no bound of these does both"
    return f"\n  results within {show_duration(BUDGET)} and {LEAST:.0%} complete: wait {show_duration(fits[0].bound)}"


def rupees(paise: int) -> str:
    """Money as India writes it: lakhs and crores in groups of two.

    >>> rupees(14554782), rupees(1234567800), rupees(50)
    ('₹1,45,547.82', '₹1,23,45,678.00', '₹0.50')
    """
    whole, rest = divmod(abs(paise), 100)
    digits = str(whole)
    head, tail = digits[:-3], digits[-3:]
    groups = [head[max(0, end - 2) : end] for end in range(len(head), 0, -2)][::-1]
    return ("-" if paise < 0 else "") + "₹" + ",".join([*groups, tail]) + f".{rest:02}"


def seconds(span: float) -> str:
    """A measured span in seconds."""
    return f"{span / SECOND:.2f} s"
