"""`eventide demo`: what late rows do to a total under three policies, and what waiting for them costs."""

from __future__ import annotations

from collections.abc import Sequence

import click
from rich.console import Console
from rich.padding import Padding
from rich.table import Table

from eventide.model.policy import accumulate, divert, drop
from eventide.model.time import show_duration
from eventide.testing.recipes import (
    SECOND,
    CurveRow,
    PolicyRow,
    compare_policies,
    completeness_curve,
    delayed_stream,
    upi_payments,
)

BOUNDS = (0, 2, 5, 10, 20, 40)
ALLOWANCES = (0, 5, 15, 30)
BUDGET, LEAST = 12 * SECOND, 0.9


@click.command()
def demo() -> None:
    """Late data in two small examples, answered by the reference engine (no Spark needed)."""
    console = Console(highlight=False)
    payments = upi_payments()
    arrived = sum(event.row["paise"] for event in payments)
    policies = compare_policies(payments, [drop(), accumulate("5 minutes"), divert()], 30 * SECOND, 60 * SECOND)
    console.print(
        f"\n[bold]Where late money goes[/bold]\n  {len(payments)} payments worth {rupees(arrived)}, 1-minute windows, "
        "watermark 30 s behind\n"
    )
    console.print(_indented(policy_table(policies)))
    console.print(conservation(policies, arrived))
    stream = delayed_stream()
    console.print(
        f"\n[bold]What waiting buys[/bold]\n  {len(stream):,} events delayed by 6 s on average and 25 s at most, "
        "10-second windows\n"
    )
    curve = completeness_curve(stream, [bound * SECOND for bound in BOUNDS], 10 * SECOND)
    console.print(_indented(curve_table(curve)))
    console.print(choice(curve))
    console.print("\n[bold]The same completeness without the wait[/bold]")
    console.print("  watermark 5 s behind, late rows admitted for a while longer\n")
    late = completeness_curve(stream, [5 * SECOND], 10 * SECOND, [allowed * SECOND for allowed in ALLOWANCES])
    console.print(_indented(lateness_table(late)))
    console.print()


def policy_table(rows: Sequence[PolicyRow]) -> Table:
    """One line for each late policy."""
    table = _table("late policy", "results", "side stream", "dropped", "late rows")
    for row in rows:
        fates = [(row.merged, "merged"), (row.diverted, "diverted"), (row.dropped, "lost")]
        table.add_row(
            row.policy,
            rupees(row.main),
            rupees(row.side) if row.side else "–",
            rupees(row.dropped_value) if row.dropped else "–",
            ", ".join(f"{number} {fate}" for number, fate in fates if number),
        )
    return table


def conservation(rows: Sequence[PolicyRow], arrived: int) -> str:
    """The law, checked on the numbers above."""
    kept = all(row.total == arrived for row in rows)
    sign = "[green]✓[/green]" if kept else "[red]✗ the law is broken[/red]"
    return f"\n  results + side stream + dropped = {rupees(arrived)} arrived, under each policy {sign}"


def curve_table(rows: Sequence[CurveRow]) -> Table:
    """One line for each watermark bound."""
    table = _table("watermark behind by", "complete", "refused", "results come after")
    for row in rows:
        table.add_row(show_duration(row.bound), f"{row.completeness:.2%}", f"{row.refused:,}", seconds(row.emit_latency))
    return table


def choice(rows: Sequence[CurveRow]) -> str:
    """Which bound a budget leaves."""
    fits = [row for row in rows if row.emit_latency <= BUDGET and row.completeness >= LEAST]
    if not fits:
        return f"\n  results within {show_duration(BUDGET)} and {LEAST:.0%} complete: no bound of these does both"
    return f"\n  results within {show_duration(BUDGET)} and {LEAST:.0%} complete: wait {show_duration(fits[0].bound)}"


def lateness_table(rows: Sequence[CurveRow]) -> Table:
    """One line for each allowed lateness."""
    table = _table("allowed lateness", "on time", "admitted", "diverted", "complete", "first result")
    for row in rows:
        table.add_row(
            show_duration(row.allowed),
            f"{row.on_time:,}",
            f"{row.admitted:,}",
            f"{row.refused:,}",
            f"{row.completeness:.2%}",
            seconds(row.emit_latency),
        )
    return table


def _table(*headings: str) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for index, heading in enumerate(headings):
        table.add_column(heading, justify="right" if index else "left", no_wrap=True)
    return table


def _indented(table: Table) -> Padding:
    return Padding(table, (0, 0, 0, 2))


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
