"""The lanes read unevenly, in batches with live clocks, and judged by lane.scan + sweep: what must equal the oracle.

`broken` switches one part of the rule off, to show that the comparison would notice.
"""

from __future__ import annotations

import random
from collections import defaultdict
from dataclasses import dataclass, replace

from eventide.model.event import Event, LaneId, Position, end_of
from eventide.model.frontier import Frontier
from eventide.model.lane import LaneReading, LaneScan, scan
from eventide.model.lateness import Verdict, crossing, verdict
from eventide.model.pane import LateRow
from eventide.model.plan import Plan
from eventide.model.reference import Reference
from eventide.model.sweep import Swept, common_position, sweep
from eventide.model.time import MAX_TIME
from eventide.testing import MemorySource

Verdicts = dict[Position, dict[tuple[int, int], Verdict]]
"""Position of a row → (window end, allowed lateness) → verdict."""

BREAKS = (
    "no progress at the first row of a batch",
    "no run ends",
    "no rows means read up to the clock",
    "ahead rows judged without the joining",
    "swept as far as the furthest lane",
    "suspects judged at the end of the batch",
    "thresholds without the allowed lateness",
    "idleness noticed only with the next batch",
    "compacted although duplicates are forgotten",
)


@dataclass
class Judged:
    verdicts: Verdicts
    ahead: int = 0
    suspects: int = 0


def one_at_a_time(plan: Plan, events: list[Event]) -> tuple[Verdicts, Reference]:
    """The meaning: every event in position order, judged by W just before it; then drained."""
    engine, verdicts = Reference(plan), {}
    for event in events:
        engine.pass_time(event.arrival)
        watermark, judged = engine.watermark, engine.state.rows["judged"]
        engine.event(event)
        if engine.state.rows["judged"] > judged:
            verdicts[event.position] = judge(plan, event, watermark)
    engine.drain()
    return verdicts, engine


def judge(plan: Plan, event: Event, watermark: int | None) -> dict[tuple[int, int], Verdict]:
    ends = [end for _, end in plan.window.assign(event.event_time)]
    return {(end, allowed): verdict(watermark, end, allowed) for end in ends for allowed in plan.allowances}


def in_uneven_batches(plan: Plan, events: list[Event], clocks: list[int], rng: random.Random, broken: str = "") -> Judged:
    """The design: each lane scanned as far as it happened to be read, its progress swept as far as all lanes were read."""
    lanes = {(i, lane) for i, source in enumerate(plan.sources) for lane in source.lanes} | {e.lane_id for e in events}
    source = MemorySource(events, sorted(lanes))
    readings: dict[LaneId, LaneReading] = {lane: LaneReading() for lane in lanes}
    allowances = (0,) if broken == "thresholds without the allowed lateness" else plan.allowances
    grows = "hold" if broken == "compacted although W grows by the clock" else plan.when_all_idle
    dedupes = plan.dedupe_within is not None and broken != "compacted although duplicates are forgotten"
    seen = crossing(plan.window, allowances, grows, dedupes=dedupes)
    copies = Copies(plan.dedupe_within)
    frontier = Frontier([s.timing for s in plan.sources], plan.when_all_idle)
    progress, suspects, tagged, joinings = [], [], defaultdict(list), {}
    out = Judged({})
    for clock in [*clocks, max((e.arrival for e in events), default=0) + 1]:
        last_batch = clock == max((e.arrival for e in events), default=0) + 1
        got = set()
        for lane in sorted(lanes):
            taken = source.take(lane, clock, None if last_batch else rng.choice([0, 1, 2, 5, 20, 100]))
            if taken:
                got.add(lane)
            plan_of = plan.sources[lane[0]]
            found = scan(taken, readings[lane], plan_of.strategy, plan_of.idle_after, plan.window.first_end, seen)
            _break(found, taken, broken)
            progress += found.progress
            suspects += found.suspects
            for joined, event in found.ahead:
                tagged[joined].append(event)
            copies.waiting += [*found.suspects, *(event for _, event in found.ahead)]
            out.ahead += len(found.ahead)
            out.suspects += len(found.suspects)
        read_to = [
            end_of(clock) if broken == "no rows means read up to the clock" and lane not in got else source.read_to(lane, clock)
            for lane in sorted(lanes)
        ]
        upto = max(read_to) if broken == "swept as far as the furthest lane" else common_position(read_to)
        before = frontier.sources
        if broken == "idleness noticed only with the next batch":
            frontier.sources = tuple(replace(s, idle_after=None) for s in before)
        swept, progress = sweep(frontier, progress, upto)
        if broken == "idleness noticed only with the next batch":
            frontier.sources = before
            frontier.pass_time(clock) if frontier.state.first_arrival is not None else None
        joinings.update(swept.joinings)
        copies.settle(swept, upto)
        for event in [s for s in suspects if s.position <= upto]:
            at = frontier.watermark if broken.startswith("suspects judged at") else swept.watermark_at(event.position)
            out.verdicts[event.position] = judge(plan, event, at)
        suspects = [s for s in suspects if s.position > upto]
        for joined in [j for j in tagged if j in joinings]:
            for event in tagged.pop(joined):
                w = None if broken == "ahead rows judged without the joining" else joinings[joined]
                out.verdicts[event.position] = judge(plan, event, w)
    out.verdicts = {position: found for position, found in out.verdicts.items() if position not in copies.found}
    return out


class Copies:
    """Duplicates found once the sweep has passed them, in position order, each by W at its own position."""

    def __init__(self, within: int | None) -> None:
        self.within = within
        self.waiting: list[Event] = []
        self.kept: dict[object, list[int]] = defaultdict(list)
        self.found: set[Position] = set()

    def settle(self, swept: Swept, upto: Position) -> None:
        if self.within is None:
            return
        for event in sorted((e for e in self.waiting if e.position <= upto), key=lambda e: e.position):
            w, within = swept.watermark_at(event.position), self.within
            times = [t for t in self.kept[event.dedupe_key] if w is None or w < t + within]
            if any(abs(event.event_time - t) < within for t in times):
                self.found.add(event.position)
            else:
                self.kept[event.dedupe_key] = [*times, event.event_time]
        self.waiting = [e for e in self.waiting if e.position > upto]


def _break(found: LaneScan, taken: list[Event], broken: str) -> None:
    if broken == "no progress at the first row of a batch":
        found.progress = [p for p in found.progress if p.joins or p.active_until != MAX_TIME or p.position != taken[0].position]
    if broken == "no run ends":
        found.progress = [p for p in found.progress if p.active_until == MAX_TIME]


def late_rows(plan: Plan, events: list[Event], verdicts: Verdicts) -> list[tuple[str, Position, tuple[tuple[int, int], ...]]]:
    """The side stream that these verdicts mean, in position order."""
    found = []
    for event in events:
        for output in plan.outputs if event.position in verdicts else ():
            own = verdicts[event.position]
            missed = tuple(w for w in plan.window.assign(event.event_time) if own[w[1], output.allowed] is Verdict.REFUSED)
            if missed:
                found.append((output.name, event.position, missed))
    return found


def as_tuples(late: list[LateRow]) -> list[tuple[str, Position, tuple[tuple[int, int], ...]]]:
    return [(row.output, row.event.position, row.missed) for row in late]


def panes_by_window(plan: Plan, events: list[Event], verdicts: Verdicts) -> dict[tuple, list[tuple]]:
    """Per output, window and key the panes that these verdicts mean under per-row late firing: (timing, sequence, values)."""
    members: dict[tuple, list[tuple[Verdict, int]]] = defaultdict(list)
    for event in events:
        for output in plan.outputs if event.position in verdicts else ():
            for window in plan.window.assign(event.event_time):
                found = verdicts[event.position][window[1], output.allowed]
                if found is not Verdict.REFUSED:
                    members[output.name, window, event.key].append((found, event.row["value"]))
    panes = {}
    for window, rows in members.items():
        on_time = sorted(v for found, v in rows if found is Verdict.ON_TIME)
        said = [("on_time", 0, on_time)] if on_time else []
        held = on_time
        for value in [v for found, v in rows if found is Verdict.ADMITTED]:
            held = sorted([*held, value])
            said.append(("late", len(said), held))
        panes[window] = said
    return panes
