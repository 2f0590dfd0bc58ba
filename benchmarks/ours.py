"""The same cases by Eventide: its results are the panes in its state directory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cases import LATENESS, Case
from streams import DDL, LANES

import eventide as ev

OUTPUTS: dict[str, dict[str, Any]] = {
    "one": {"totals": ev.drop()},
    "4": {
        "totals": ev.drop(),
        "side": ev.divert(),
        "corrected": ev.accumulate("1 minute"),
        "retracted": ev.retract("2 minutes", refused=ev.divert()),
    },
    "late": {"totals": ev.accumulate("1 hour")},
}


def pipeline(case: Case, data: str, work: Path, per_batch: int, which: str) -> ev.Pipeline:
    """The case as a user writes it down."""
    watermark = ev.bounded(LATENESS)
    if case.kafka:
        servers, topic = data.split("/")
        source = ev.kafka(
            "stream", servers=servers, topic=topic, value=ev.json(DDL), event_time="ts", watermark=watermark,
            rows_per_batch=per_batch, max_ahead=None,
        )  # fmt: skip
    else:
        source = ev.files(
            "stream", data, schema=DDL, event_time="ts", lane="directory", files_per_batch=LANES, watermark=watermark,
            max_ahead=None,
        )  # fmt: skip
    rows = source.dedupe("id", within=LATENESS) if case.dedupe else source
    if case.gap:
        window: Any = ev.session(case.gap)
    else:
        window = ev.sliding(case.size, case.slide) if case.slide else ev.tumbling(case.size)
    totals = rows.window(window, by="key").agg(total=ev.sum("value"), n=ev.count())
    outputs = [totals.to(name, late=late) for name, late in OUTPUTS[which].items()]
    return ev.Pipeline("bench", *outputs, state=str(work / "state"))


def run(spark: Any, case: Case, data: str, work: Path, per_batch: int, which: str) -> None:
    """Answer a case."""
    pipeline(case, data, work, per_batch, which or "one").run(spark)
