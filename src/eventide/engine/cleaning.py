"""What may go of a state: files that were written for people, by a run or by hand; and a whole state copied, to go on beside the first."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from eventide.definition.pipeline import Pipeline
from eventide.engine.batch.rows import AUDIT
from eventide.errors import DefinitionError, EventideError
from eventide.log import note
from eventide.sinks.base import TableSink
from eventide.state.generations import NONE
from eventide.state.journal import LocalFiles
from eventide.state.lease import DIRECTORY, Lease
from eventide.state.ledger import Ledger
from eventide.state.retention import due, note_removal, removed_upto, retire
from eventide.state.state import State
from eventide.state.trace import read_trace
from eventide.storage.address import is_local

PEOPLES = ("dead", AUDIT)
"""Tables for people that are no output's."""


class CannotCopy(EventideError):
    """The state cannot be copied from here, or not to there."""


@dataclass(frozen=True)
class Cleaned:
    """What was removed, or would be."""

    upto: int
    """The last batch whose files go; -1: none is so old."""
    files: int
    bytes: int


def spared(pipeline: Pipeline, ledger: Ledger, succeeds: bool) -> set[str]:
    """Outputs whose panes stay: results are yet to be taken back by them, by a later generation, or by this one where it `succeeds` another."""
    sinks = {output.name: output.sink for output in pipeline.outputs if output.sink is not None}
    coming = {name for name in sinks if succeeds and name not in {*ledger.settled, *ledger.joined_at}}
    return {name for name, sink in sinks.items() if not isinstance(sink, TableSink)} | coming


def clean(pipeline: Pipeline, older: int, clock: int, *, only_look: bool = False) -> Cleaned:
    """Remove what a state wrote for people in batches that were committed so long before a clock, while no run is at work on it."""
    if pipeline.state is None:
        raise DefinitionError(f"pipeline {pipeline.name!r} has no state directory, and so nothing to remove.")
    state = State.of(pipeline)
    state.ledger  # noqa: B018 (says so where nothing was committed)
    if only_look:
        return _clean(pipeline, older, clock, only_look=True)
    lease = Lease.take(state.files, state.path)
    try:
        return _clean(pipeline, older, clock, only_look=False)
    finally:
        lease.release()


def _clean(pipeline: Pipeline, older: int, clock: int, *, only_look: bool) -> Cleaned:
    state = State.of(pipeline)  # as it is now that nobody else writes
    upto = max((entry.batch for entry in read_trace(state) if entry.clock <= clock - older), default=-1)
    kept = spared(pipeline, state.ledger, (state.definition or {}).get("before", NONE) != NONE)
    going = list(due(state.store, upto, PEOPLES, kept))
    sizes = [size for directory in going for size in state.store.sizes(directory).values()]
    if going and not only_look:
        note_removal(state.files, max(upto, removed_upto(state)))
        retire(state.store, upto, PEOPLES, kept)
        note(__name__, "state cleaned", pipeline=pipeline.name, state=state.path, upto=upto, files=len(sizes))
    return Cleaned(upto if going else -1, len(sizes), sum(sizes))


def copy(path: str, to: str, between: Callable[[], None] = lambda: None) -> int:
    """Copy a state that no run is at work on; gives the bytes. The copy gets its name when it is whole, and replaces nothing."""
    if not (is_local(path) and is_local(to)):
        raise CannotCopy(
            f"only a state on this machine's disk is copied from here, and to it. Stop the run, and copy all of {path} to {to} but {DIRECTORY}/ with "
            "the tools of the store."
        )
    source, target = LocalFiles(path).root, LocalFiles(to).root
    if target.exists():
        raise CannotCopy(f"{target} exists already; name a directory that does not, so that nothing is overwritten.")
    if target.resolve().is_relative_to(source.resolve()):
        raise CannotCopy(f"{target} lies in {source} itself; name a directory beside it.")
    lease = Lease.take(LocalFiles(path), path)
    beside = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        shutil.copytree(source, beside, ignore=_without_lease(source))
        between()
        beside.rename(target)
    except BaseException:
        shutil.rmtree(beside, ignore_errors=True)
        raise
    finally:
        lease.release()
    note(__name__, "state copied", state=path, to=to)
    return sum(file.stat().st_size for file in target.rglob("*") if file.is_file())


def _without_lease(root: Path) -> Callable[[str, list[str]], set[str]]:
    """Who holds the one does not hold the other."""
    return lambda directory, names: {DIRECTORY} & {*names} if Path(directory) == root else set()


__all__ = ["PEOPLES", "CannotCopy", "Cleaned", "clean", "copy", "spared"]
