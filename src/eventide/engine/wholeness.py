"""From which event time on a generation has read its lanes whole: what a source no longer has (retention) is not absent, only gone."""

from __future__ import annotations

from eventide.engine.feeds.feed import EVERY_LANE, Feed
from eventide.engine.feeds.union import places
from eventide.engine.spark_notes import SparkNotes, TakenFile
from eventide.model.event import LaneId
from eventide.model.time import MAX_TIME, MIN_TIME, plus
from eventide.model.watermark import Adaptive, Ascending, Bounded, Strategy
from eventide.state.generations import states_aside
from eventide.state.journal import Journal, JournalError
from eventide.state.ledger import Ledger
from eventide.state.records import record_files


def lost_beginnings(feeds: list[Feed], state: str) -> dict[str, list[str]]:
    """For each source the lanes whose first rows can no longer be read, asked when a generation begins.

    Results of every generation before may stand: what any of them had read counts, and what any of them missed already.
    """
    taken: dict[int, list[TakenFile]] = {}
    lost: dict[str, set[str]] = {feed.source.name: set() for feed in feeds}
    for _, path in states_aside(state):
        read, missed = _read_before(feeds, path)
        for index, files in read.items():
            taken.setdefault(index, []).extend(files)
        for name, lanes in missed.items():
            lost.get(name, set()).update(lanes)
    return {f.source.name: sorted({*lost[f.source.name], *f.lost(taken.get(f.index, []))}) for f in feeds}


def whole_from(feeds: list[Feed], lost: dict[str, list[str]], ledger: Ledger) -> int:
    """The event time from which on every lane was read whole; MAX_TIME while one that has lost its beginning was not heard yet.

    What was lost came before the first row that is left, so that its event time is at most one bound after that row's.
    """
    latest = MIN_TIME
    for feed in feeds:
        strategy = feed.source.watermark
        for lane in _lanes_of(feed, lost.get(feed.source.name, []), ledger):
            carry = ledger.carries.get(lane)
            first = None if carry is None else carry.first_time
            latest = max(latest, MAX_TIME if first is None else plus(first, _bound(strategy) + 1))
    return latest


def _lanes_of(feed: Feed, lost: list[str], ledger: Ledger) -> list[LaneId]:
    if EVERY_LANE in lost:
        return [lane for lane in ledger.carries if lane[0] == feed.index]
    return [(feed.index, lane) for lane in lost]


def _bound(strategy: Strategy) -> int:
    """How far after a row's event time that of an earlier row of its lane can lie, as declared; markers and expressions declare nothing."""
    if isinstance(strategy, Bounded | Ascending):
        return strategy.bound
    return strategy.ceiling if isinstance(strategy, Adaptive) else 0


def _read_before(feeds: list[Feed], aside: str) -> tuple[dict[int, list[TakenFile]], dict[str, list[str]]]:
    """The files that a state set aside had taken, by source, and the lanes that had lost their beginning then.

    A damaged one is what many start over from: it must not stop them, and where it cannot tell its files, every lane may have lost some.
    """
    files = record_files(aside)
    try:
        journal = Journal(files)
        facts, last = journal.definition(), journal.last()
        if facts is None:
            return {}, {}
        missed: dict[str, list[str]] = facts.get("lost", {})
        if last is None or facts.get("sources") != [feed.source.name for feed in feeds]:
            return {}, missed
        return _taken(SparkNotes(files), feeds, last["ledger"]["batch"]), missed
    except (JournalError, ValueError, KeyError, TypeError):
        return {}, {feed.source.name: [EVERY_LANE] for feed in feeds if feed.gives_paths}


def _taken(notes: SparkNotes, feeds: list[Feed], batch: int) -> dict[int, list[TakenFile]]:
    """What was taken up to a batch; the end of the input is a batch that Spark knows nothing of."""
    known = [int(name) for name in notes.files.names("checkpoint/offsets") if name.isdigit()]
    newest = max((number for number in known if number <= batch), default=-1)
    if not notes.offsets(newest):
        raise JournalError(f"Spark's checkpoint does not say how far batch {batch} goes.")
    return {index: notes.of(place, newest).taken_since(-1) for index, place in places(feeds).items()}
