"""Windows one under the other: which are open, when each spoke first, what was corrected since, and which have closed for good."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import polars as pl

from eventide.dashboard.pieces import Pieces
from eventide.model.time import MAX_TIME
from eventide.model.window import Sliding
from eventide.state.state import State
from eventide.state.store import Store
from eventide.state.trace import Entry
from eventide.state.windows import OutputWindows, output_windows

FILES, ROWS = 240, 60_000
SHOWN, OPEN = 120, 40
"""Windows of an output on the page, and those among them that are open."""
LISTED = 200
"""Panes of a window that are listed."""
OURS = ("window_id", "start", "end")
EMITTED = ("sequence", "op", "timing", "generation", "emitted_at")
TIMES = ("start", "end", "emitted_at")


@dataclass
class Timeline:
    """The windows of one pipeline."""

    store: Store

    def __post_init__(self) -> None:
        self._pieces: dict[str, Pieces[pl.DataFrame]] = {}
        self._panes: dict[str, pl.DataFrame] = {}

    def of(self, state: State, entries: list[Entry]) -> list[dict[str, Any]]:
        """By output: its windows, the latest last."""
        mark, found = state.ledger.frontier.watermark, []
        for one in output_windows(state):
            pieces = self._pieces.setdefault(one.output, Pieces(self._read, len, FILES, ROWS))
            files = (
                p for entry in reversed(entries) for p in entry.facts.get("files", {}).get("panes", {}).get(one.output, [])
            )
            frames = pieces.of(files)
            panes = pl.concat(frames, how="diagonal_relaxed") if frames else None
            if panes is not None:
                self._panes[one.output] = panes
            windows = [] if panes is None or one.window is None else _spoken(panes, one, mark)
            told = {(window["start"], window["end"]) for window in windows}
            windows += [window for window in _open(one, mark) if (window["start"], window["end"]) not in told]
            windows = sorted(windows, key=lambda window: (window["end"], window["start"]))[-SHOWN:]
            facts = {"output": one.output, "reads": one.said, "allowed": one.allowed, "pairs": one.window is None}
            found.append({**facts, "left": pieces.left, "gone": pieces.gone, "windows": windows})
        return found

    def panes(self, output: str, start: int, end: int) -> dict[str, Any]:
        """What an output has said of the windows of one span, key by key, in the order in which it was said."""
        frame = self._panes.get(output)
        if frame is None:
            return {"panes": [], "all": 0}
        own = frame.filter((pl.col("start") == start) & (pl.col("end") == end)).sort(
            "emitted_at", "window_id", "sequence", "op"
        )
        listed = [
            {
                "key": json.loads(row["window_id"].split(":", 2)[2]),
                "values": json.loads(row["values"]),
                **{name: row[name] for name in EMITTED},
            }
            for row in own.head(LISTED).iter_rows(named=True)
        ]
        return {"panes": listed, "all": len(own)}

    def _read(self, path: str) -> pl.DataFrame:
        """A file of panes: three columns of ours, the user's keys and values, five columns of ours."""
        frame = pl.concat([pl.DataFrame(batch) for batch in self.store.batches([path])])
        names = frame.columns
        keys = set(json.loads(frame[0, 0].split(":", 2)[2])) if len(frame) else set[str]()
        users = [name for name in names[3:-5] if name not in keys]
        values = (
            [json.dumps({name: _short(value) for name, value in row.items()}) for row in frame[users].to_dicts()]
            if users
            else []
        )
        ours = dict(zip((*names[:3], *names[-5:]), (*OURS, *EMITTED), strict=True))
        told = frame.select(pl.col(name).alias(said) for name, said in ours.items())
        said = pl.Series("values", values or ["{}"] * len(frame), dtype=pl.String)
        return told.with_columns(pl.col(TIMES).dt.epoch("us"), said)


LONGEST = 300


def _short(value: Any) -> str | None:
    text = None if value is None else value.decode(errors="backslashreplace") if isinstance(value, bytes) else str(value)
    return text if text is None or len(text) <= LONGEST else f"{text[:LONGEST]}… ({len(text):,} signs)"


def _spoken(panes: pl.DataFrame, one: OutputWindows, mark: int | None) -> list[dict[str, Any]]:
    """Windows that results were given of, all keys together."""
    late = pl.col("timing") == "late"
    grouped = panes.group_by("start", "end").agg(
        pl.col("emitted_at").filter(pl.col("timing") == "early").min().alias("early"),
        pl.col("emitted_at").filter(pl.col("timing") != "early").min().alias("first"),
        pl.col("emitted_at").max().alias("last"),
        pl.col("emitted_at").filter(late).unique().sort().head(20).alias("corrected_at"),
        (late & (pl.col("op") == "insert")).sum().alias("corrected"),
        (pl.col("op") == "retract").sum().alias("withdrawn"),
        pl.col("window_id").n_unique().alias("keys"),
        pl.len().alias("panes"),
    )
    newest = grouped.sort("end", "start").tail(SHOWN)
    return [{**row, "status": _status(row["end"], one.allowed, mark)} for row in newest.iter_rows(named=True)]


def _status(end: int, allowed: int, mark: int | None) -> str:
    if mark is None or end > mark:
        return "open"
    return "closed" if mark == MAX_TIME or end + allowed <= mark else "retained"


def _open(one: OutputWindows, mark: int | None) -> list[dict[str, Any]]:
    """Windows that hold something and have said nothing yet, the earliest of them."""
    size = one.window.size if isinstance(one.window, Sliding) else None
    found: list[dict[str, Any]] = []
    for first, last, step in one.ends:
        begin = first if mark is None or mark < first else first + (mark - first) // step * step + step
        for end in range(begin, min(last, begin + (OPEN - len(found)) * step) + 1, step):
            start = end if size is None else end - size
            found.append({"start": start, "end": end, "status": "open", "panes": 0, "keys": 0, "corrected": 0, "withdrawn": 0})
        if len(found) >= OPEN:
            break
    return found[:OPEN]


__all__ = ["Timeline"]
