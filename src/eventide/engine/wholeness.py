"""From which event time on a generation has read its lanes whole: what a source no longer has (retention) is not absent, only gone."""

from __future__ import annotations

from eventide.engine.feeds.feed import EVERY_LANE, Feed
from eventide.engine.feeds.union import places
from eventide.engine.spark_notes import SparkNotes, TakenFile
from eventide.model.event import LaneId
from eventide.model.time import MAX_TIME, MIN_TIME, plus
from eventide.model.watermark import Adaptive, Ascending, Bounded, Strategy
from eventide.state.generations import states_aside
from eventide.state.journal import Journal, JournalError, LocalFiles
from eventide.state.ledger import Ledger


def lost_beginnings(feeds: list[Feed], state: str) -> dict[str, list[str]]:
    """For each source the lanes whose first rows can no longer be read, asked when a generation begins."""
    taken = _taken_before(feeds, state)
    return {feed.source.name: sorted(feed.lost(taken.get(feed.index, []))) for feed in feeds}


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


def _taken_before(feeds: list[Feed], state: str) -> dict[int, list[TakenFile]]:
    """The files that the generation before this one had taken, by source, where it left a state that can be read.

    A damaged one is what many start over from: it tells nothing, and must not stop them.
    """
    aside = states_aside(state)
    if not aside:
        return {}
    files = LocalFiles(aside[-1][1])
    journal = Journal(files)
    try:
        facts, last = journal.definition(), journal.last()
        if facts is None or last is None or facts.get("sources") != [feed.source.name for feed in feeds]:
            return {}
        notes, batch = SparkNotes(files), last["ledger"]["batch"]
        return {index: notes.of(place, batch).taken_since(-1) for index, place in places(feeds).items()}
    except JournalError:
        return {}
