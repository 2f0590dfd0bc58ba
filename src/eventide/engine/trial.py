"""What a run of a definition would begin with, told without Spark: what has changed against its state, or why it would be refused."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from eventide.definition.pipeline import Pipeline
from eventide.engine.batch.beginning import Beginning
from eventide.engine.changes import (
    compared,
    describe_definition,
    digest,
    finished,
    free_changes,
    obstacles,
    refuse_older,
    refuse_unfinished,
)
from eventide.engine.feeds.files import FileFeed, refuse_missing
from eventide.engine.feeds.projection import common_kinds, needed_columns
from eventide.errors import EventideError, StoreUnavailable
from eventide.sources.files import FileSource
from eventide.state.ledger import Ledger
from eventide.state.state import State


@dataclass(frozen=True)
class Trial:
    """A definition held against its sources and its state."""

    columns: bool
    """Whether the columns of its sources are known without Spark, and were compared too."""
    batch: int | None = None
    """The last batch that was committed; None: there is no state yet."""
    generation: int = 0
    changes: tuple[dict[str, Any], ...] = ()
    """What has changed and may: each holds from the next batch on."""
    new: tuple[str, ...] = ()
    """Outputs that begin with the next batch."""
    leaving: tuple[str, ...] = ()
    """Outputs that end with the last batch, and do not come back under their names."""
    obstacles: tuple[str, ...] = ()
    """What the state cannot follow, each with why: it needs a new generation."""
    refused: str | None = None
    """Why a run would stop before its first batch, with the next command."""


def tried(pipeline: Pipeline) -> Trial:
    """Hold a definition against its sources and its state; what is wrong with the definition itself is raised."""
    kinds = _kinds(pipeline)
    if pipeline.state is None:
        return Trial(kinds is not None)
    try:
        return _against(pipeline, State.of(pipeline), kinds)
    except StoreUnavailable:
        raise
    except EventideError as error:
        return Trial(kinds is not None, refused=str(error))


def _kinds(pipeline: Pipeline) -> dict[str, pl.DataType] | None:
    """The columns of its rows, where the files say them; of other sources only their names may be known."""
    files = [source for source in pipeline.sources if isinstance(source, FileSource)]
    for source in files:
        refuse_missing(source)
    if len(files) == len(pipeline.sources) and all(f.schema is None and not f.transforms for f in files):
        return common_kinds([FileFeed.open(None, index, source) for index, source in enumerate(files)], pipeline)
    if pipeline.join is None:
        pipeline.stream.refuse_unknown(tuple(needed_columns(pipeline)), "aggregates and keys")
    return None


def _against(pipeline: Pipeline, state: State, kinds: dict[str, pl.DataType] | None) -> Trial:
    stored = state.definition
    refuse_older(stored, state.path)
    if stored is None:
        return Trial(kinds is not None)
    mine = describe_definition(pipeline, kinds or {}, state.lanes, stored["buckets"])
    if kinds is None:
        mine["columns"] = stored["columns"]
    ledger = state.committed or Ledger()
    found = Trial(
        kinds is not None,
        ledger.batch,
        state.generation,
        tuple(free_changes(stored, mine, ledger.batch)),
        tuple(name for name in mine["outputs"] if name not in stored["outputs"]),
        tuple(name for name in stored["outputs"] if name not in mine["outputs"]),
        tuple(obstacles(stored, mine, ledger.waiting)),
    )
    try:
        facts = compared(stored, mine, state.path, ledger.batch, ledger.waiting)
        _refuse_ended(state, ledger.batch, digest(facts))
    except StoreUnavailable:
        raise
    except EventideError as error:
        return replace(found, refused=str(error))
    return found


def _refuse_ended(state: State, batch: int, definition: str) -> None:
    """Stop where the input has ended, or where a batch that was being delivered can only be finished by another definition."""
    if (state.journal.last() or {}).get("drained"):
        raise finished(state.path)
    begun = state.journal.begun(batch + 1)
    if begun is None:
        return
    beginning = Beginning.from_json(begun)
    if beginning.drain:
        refuse_unfinished(False, state.path)
    beginning.check_definition(batch + 1, definition)


__all__ = ["Trial", "tried"]
