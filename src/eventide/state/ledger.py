"""What the engine knows after a batch: where W stands, what each lane carries, which parts are live, and the totals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from eventide.kernel.bound_plan import counter_of
from eventide.kernel.scan import LaneCarry
from eventide.model.event import LaneId, Position
from eventide.model.frontier import FrontierState, Standing
from eventide.model.lane import Progress
from eventide.state.store import Part

JUDGED = ("ahead", "judged", "pairs")
"""Counters of rows, and of pairs of row and window, that have a verdict."""
SORTED = ("kept", "ahead_pairs", *JUDGED)
"""Counters that each aggregation over a stream has for itself."""


@dataclass
class Ledger:
    """The committed state of a pipeline; a batch starts from the ledger of the batch before it."""

    batch: int = -1
    frontier: FrontierState = field(default_factory=FrontierState)
    carries: dict[LaneId, LaneCarry] = field(default_factory=dict)
    progress: list[Progress] = field(default_factory=list)
    """Progress that lies beyond what was swept."""
    parts: list[Part] = field(default_factory=list)
    swept: Position | None = None
    rows: Counter[str] = field(default_factory=Counter)
    outputs: dict[str, Counter[str]] = field(default_factory=dict)
    joined: dict[str, Counter[str]] = field(default_factory=dict)
    """For each output, the rows that had been judged when it joined: it is answerable for those after them."""
    by_source: dict[str, Counter[str]] = field(default_factory=dict)
    """Rows that came and rows that were late, for each source by its place."""
    sources: dict[str, Any] = field(default_factory=dict)
    """What each source remembers for itself: files read, offsets reached."""
    joined_at: dict[str, int | None] = field(default_factory=dict)
    """For each output that came when batches had been committed: W then. Windows that had closed by then it has said nothing of."""
    attempts: list[tuple[int, str]] = field(default_factory=list)
    """Which run's files are those of a batch: the first batch of each run that committed one, and its attempt."""
    settled: list[str] = field(default_factory=list)
    """Outputs that have taken the place of all that older generations held."""
    reads: dict[str, str] = field(default_factory=dict)
    """Which aggregation each output reads, where there are several."""
    looked_from: dict[str, int] = field(default_factory=dict)
    """For outputs whose view holds results back: the start of the earliest window that was looked at, shown or not."""
    readings: dict[str, Counter[str]] = field(default_factory=dict)
    """What is counted for outputs, for the readings by which stages see results."""

    def attempt_of(self, batch: int) -> str:
        """The attempt whose files a batch consists of.

        >>> Ledger(attempts=[(0, "a"), (7, "b")]).attempt_of(6)
        'a'
        """
        return next((attempt for first, attempt in reversed(self.attempts) if first <= batch), "")

    def committed_by(self, batch: int, attempt: str) -> None:
        """Note whose files a batch consists of."""
        if self.attempt_of(batch) != attempt:
            self.attempts.append((batch, attempt))

    def look(self, output: str, starts: Iterable[int]) -> None:
        """Note the windows that a batch has looked at under a view, by their starts."""
        known = [self.looked_from[output]] if output in self.looked_from else []
        if first := [*known, *starts]:
            self.looked_from[output] = min(first)

    def carry(self, lane: LaneId) -> LaneCarry:
        """What the next reading of a lane goes on from.

        A lane that has left the minimum joins with its next row, whatever `idle_after` is by then: W has gone on without it.
        """
        carry, standing = self.carries.get(lane, LaneCarry()), self.frontier.lanes.get(lane)
        idle = standing is not None and standing.idle and standing.last_arrival == carry.last_arrival
        return replace(carry, idle=idle)

    @property
    def waiting(self) -> int:
        """Rows that were read and have no verdict yet, of the aggregation that is furthest behind."""
        return max(self.waiting_for(name) for name in self.aggregations)

    @property
    def aggregations(self) -> list[str]:
        """The names of the aggregations that rows were counted for; an only one has no name."""
        return sorted({name for name, what in map(_named, self.rows) if what in SORTED}) or [""]

    def counted(self, aggregation: str, what: str) -> int:
        """Rows, or pairs of row and window, that an aggregation has sorted or judged."""
        return self.rows[counter_of(aggregation, what)]

    def late_from(self, source: int, aggregation: str) -> int:
        """Rows of a source that came after W had passed the end of their first window in an aggregation."""
        return self.by_source.get(str(source), Counter())[counter_of(aggregation, "late")]

    def waiting_for(self, aggregation: str) -> int:
        """Rows that were read and have no verdict yet in an aggregation."""
        stream = root_of(aggregation)
        return self.counted(stream, "kept") - self.counted(stream, "judged") - self.rows["duplicates"]

    def counts_of(self, name: str) -> Counter[str]:
        """What was counted for an output, or for a reading of a stage."""
        return self.readings.get(name, Counter()) if is_reading(name) else self.outputs.get(name, Counter())

    def seat(self, names: Iterable[str], reads: Mapping[str, str] | None = None) -> None:
        """Take up outputs that are new, with what was judged before them; let go of those that left, and of aggregations that nobody reads.

        `reads` says which aggregation an output reads, where there are several.
        """
        names, self.reads = list(names), dict(reads or {})
        read = {self.reads.get(name, "") for name in names}
        if any(f"{side}_kept" in self.rows for side in ("left", "right")):
            read.add("")  # rows of a join are counted under no name, whoever reads its pairs
        read |= {*map(root_of, read), *(of for name, of in self.reads.items() if is_reading(name))}
        self.rows = Counter({c: n for c, n in self.rows.items() if _named(c)[1] not in SORTED or _named(c)[0] in read})
        judged = {n: self._judged_for(self.reads.get(n, "")) for n in names}
        fresh = [name for name in names if name not in self.outputs and self.batch >= 0]
        self.joined_at = {n: w for n, w in self.joined_at.items() if n in names} | dict.fromkeys(fresh, self.frontier.watermark)
        self.outputs = {name: self.outputs.get(name, Counter()) for name in names}
        self.looked_from = {name: first for name, first in self.looked_from.items() if name in names}
        self.joined = {name: self.joined.get(name, judged[name]) for name in names}
        self.readings = {name: self.readings.get(name, Counter()) for name in self.reads if is_reading(name)}

    def _judged_for(self, aggregation: str) -> Counter[str]:
        """Rows that the stream's aggregation has judged, and pairs of a row, or of its way through stages, and a window."""
        whose = {what: aggregation if what == "pairs" else root_of(aggregation) for what in JUDGED}
        return Counter({what: number for what, name in whose.items() if (number := self.counted(name, what))})

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values."""
        return {
            "batch": self.batch,
            "frontier": {
                **{k: v for k, v in asdict(self.frontier).items() if k != "lanes"},
                "lanes": [[*lane, s.watermark, s.last_arrival, s.idle] for lane, s in self.frontier.lanes.items()],
            },
            "carries": [[*lane, asdict(carry)] for lane, carry in self.carries.items()],
            "progress": [asdict(p) for p in self.progress],
            "parts": [asdict(p) for p in self.parts],
            "swept": self.swept,
            "rows": dict(self.rows),
            "outputs": {name: dict(counts) for name, counts in self.outputs.items()},
            "joined": {name: dict(counts) for name, counts in self.joined.items()},
            "by_source": {place: dict(counts) for place, counts in self.by_source.items()},
            "sources": self.sources,
            "joined_at": self.joined_at,
            "attempts": self.attempts,
            "settled": self.settled,
            "reads": self.reads,
            "looked_from": self.looked_from,
            "readings": {name: dict(counts) for name, counts in self.readings.items()},
        }

    @classmethod
    def from_json(cls, raw: dict[str, Any]) -> Ledger:
        """The ledger back from JSON."""
        frontier = {k: v for k, v in raw["frontier"].items() if k != "lanes"}
        lanes = {(s, lane): Standing(w, a, idle) for s, lane, w, a, idle in raw["frontier"]["lanes"]}
        return cls(
            batch=raw["batch"],
            frontier=FrontierState(**frontier, lanes=lanes),
            carries={(s, lane): carry_from(carry) for s, lane, carry in raw["carries"]},
            progress=[progress_from(p) for p in raw["progress"]],
            parts=[Part.from_json(p) for p in raw["parts"]],
            swept=tuple(raw["swept"]) if raw["swept"] is not None else None,
            rows=Counter(raw["rows"]),
            outputs={name: Counter(counts) for name, counts in raw["outputs"].items()},
            joined={name: Counter(counts) for name, counts in raw["joined"].items()},
            by_source={place: Counter(counts) for place, counts in raw["by_source"].items()},
            sources=raw["sources"],
            joined_at=raw["joined_at"],
            attempts=[(first, attempt) for first, attempt in raw["attempts"]],
            settled=raw["settled"],
            reads=raw.get("reads", {}),
            looked_from=raw.get("looked_from", {}),
            readings={name: Counter(counts) for name, counts in raw.get("readings", {}).items()},
        )


def _named(counter: str) -> tuple[str, str]:
    """The aggregation that a counter is of, and what it counts."""
    name, _, what = counter.rpartition("/")
    return name, what


def stage_name(below: str, nth: int) -> str:
    """What a state calls a stage, after the aggregation whose results it reads; reading_name, what it calls that reading.

    >>> stage_name("", 1), stage_name("1^2", 3)
    ('^1', '1^2^3')
    """
    return f"{below}^{nth}"


def root_of(aggregation: str) -> str:
    """The aggregation over the stream that a stage is built on, by name.

    >>> root_of("1^2^3"), root_of("1")
    ('1', '1')
    """
    return aggregation.partition("^")[0]


def reading_name(stage: str) -> str:
    """What a state calls the reading by which a stage sees results; no output can be called so.

    >>> is_reading(reading_name("^1")), is_reading("totals")
    (True, False)
    """
    return f"results/{stage}"


def is_reading(name: str) -> bool:
    """Whether it is no output but what a stage reads by."""
    return "/" in name


def carry_from(raw: dict[str, object]) -> LaneCarry:
    """A lane's carry from JSON."""
    carry = LaneCarry(**raw)  # type: ignore[arg-type]
    if carry.joined is not None:
        carry.joined = tuple(carry.joined)  # type: ignore[assignment]
    return carry


def progress_from(raw: dict[str, object]) -> Progress:
    """Progress from JSON."""
    return Progress(tuple(raw["position"]), raw["watermark"], raw["active_until"], bool(raw["joins"]))  # type: ignore[arg-type]
