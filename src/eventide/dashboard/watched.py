"""A pipeline on the page: its state is looked at again whenever its run has committed, and what was seen is kept for whoever asks."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

from eventide.dashboard.past import known, past_of
from eventide.dashboard.plane import Plane
from eventide.dashboard.timeline import Timeline
from eventide.errors import EventideError
from eventide.model.time import duration
from eventide.redaction import masked
from eventide.state.footprint import footprint
from eventide.state.lease import holder_of
from eventide.state.marks import Marks, read_marks
from eventide.state.state import State
from eventide.state.steady import steady
from eventide.state.trace import Entry, read_trace, short

LANES = 40
"""Lanes that are listed, the slowest of them."""
SIZES_EVERY = 60.0
"""Seconds between two looks at every file of a state."""


@dataclass(frozen=True)
class Place:
    """Where a pipeline's state is; where its archive is, if that is elsewhere than its definition says."""

    state: str
    name: str
    archive: str | None = None


@dataclass
class Watched:
    """One pipeline."""

    place: Place
    pictures: bool = True
    """Whether windows and events are looked at too; who wants figures only need not wait for them."""
    facts: dict[str, Any] = field(default_factory=dict)
    version: int = 0
    """Goes up with each look that saw something else."""
    fault: str | None = None
    """Why it could not be looked at."""
    looked: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        state = self._opened()
        self.timeline = Timeline(state.store)
        self.plane: Plane | None = None
        self._seen: tuple[Any, ...] | None = None
        self._sizes: list[dict[str, Any]] = []
        self._sized = float("-inf")

    def look(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Look at the state if something was committed since, or if the run came or went; whatever goes wrong is told on the page."""
        try:
            seen = self._signs()
            if seen != self._seen or self.fault is not None:
                state, (marks, entries) = steady(self._opened, lambda state: (read_marks(state), read_trace(state)))
                self.facts = self._told(state, marks, entries)
                self._seen, self.fault = seen, None
                self.version += 1
                self.looked.set()
                if clock() - self._sized >= SIZES_EVERY:
                    self._sized = clock()
                    self._size(state)
        except Exception as error:  # one state that cannot be read must not end the looking
            said = masked(str(error) if isinstance(error, EventideError) else f"{type(error).__name__}: {error}")
            self.version += said != self.fault
            self.fault = said
        finally:
            self.looked.set()

    def _size(self, state: State) -> None:
        """Every file of the state: where it has very many that takes a while, so it comes after what is waited for."""
        self._sizes = [asdict(kept) for kept in footprint(state)]
        self.facts = {**self.facts, "kept": self._sizes}
        self.version += 1

    def _opened(self) -> State:
        return State(self.place.state, self.place.name)

    def _signs(self) -> tuple[Any, ...]:
        """What changes when there is something new to see, at the price of two listings."""
        state = self._opened()
        names = [name for name in state.files.names("journal") if name.startswith(("commit-", "definition-"))]
        holder = holder_of(state.files, state.path)
        return (*names[-2:], None if holder is None else (holder.pid, holder.alive))

    def _told(self, state: State, marks: Marks, entries: list[Entry]) -> dict[str, Any]:
        holder = holder_of(state.files, state.path)
        last = entries[-1].facts if entries else {}
        said = marks.to_json()
        lanes = [{**lane, "lane": short(lane["lane"]), "watermark": known(lane["watermark"])} for lane in said["lanes"][:LANES]]
        return {
            **said,
            "pipeline": state.name,
            "state": masked(state.path),
            "generation": state.generation,
            "running": None if holder is None else {"pid": holder.pid, "host": holder.host, "alive": holder.alive},
            "watermark": known(marks.watermark),
            "holder": _short(said["holder"]),
            "sources": [
                {**one, "watermark": known(one["watermark"]), "holder": _short(one["holder"])} for one in said["sources"]
            ],
            "lanes": lanes,
            "lanes_in_all": len(said["lanes"]),
            "rows": dict(state.ledger.rows),
            "outputs": {name: dict(counts) for name, counts in state.ledger.outputs.items()},
            "dead": last.get("dead", {}),
            "stages": last.get("stages", {}),
            "sinks": last.get("sinks", {}),
            "changes": (state.definition or {}).get("changes", []),
            "kept": self._sizes,
            **(self._pictures(state, entries) if self.pictures else {}),
        }

    def _pictures(self, state: State, entries: list[Entry]) -> dict[str, Any]:
        if self.plane is None:
            self.plane = Plane(state.store, self.place.archive or _archive(state))
        cells, windows = self.plane.cells(entries), self.timeline.of(state, entries)
        return {"past": past_of(entries, state.sources), "plane": cells, "timeline": windows, "watermarks": _watermarks(state)}


def _settings(state: State) -> dict[str, dict[str, str]]:
    settings: dict[str, dict[str, str]] = (state.definition or {}).get("settings", {})
    return settings


def _archive(state: State) -> str | None:
    """Where the newest definition that was noted keeps its events."""
    said = _settings(state).get("pipeline", {}).get("archive", "None")
    return None if said == "None" else json.loads(said)


def _watermarks(state: State) -> list[dict[str, Any]]:
    """How each source's watermark is declared, and how far behind that is where it is a bound."""
    said = {name: _settings(state).get(f"source {name!r}", {}).get("watermark", "") for name in state.sources}
    bounds = {name: re.fullmatch(r'bounded\("(.+)"\)', text) for name, text in said.items()}
    spans = {name: None if found is None else duration(found[1], what="a bound", zero=True) for name, found in bounds.items()}
    return [{"source": name, "said": masked(text), "bound": spans[name]} for name, text in said.items()]


def _short(holder: dict[str, Any] | None) -> dict[str, Any] | None:
    return None if holder is None else {**holder, "lane": short(holder["lane"])}


__all__ = ["Place", "Watched"]
