"""A tuning as plain values: what is printed, written as JSON, and drawn, all from one place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from eventide.tuning.recommendation import Point, Tuning


def as_json(tuning: Tuning, bounds: Sequence[int] = (), allowances: Sequence[int] = ()) -> dict[str, Any]:
    """Everything, times in microseconds."""
    chosen = tuning.point(tuning.bound, tuning.allowed)
    return {
        "resolution": tuning.curve.resolution,
        "window": str(tuning.answer.question.window),
        "rows": sum(f.rows for f in tuning.answer.facts.values()),
        "pairs": tuning.curve.rows,
        "targets": {"on_time": tuning.targets[0], "in_the_end": tuning.targets[1]},
        "recommended": {**point_json(chosen), "lines": tuning.lines()},
        "curve": [point_json(tuning.point(bound)) for bound in (bounds or tuning.usual_bounds())],
        "allowed_lateness": [
            point_json(tuning.point(tuning.bound, allowed)) for allowed in (allowances or tuning.usual_allowances())
        ],
        "steps": [{"bound": bound, "on_time": number} for bound, number in tuning.curve.points()],
        "causes": tuning.causes(tuning.bound),
        "lanes": [
            {
                "source": tuning.names[report.lane[0]], "lane": report.lane[1], "rows": report.rows, "late": report.late,
                "late_share": report.late_share, "holds": report.holds, "out_of_order": report.out_of_order,
                "bound_without": report.bound_without,
                "lateness": dict(zip(("p50", "p95", "p99", "p999", "max"), report.quantiles, strict=False)),
                "curve": [{"bound": bound, "on_time": number} for bound, number in report.curve.points(50)],
                "own_bound": report.own.least_bound(tuning.targets[0]),
            }
            for report in tuning.lanes()
        ],
        "holder": None if tuning.answer.holder is None else {
            "lane": tuning.answer.holder[1], "emit_latency_without": tuning.latency_without_holder(tuning.bound),
        },
        "idle": {name: asdict(report) for name, report in tuning.idle()},
    }  # fmt: skip


def point_json(point: Point) -> dict[str, Any]:
    """A point with what follows from it."""
    return {**asdict(point), "completeness": point.completeness, "re_emissions": point.re_emissions}
