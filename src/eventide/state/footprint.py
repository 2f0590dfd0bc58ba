"""What a state keeps, by kind: files, rows and bytes; of windows, how much of it is whose."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from eventide.model.time import MAX_TIME
from eventide.state.state import State
from eventide.state.store import Part
from eventide.state.windows import OutputWindows, output_windows, parts_of

LEFT_OVER = "data that nothing refers to"
"""Of a batch at work, or left by a run that was killed: the next start removes it."""


@dataclass(frozen=True)
class Kept:
    """One kind of what a state keeps."""

    kind: str
    files: int
    bytes: int
    rows: int | None
    """None: not counted by the journal."""


def footprint(state: State) -> list[Kept]:
    """Everything below the state's directory: its live parts by kind, then the rest by directory."""
    sizes, parts = state.store.sizes(""), state.ledger.parts
    kinds = {part.path: str(part.kind) for part in parts}
    found: dict[str, list[int]] = {}
    for path, size in sizes.items():
        directory = path.partition("/")[0]
        kind = kinds.get(path, LEFT_OVER) if directory == "data" else directory
        found.setdefault(kind, []).append(size)
    rows = {kind: sum(part.rows for part in parts if part.kind == kind) for kind in kinds.values()}
    order = sorted(found, key=lambda kind: (kind not in rows, kind))
    return [Kept(kind, len(found[kind]), sum(found[kind]), rows.get(kind)) for kind in order]


@dataclass(frozen=True)
class WindowsKept:
    """The windows of one output, and what they cost."""

    output: str
    reads: str
    allowed: int
    open: int | None
    """None: it gives pairs of a join, which have no windows."""
    retained: int | None
    rows: int
    """Partial results, sessions, rows that wait and what was said of windows, as rows of the state's files."""
    bytes: int
    shared: bool
    """Whether other outputs read the same: then most of it is counted with each of them."""
    panes: int
    """Results that it gave since its beginning, corrections and withdrawals among them."""


def windows_kept(state: State) -> list[WindowsKept]:
    """Of each output, the windows that the newest commit holds, and what its files take."""
    every = output_windows(state)
    sizes = state.store.sizes("data")
    return [_kept(state, one, every, sizes) for one in every]


def _kept(state: State, one: OutputWindows, every: list[OutputWindows], sizes: dict[str, int]) -> WindowsKept:
    ledger, mark = state.ledger, state.ledger.frontier.watermark
    aggregation = ledger.reads.get(one.output, "")
    parts = parts_of(ledger, one.output)
    others = [other for other in every if other is not one and ledger.reads.get(other.output, "") == aggregation]
    closed = mark == MAX_TIME  # the end of the input: nothing is kept for late rows
    return WindowsKept(
        one.output,
        one.said,
        one.allowed,
        None if one.window is None else one.open(mark),
        None if one.window is None else 0 if closed else one.retained(mark),
        sum(part.rows for part in parts),
        _bytes(parts, sizes),
        bool(others),
        ledger.counts_of(one.output)["panes"],
    )


def _bytes(parts: Iterable[Part], sizes: dict[str, int]) -> int:
    return sum(sizes.get(path, 0) for path in {part.path for part in parts})


__all__ = ["Kept", "WindowsKept", "footprint", "windows_kept"]
