"""The examples: each prints what its README shows, and that is what the oracle says of its rows."""

from __future__ import annotations

import importlib
import os
import sys
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import ModuleType
from typing import Any

import polars as pl
import pytest

import eventide as ev
from eventide.cli import demo
from eventide.lateness import bias
from eventide.testing import Answers, answers
from eventide.testing.diwali import CITIES, write_landing
from tests.test_examples import EXAMPLES, printed, shown

OWN = ("data", "pipeline", "plane", "landing", "shop", "rollout")
"""What every example calls its modules."""


@contextmanager
def apart(name: str) -> Iterator[None]:
    """The modules of one example, forgotten before and after."""
    paths, here = sys.path[:], os.getcwd()
    for module in OWN:
        sys.modules.pop(module, None)
    sys.path[:0] = [str(EXAMPLES / name), str(EXAMPLES)]
    try:
        yield
    finally:
        sys.path[:] = paths
        os.chdir(here)
        for module in OWN:
            sys.modules.pop(module, None)


def parts(name: str) -> tuple[ModuleType, Any]:
    """Its data, and its pipeline where that needs nothing that runs."""
    with apart(name):
        return importlib.import_module("data"), getattr(importlib.import_module("pipeline"), "pipeline", None)


def moment(data: ModuleType, seconds: float) -> Any:
    return data.START + timedelta(microseconds=round(seconds * 1e6))


def verdicts(said: Answers, output: str) -> str:
    names = (("on_time", "on time"), ("admitted", "admitted late"), ("refused", "dropped"))
    return " + ".join(f"{said.counts(output)[key]:,} {word}" for key, word in names if said.counts(output).get(key))


@pytest.mark.parametrize("name", sorted(path.parent.name for path in EXAMPLES.glob("*/__main__.py")))
def test_each_example_has_its_command_and_its_picture_in_its_readme(name: str) -> None:
    readme = (EXAMPLES / name / "README.md").read_text()
    assert f"    python examples/{name}\n" in readme
    if name != "orders_and_payments":
        assert "](plane.png)" in readme and 10_000 < (EXAMPLES / name / "plane.png").stat().st_size < 200_000


def test_the_readme_of_conjunction_alerts_shows_what_the_oracle_says() -> None:
    data, pipeline = parts("conjunction_alerts")
    rows = {
        sensor: [
            {"seen_at": moment(data, at), "arrived_at": moment(data, came), "object": name, "metres": metres, "sensor": sensor}
            for at, came, name, metres in seen
        ]
        for sensor, seen in data.happenings().items()
    }
    said = answers(pipeline, rows)
    first = [pane for pane in said.panes("alerts") if pane["sequence"] == 0 and pane["op"] == "insert"]
    stands = {(row["window_start"], row["object"]) for row in said.table("alerts")}
    assert 0 < len(stands) < len(first)
    lines = [f"{sum(map(len, rows.values())):,} observations in, all accounted for"]
    lines += [f"  {name:<18} {verdicts(said, name)}" for name in ("events_per_minute", "risk_summary", "alerts")]
    lines += [f"alerts  {len(first)} said, {len(first) - len(stands)} withdrawn"]
    for row in sorted(first, key=lambda row: (row["window_start"], row["object"])):
        became = "stands" if (row["window_start"], row["object"]) in stands else "withdrawn: what came late says otherwise"
        line = f"  {row['window_start']:%H:%M:%S}  {row['object']}  {row['metres']:,.0f} m by {row['n']} observations  {became}"
        lines.append(line)
    assert shown("conjunction_alerts") == lines


def test_the_readme_of_diwali_night_shows_what_the_oracle_says() -> None:
    data, pipeline = parts("diwali_night")
    night = sorted((row[1], city, row) for city, rows in data.happenings().items() for row in rows)
    rows = [
        {"paid_at": moment(data, at), "arrived_at": moment(data, came), "paise": paise, "_lane": city}
        for _, city, (at, came, paise) in night
    ]
    said = answers(pipeline, rows)
    arrived = sum(row["paise"] for row in rows)
    total = {name: sum(row["paise"] for row in said.table(name)) for name in ("wall", "live", "upi_minute")}
    aside = sum(row["paise"] for row in said.late("upi_minute"))
    assert total["upi_minute"] + aside == arrived
    complete = sum(row["paise"] for row in rows if moment(data, 1800) <= row["paid_at"] < moment(data, 1860))
    corrected = {row["paid_at"].replace(second=0, microsecond=0) for row in said.late("upi_minute")}

    def minute(name: str) -> int:
        return next(row["paise"] for row in said.table(name) if row["window_start"] == moment(data, 1800))

    def rupees(paise: int) -> str:
        return f"₹{paise / 100:,.2f}" if paise else "–"

    def line(name: str, policy: str, beside: int, dropped: int) -> str:
        money = f"{rupees(total[name]):>16}{rupees(beside):>14}{dropped:>9,}{rupees(minute(name)):>15}"
        return f"  {name:<11}{policy:<13}{money}"

    lines = [
        f"{len(rows):,} payments in, {rupees(arrived)} arrived",
        f"  {'policy':<24}{'in the results':>16}{'beside':>14}{'dropped':>9}{'19:30 says':>15}",
        line("wall", "drop", 0, said.counts("wall")["refused"]),
        line("live", "accumulate", 0, said.counts("live").get("refused", 0)),
        line("upi_minute", "divert", aside, 0),
        f"the night's reconciliation: {len(corrected)} minutes corrected, in upi_minute_corrections",
        f"  the CFO reads upi_minute_corrected: {rupees(arrived)}, of which 19:30 is {rupees(complete)}",
    ]
    assert shown("diwali_night") == lines


def test_the_readme_of_clicks_for_a_model_shows_what_the_oracle_says() -> None:
    data, pipeline = parts("clicks_for_a_model")
    rows = [
        {"clicked_at": moment(data, at), "arrived_at": moment(data, came), "user": user, "device": device}
        for at, came, user, device in data.happenings()
    ]
    said = answers(pipeline, rows)
    total = Counter(row["device"] for row in rows)
    served, trained = Counter[str](), Counter[str]()
    for counted, output in ((served, "serving"), (trained, "training")):
        for row in said.table(output):
            counted[row["device"]] += row["clicks"]
    biased = {one.value for one in bias({d: (n - served[d], n) for d, n in total.items()}) if one.flagged}
    assert biased == {"phone"}
    lines = [f"{len(rows):,} clicks in, all accounted for"]
    for name, beside in (("serving", "put aside"), ("training", "dropped")):
        on_time, admitted, refused = (said.counts(name).get(key, 0) for key in ("on_time", "admitted", "refused"))
        lines.append(f"  {name:<9}{on_time:,} on time, {admitted:,} admitted late, {refused:,} {beside}")
    lines.append(f"  {'device':<9}{'clicks':>7}{'served without':>16}{'trained without':>17}")
    for device, n in sorted(total.items()):
        flag = "  loses more than the others" if device in biased else ""
        lines.append(f"  {device:<9}{n:>7,}{1 - served[device] / n:>16.1%}{1 - trained[device] / n:>17.1%}{flag}")
    assert shown("clicks_for_a_model") == lines


def checkouts() -> tuple[ModuleType, Any, Any, list[dict[str, Any]]]:
    """The data of the example, what makes its output, its stream as files, and its rows with what the pipeline makes of their price."""
    with apart("checkout_revenue"):
        data, revenue = importlib.import_module("data"), importlib.import_module("pipeline").revenue
    columns = "checked_out_at timestamp, received_at timestamp, cents bigint"
    waits = {"watermark": ev.bounded("60 seconds"), "event_time": "checked_out_at", "arrival": "received_at"}
    rows = [
        {"checked_out_at": moment(data, at), "received_at": moment(data, came), "cents": base + surge + tax}
        for at, came, base, surge, tax in data.happenings()
    ]
    return data, revenue, ev.files("checkouts", "landing", schema=columns, **waits), rows


def rollout_of(data: ModuleType) -> list[str]:
    """What the change of the schema says, by what the shop sold in each phase."""
    sold = {phase: len(data.received_in(phase)) for phase in data.PHASES}
    assert sum(sold.values()) == len(data.happenings())
    between = {
        "expand": [
            "without fare_cents? This schema drops fare_cents, the old shape of migration 'pricing', which is in expand."
        ],
        "dual_write": [f"both shapes: {sold['dual_write']:,} agree, 0 differ"],
        "migrate": [
            "may fare_cents go? no: 1 of 2 consumers block: dashboard (reads the old shape)",
            "dashboard now selects pricing.base; may it go? yes",
        ],
    }
    lines = ["fare_cents becomes pricing, while the pipeline runs"]
    for phase, n in sold.items():
        lines.append(f"  {phase:<12}{n:>6,} checkouts with {' and '.join(data.SHAPES[phase])}")
        lines += [f"{'':14}{text}" for text in between.get(phase, [])]
    return lines


def test_the_readme_of_checkout_revenue_shows_what_the_oracle_says() -> None:
    data, revenue, source, rows = checkouts()
    said = answers(ev.Pipeline("checkout_revenue", revenue(source)), rows)
    table, late, counts = said.table("revenue"), said.late("revenue"), said.counts("revenue")
    streamed, tail, whole = (sum(row["cents"] for row in some) for some in (table, late, rows))
    assert streamed + tail == whole and f"{tail / whole:.1%}" == "1.6%"
    corrected = {row["checked_out_at"].replace(second=0, microsecond=0) for row in late}

    def line(word: str, n: int, cents: int) -> str:
        dollars = f"${cents / 100:,.2f}"
        return f"  {word:<24}{n:>7,} checkouts {dollars:>14}"

    lines = [
        *rollout_of(data),
        f"{len(rows):,} checkouts in, 0 of them unreadable, all accounted for",
        f"  revenue    {counts['on_time']:,} on time + {counts['admitted']:,} admitted late + {counts['refused']:,} kept in late",
        f"the gap: the stream is {tail / whole:.1%} below the batch",
        line("the stream says", sum(row["n"] for row in table), streamed),
        line("came too late for it", len(late), tail),
        line("unexplained", 0, 0),
        line("the night's batch says", len(rows), whole),
        f"closed: {len(corrected)} minutes have a correction beside them",
        line("revenue_corrected says", len(rows), whole),
    ]
    assert shown("checkout_revenue") == lines


def test_four_hours_would_lose_no_checkout_and_keep_the_minutes_that_the_readme_says() -> None:
    readme = (EXAMPLES / "checkout_revenue" / "README.md").read_text()
    assert "four hours would let every checkout in, and keep 241 minutes instead of 61" in readme
    _, revenue, source, rows = checkouts()
    with pytest.warns(ev.LossWarning, match="keeps 61 times the state"):
        minutes = revenue(source).aggregation
    with pytest.warns(ev.LossWarning, match="keeps 241 times the state"):
        patient = minutes.to("revenue", late=ev.accumulate("4 hours"))
    assert "refused" not in answers(ev.Pipeline("checkout_revenue", patient), rows).counts("revenue")


def flights_said(days: int) -> list[str]:
    """What the example should print of so many days."""
    data, pipeline = parts("flights")
    rows = [
        {"scheduled": at, "departed": came, "origin": origin, "_lane": origin}
        for at, came, origin, _ in data.happenings(days).iter_rows()
    ]
    lines = ["what waiting buys      on time  too late"]
    for bound in (0, 10, 30, 60, 120, 240):
        waits = replace(pipeline.sources[0], watermark=ev.bounded(f"{bound} minutes") if bound else ev.ascending())
        hours = waits.window(ev.tumbling("1 hour"), by="origin").agg(n=ev.count())
        counts = answers(ev.Pipeline("waits", hours.to("board", late=ev.drop())), rows).counts("board")
        lines.append(f"  behind by {bound:>3} min  {counts['on_time'] / len(rows):>9.2%}{counts.get('refused', 0):>10,}")
    said = answers(pipeline, rows)
    lines.append(f"{len(rows):,} departures in, all accounted for")
    for name, policy in (("board", "drop()"), ("corrected", "accumulate(3 h)"), ("aside", "divert(late)")):
        counts, counted = said.counts(name), sum(row["n"] for row in said.table(name))
        lost = f"{counts.get('refused', 0):>7,} {'kept in late' if name == 'aside' else 'lost'}"
        lines.append(f"  {name:<10} {policy:<16}{counted:>9,} counted, {counts.get('admitted', 0):>7,} of them late, {lost}")
    return lines


RUN = [
    "conjunction_alerts",
    *(pytest.param(name, marks=pytest.mark.soak) for name in ("diwali_night", "clicks_for_a_model", "checkout_revenue")),
    pytest.param("flights", marks=[pytest.mark.soak, pytest.mark.timeout(3600)]),
]
"""One in every test run, all of them by `make soak-examples`: each starts a Spark of its own, in a directory of its own."""


@pytest.mark.parametrize("name", RUN)
def test_the_command_prints_what_the_readme_shows(name: str, tmp_path: Path) -> None:
    assert printed(name, tmp_path / "it") == shown(name)
    assert 10_000 < (tmp_path / "it" / "plane.png").stat().st_size < 200_000


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_a_year_of_flights_is_what_the_oracle_says() -> None:
    assert shown("flights") == flights_said(366)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_the_demo_in_the_readme_is_what_the_oracle_says(tmp_path: Path) -> None:
    begin = datetime(2026, 11, 8, 18, 0, tzinfo=UTC)
    held = write_landing(tmp_path / "landing", begin)
    parquet = {city: pl.read_parquet(tmp_path / "landing" / city / "*.parquet") for city in CITIES}
    night = pl.concat([frame.with_columns(_lane=pl.lit(city)) for city, frame in parquet.items()])
    rows = night.sort("arrived_at", "_lane", maintain_order=True).to_dicts()
    with warnings.catch_warnings(action="ignore"):
        said = answers(demo.pipeline(tmp_path), rows)
    minute = begin + timedelta(minutes=30)
    banks = {name: [row for row in said.table(name) if row["window_start"] == minute] for name in ("dashboard", "totals")}
    rupees = {name: demo.rupees(sum(row["total"] for row in found)) for name, found in banks.items()}
    payments = {name: sum(row["n"] for row in found) for name, found in banks.items()}
    corrected = sum(
        pane["op"] == "insert" and pane["sequence"] == 1 and pane["window_start"] == minute for pane in said.panes("totals")
    )
    shown = (EXAMPLES.parent / "README.md").read_text()
    for line in (
        f"Where every row went   {len(rows):,} in",
        f"  dashboard  {verdicts(said, 'dashboard')}  ✓",
        f"  totals     {verdicts(said, 'totals')}  ✓",
        f"The minute that Lucknow held back   {held:,} payments came 16 minutes late",
        f"  dashboard  {rupees['dashboard']}     {payments['dashboard']:,} ",
        f"  totals     {rupees['totals']}     {payments['totals']:,}  retract(20 minutes), {corrected} banks corrected",
    ):
        assert f"    {line}" in shown, line
