"""A state as Prometheus reads it: rows by verdict, watermarks and who holds them, stages of a batch, sinks, dead letters, sizes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from eventide.dashboard.past import CAUSES, VERDICTS, known
from eventide.served import Sample, metric
from eventide.sinks.retry import failed_tries

SECOND = 1_000_000
Facts = list[dict[str, Any]]
Metric = tuple[str, str, str, list[Sample]]
"""Name, kind, what it is, samples."""


def exposition(pipelines: Facts, now: float | None = None) -> str:
    """What was seen of pipelines, as `Watched.facts` says it."""
    return "".join(text for one in metrics(pipelines, time.time() if now is None else now) for text in in_text(one))


def in_text(one: Metric) -> Iterator[str]:
    """A metric in Prometheus's text format."""
    name, kind, told, samples = one
    yield from metric(f"eventide_{name}", kind, told, samples)


def of_process(pipelines: list[str]) -> Metric:
    """What this process knows of its runs and no state does."""
    tries = "Tries that a sink did not take since this process began, of batches that are not committed too."
    return "run_failed_tries_total", "counter", tries, [({"pipeline": name}, failed_tries.all) for name in pipelines]


def metrics(facts: Facts, now: float) -> Iterator[Metric]:
    """Every metric of pipelines; of none, the names and kinds alone."""
    named = [({"pipeline": one["pipeline"]}, one) for one in facts]
    yield "up", "gauge", "Whether a run is at work on the state.", [
        (who, float(one["running"] is not None and one["running"]["alive"])) for who, one in named
    ]  # fmt: skip
    yield (
        "finished",
        "gauge",
        "Whether the end of the input was declared.",
        [(who, float(one["finished"])) for who, one in named],
    )
    yield "batch", "gauge", "Number of the newest committed batch.", [(who, one["batch"]) for who, one in named]
    yield "batch_clock_seconds", "gauge", "Its clock.", [(who, one["clock"] / SECOND) for who, one in named]
    yield "rows_total", "counter", "Rows by what became of them before any verdict.", [
        ({**who, "what": what}, number) for who, one in named for what, number in sorted(one["rows"].items()) if "/" not in what
    ]  # fmt: skip
    yield (
        "regressions_total",
        "counter",
        "Rows whose watermark went back.",
        [(who, one["rows"].get("regressions", 0)) for who, one in named],
    )
    yield from _of_outputs(named)
    yield from _of_watermarks(named, now)
    yield from _of_batches(named)


def _of_outputs(named: list[tuple[dict[str, str], dict[str, Any]]]) -> Iterator[Metric]:
    each = [({**who, "output": output}, counts) for who, one in named for output, counts in sorted(one["outputs"].items())]
    yield "output_rows_total", "counter", "Rows by an output's verdict.", [
        ({**who, "verdict": verdict}, counts.get(f"rows_{verdict}", 0)) for who, counts in each for verdict in VERDICTS
    ]  # fmt: skip
    yield "output_late_rows_total", "counter", "An output's late rows, admitted or refused, by cause.", [
        ({**who, "cause": cause}, counts.get(counter, 0)) for who, counts in each for cause, counter in CAUSES.items()
    ]  # fmt: skip
    yield "output_results_total", "counter", "Results given, corrections and withdrawals among them.", [
        (who, counts.get("panes", 0)) for who, counts in each
    ]  # fmt: skip


def _of_watermarks(named: list[tuple[dict[str, str], dict[str, Any]]], now: float) -> Iterator[Metric]:
    marked = [(who, one, known(one["watermark"])) for who, one in named]
    yield (
        "watermark_seconds",
        "gauge",
        "W after the newest commit.",
        [(who, mark / SECOND) for who, _, mark in marked if mark is not None],
    )
    yield "watermark_lag_seconds", "gauge", "How far W is behind the clock of the machine that is asked.", [
        (who, max(0.0, now - mark / SECOND)) for who, one, mark in marked if mark is not None and not one["finished"]
    ]  # fmt: skip
    yield "watermark_moved_seconds", "gauge", "The clock of the batch that last moved W.", [
        (who, one["moved"] / SECOND) for who, one in named if one["moved"] is not None
    ]  # fmt: skip
    yield "watermark_held_since_seconds", "gauge", "The lane that holds W, and the clock of the batch since which it does.", [
        ({**who, "source": one["holder"]["source"], "lane": one["holder"]["lane"]}, one["holder"]["since"] / SECOND)
        for who, one in named if one["holder"] is not None and one["holder"]["since"] is not None
    ]  # fmt: skip
    sources = [({**who, "source": source["source"]}, source) for who, one in named for source in one["sources"]]
    yield "source_watermark_seconds", "gauge", "The least watermark of a source's lanes that count.", [
        (who, source["watermark"] / SECOND) for who, source in sources if source["watermark"] is not None
    ]  # fmt: skip
    yield "source_lag_seconds", "gauge", "How far it was behind the clock of the newest batch.", [
        (who, source["lag"] / SECOND) for who, source in sources if source["lag"] is not None
    ]  # fmt: skip
    yield "source_lanes", "gauge", "Lanes that are known.", [(who, source["lanes"]) for who, source in sources]
    yield "source_idle_lanes", "gauge", "Lanes that nobody waits for.", [(who, source["idle"]) for who, source in sources]


def _of_batches(named: list[tuple[dict[str, str], dict[str, Any]]]) -> Iterator[Metric]:
    yield "stage_seconds", "gauge", "How long each stage of the newest batch took, up to the point that it is named after.", [
        ({**who, "stage": stage}, seconds) for who, one in named for stage, seconds in one["stages"].items()
    ]  # fmt: skip
    sinks = [({**who, "output": output}, spent) for who, one in named for output, spent in sorted(one["sinks"].items())]
    yield (
        "sink_seconds",
        "gauge",
        "How long the sinks of an output took in the newest batch.",
        [(who, one["seconds"]) for who, one in sinks],
    )
    yield (
        "sink_failed_tries_total",
        "counter",
        "Tries of committed batches that a sink did not take.",
        [(who, one["failed"]) for who, one in sinks],
    )
    yield "dead_letters_total", "counter", "Records that could not be read, by reason.", [
        ({**who, "reason": reason}, number) for who, one in named for reason, number in sorted(one["dead"].items())
    ]  # fmt: skip
    kept = [({**who, "kind": kind["kind"]}, kind) for who, one in named for kind in one["kept"]]
    yield "state_bytes", "gauge", "What a state keeps, by kind.", [(who, kind["bytes"]) for who, kind in kept]
    yield "state_files", "gauge", "The files that it keeps.", [(who, kind["files"]) for who, kind in kept]


__all__ = ["Metric", "exposition", "in_text", "metrics", "of_process"]
