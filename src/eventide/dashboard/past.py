"""How it went: the series that a page draws, by the trace of a state; few enough points for any screen."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from eventide.kernel import judge
from eventide.model.time import MAX_TIME, MIN_TIME
from eventide.state.trace import Entry

POINTS = 600
"""More do not fit beside each other on a screen."""
LINES = 12
"""Lanes that are drawn by themselves."""
VERDICTS = ("on_time", "admitted", "refused")
CAUSES = {"behind its lane": judge.DISORDER, "while its lane was idle": judge.IDLENESS}


def known(mark: int | None) -> int | None:
    """A watermark that is a time: what is before all times, or after them, has no place on an axis."""
    return None if mark in (None, MIN_TIME, MAX_TIME) else mark


def chosen(entries: list[Entry], most: int = POINTS) -> list[Entry]:
    """Few enough of them, the newest among them; a line says the longest lag of those before it that are left out."""
    step = -(-len(entries) // most) if entries else 1
    return [entry for nth, entry in enumerate(reversed(entries)) if nth % step == 0][::-1]


def past_of(entries: list[Entry], sources: list[str]) -> dict[str, Any]:
    """The series over the clocks of batches."""
    lines = chosen(entries)
    worst = _worst(entries, lines)
    return {
        "batch": [one.batch for one in lines],
        "clock": [one.clock for one in lines],
        "watermark": [known(one.watermark) for one in lines],
        "lag": worst,
        "sources": {
            name: [known(one.facts["sources"].get(str(index), {}).get("watermark")) for one in lines]
            for index, name in enumerate(sources)
        },
        "idle": _each(lines, lambda facts: sum(source["idle"] for source in facts["sources"].values())),
        "lanes": _lanes(lines, sources),
        "rows": _each(lines, lambda facts: facts["rows"].get("in", 0)),
        "dead": _each(lines, lambda facts: facts["rows"].get("dead", 0)),
        "regressions": _each(lines, lambda facts: facts["rows"].get("regressions", 0)),
        "behind": _each(lines, lambda facts: facts["rows"].get("late_at_source", 0)),
        "outputs": _outputs(lines),
        "complete_since": None if not entries else entries[0].clock,
    }


def _each(lines: list[Entry], told: Callable[[dict[str, Any]], int]) -> list[int]:
    return [told(one.facts) for one in lines]


def _worst(entries: list[Entry], lines: list[Entry]) -> list[int | None]:
    """The longest lag up to each line since the one before it."""
    ends, found, worst = {one.batch for one in lines}, list[int | None](), None
    for one in entries:
        worst = max((lag for lag in (worst, one.lag) if lag is not None), default=None)
        if one.batch in ends:
            found.append(worst)
            worst = None
    return found


def _lanes(lines: list[Entry], sources: list[str]) -> dict[str, list[int | None]]:
    """The lanes that are slowest now, where each was among the slowest."""
    newest = lines[-1].facts.get("lanes", []) if lines else []
    told = [{(index, lane): mark for index, lane, mark, _ in one.facts.get("lanes", [])} for one in lines]
    drawn = [(index, lane) for index, lane, _, _ in newest][:LINES]
    return {f"{sources[index]}/{lane}": [known(marks.get((index, lane))) for marks in told] for index, lane in drawn}


def _outputs(lines: list[Entry]) -> dict[str, dict[str, list[int]]]:
    """Totals of rows by verdict and by cause; zero where an output was not there yet."""
    names = list(lines[-1].facts["outputs"]) if lines else []
    counters = {**{verdict: f"rows_{verdict}" for verdict in VERDICTS}, **CAUSES, "results": "panes"}
    return {
        name: {
            said: [one.facts["outputs"].get(name, {}).get(counter, 0) for one in lines] for said, counter in counters.items()
        }
        for name in names
    }


__all__ = ["chosen", "known", "past_of"]
