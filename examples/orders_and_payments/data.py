"""An hour of orders and their payments; a gateway loses its line for ten minutes and hands its payments in when it is back."""

import os
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path

import polars as pl

START = datetime(2026, 11, 8, 18, 0, tzinfo=UTC)
ORDERS, FILES = 2_000, 12
OFFLINE = (20 * 60, 30 * 60)
"""Seconds after the start between which the gateway has no line."""
BACK = 46 * 60
BANKS = ("hdfc", "icici", "sbi", "lucknow gateway")

Row = tuple[float, float, str, object]


def happenings(seed: int = 8) -> tuple[list[Row], list[Row]]:
    """Orders and payments: when each happened and when it arrived (in seconds after the start), of which order, and how much or by whom."""
    rng, orders, payments = random.Random(seed), list[Row](), list[Row]()
    for number in range(ORDERS):
        at, name = rng.uniform(0, 3600), f"order-{number:04d}"
        orders.append((at, at + rng.uniform(0, 5), name, rng.randrange(50, 5_000)))
        if rng.random() < 0.12:
            continue  # nobody pays it
        paid, bank = at + rng.uniform(5, 500), rng.choice(BANKS)
        held = bank == BANKS[-1] and OFFLINE[0] <= paid < OFFLINE[1]
        arrives = BACK + rng.uniform(0, 60) if held else paid + rng.uniform(0, 20)
        payments.append((paid, arrives, name, bank))
    return sorted(orders, key=lambda row: row[1]), sorted(payments, key=lambda row: row[1])


def write(landing: Path) -> None:
    """Both as Parquet files, in the order of arrival, as a job that collects them every five minutes would write them."""
    for name, time, value, rows in zip(
        ("orders", "payments"), ("ordered_at", "paid_at"), ("rupees", "bank"), happenings(), strict=True
    ):
        (landing / name).mkdir(parents=True)
        until = max(row[1] for row in rows) + 1
        for part in range(FILES):
            own = [row for row in rows if part * until / FILES <= row[1] < (part + 1) * until / FILES]
            columns = {
                time: [moment(row[0]) for row in own],
                "arrived_at": [moment(row[1]) for row in own],
                "order_id": [row[2] for row in own],
                value: [row[3] for row in own],
            }
            path = landing / name / f"{part:02d}.parquet"
            pl.DataFrame(columns).write_parquet(path)
            written = (START + timedelta(seconds=(part + 1) * until / FILES)).timestamp()
            os.utime(path, (written, written))


def moment(seconds: float) -> datetime:
    """An instant of the hour."""
    return START + timedelta(microseconds=round(seconds * 1e6))
