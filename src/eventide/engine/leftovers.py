"""What runs have left in a state that no commit refers to: they died before a commit, between it and the eviction, or lost the state to another.

A run that was suspended and not dead may still commit the batch that it was at, as long as nobody else has: until then its files are not ours to
remove. Where nobody can tell, only batches that are committed are cleared, and a run does so once it has committed one itself.
"""

from __future__ import annotations

from eventide.definition.pipeline import Pipeline
from eventide.engine.batch.rows import AUDIT
from eventide.lateness.measured import LATENESS
from eventide.state.archive import clear_uncommitted
from eventide.state.ledger import Ledger
from eventide.state.store import Store, attempt_in
from eventide.state.trace import TRACE


def clear_leftovers(pipeline: Pipeline, store: Store, generation: int, ledger: Ledger) -> None:
    """Remove what the committed batches do not consist of; of what users read, only that of the last batch, where it is cheap to find."""
    _clear_parts(store, ledger)
    told = [f"{kind}/{output.name}" for kind in ("panes", "late") for output in pipeline.outputs]
    for directory in ("dead", AUDIT, LATENESS, TRACE, *told):
        files = store.files(f"{directory}/batch={ledger.batch}")
        store.delete(f for f in files if attempt_in(f) != ledger.attempt_of(ledger.batch))
    if pipeline.archive is not None:
        clear_uncommitted(pipeline.archive, generation, ledger)


def clear_tries(pipeline: Pipeline, store: Store, generation: int, ledger: Ledger, begun: bool) -> None:
    """Remove what is there of the batch after the last committed one, when whoever tried it is known to be gone.

    Of a batch that was begun sinks may have parts: should it never be finished, its panes say which.
    """
    number = ledger.batch + 1
    for name in _batches(store):
        if int(name) >= number:
            store.delete_directory(f"data/{name}")
    told = [f"{kind}/{output.name}" for kind in (("late",) if begun else ("panes", "late")) for output in pipeline.outputs]
    for directory in ("dead", AUDIT, LATENESS, TRACE, *told):
        store.delete_directory(f"{directory}/batch={number}")
    if pipeline.archive is not None:
        clear_uncommitted(pipeline.archive, generation, ledger, tries=True)


def _clear_parts(store: Store, ledger: Ledger) -> None:
    known = {part.path for part in ledger.parts}
    live = {path.split("/")[1] for path in known}
    for name in _batches(store):
        if int(name) > ledger.batch:
            continue
        if name in live:
            store.delete(f for f in store.files(f"data/{name}") if f not in known)
        else:
            store.delete_directory(f"data/{name}")


def _batches(store: Store) -> list[str]:
    """The directories of parts, by the numbers of their batches; what file servers and people put beside them is not ours."""
    return [name for name in store.directories("data") if name.isdigit()]
