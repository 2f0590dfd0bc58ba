"""What a benchmark found, written down: ratios first, then seconds, the answers, the machine; and a plot."""

from __future__ import annotations

import json
import os
import platform
import statistics
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

HEAD = "| case | engine | by time, steady | bar | whole run | by CPU | cold |\n|---|---|---|---|---|---|---|"


def shown(name: str, found: dict[str, Any]) -> list[str]:
    """A case for the terminal."""
    lines = [f"{name}:"]
    for engine, facts in found["engines"].items():
        runs = facts["warm"]
        seconds = ", ".join(f"{run['seconds']:.2f}" for run in runs)
        spent = statistics.median(run["cpu"] for run in runs)
        lines.append(f"  {engine:14} {seconds} s, {spent:.1f} CPU s, cold {facts['cold']:.1f} s; {facts['answers']}")
    for engine, ratio in found["ratios"].items():
        lines.append(f"  {engine:14} " + ", ".join(f"{what} {number:.2f}x" for what, number in ratio.items()))
    return lines


def machine() -> list[str]:
    """What it ran on."""
    model = next(
        (line.split(":")[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line), "?"
    )
    memory = next(line.split()[1] for line in Path("/proc/meminfo").read_text().splitlines() if line.startswith("MemTotal"))
    import pyarrow
    import pyspark
    from polars import __version__ as polars

    load = ", ".join(f"{number:.1f}" for number in os.getloadavg())
    return [
        f"- {len(os.sched_getaffinity(0))} cores of {model}, {int(memory) // 1024**2} GB; load average {load} at the end",
        f"- Python {platform.python_version()}, PySpark {pyspark.__version__}, Polars {polars}, PyArrow {pyarrow.__version__}",
    ]


def write_results(directory: Path, report: dict[str, Any], rows: int, rounds: int) -> None:
    """A page, the numbers behind it, and a plot, by the day; cases that were measured apart on one day stand together."""
    directory.mkdir(parents=True, exist_ok=True)
    day = f"{datetime.now(UTC):%Y-%m-%d}"
    numbers = directory / f"{day}.json"
    before = json.loads(numbers.read_text()) if numbers.exists() else {}
    report = before | {name: {"rows": rows, "rounds": rounds, **found} for name, found in report.items()}
    lines = [f"# {day}", "", "How many times as fast as the first engine of its case; medians of the rounds.", "", HEAD]
    for name, found in report.items():
        for (engine, ratio), bar in zip(found["ratios"].items(), found["bars"], strict=True):
            told = " | ".join(f"{ratio[what]:.2f}" for what in ("seconds", "cpu", "cold"))
            lines.append(f"| {name} | {engine} | **{ratio['steady']:.2f}** | {bar:.2g} | {told} |")
    lines += ["", f"![the ratios]({day}.png)", "", "## Seconds and answers", ""]
    for name, found in report.items():
        lines += [f"{found['rows']:,} rows, rounds: {found['rounds']}", "", *(f"    {line}" for line in shown(name, found)), ""]
    lines += ["## Machine", "", *machine(), ""]
    (directory / f"{day}.md").write_text("\n".join(lines))
    numbers.write_text(json.dumps(report, indent=1) + "\n")
    plot(directory / f"{day}.png", report)


def plot(path: Path, report: dict[str, Any]) -> None:
    """The ratios as bars, each with the mark that it should reach."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    told = [
        (f"{name} {engine}", ratio["steady"], bar)
        for name, found in report.items()
        for (engine, ratio), bar in zip(found["ratios"].items(), found["bars"], strict=True)
    ]
    figure, axes = pyplot.subplots(figsize=(9, 0.4 * len(told) + 1), layout="constrained")
    places = range(len(told))
    axes.barh(places, [ratio for _, ratio, _ in told], color=["#2a7" if ratio >= bar else "#c75" for _, ratio, bar in told])
    axes.scatter([bar for *_, bar in told], places, marker="|", s=200, color="black", label="asked for")
    axes.set_yticks(places, [name for name, *_ in told])
    axes.set_xscale("log")
    axes.invert_yaxis()
    axes.set_xlabel("times as fast as the first engine of the case")
    axes.legend()
    figure.savefig(path, dpi=100, metadata={"Software": None})
