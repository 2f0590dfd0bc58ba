"""Which generations there are: of states set aside, of backfills that were delivered, and of what stands in sinks."""

from __future__ import annotations

import glob
from collections.abc import Iterable
from pathlib import Path

from eventide.definition.output import Output
from eventide.errors import TargetMismatch
from eventide.sinks.base import Held, TableSink
from eventide.sinks.shape import PaneShape
from eventide.state.journal import LocalFiles
from eventide.state.records import record_files
from eventide.storage.address import is_local
from eventide.storage.files import RecordFiles

DIRECTORY = "generations"
ASIDE = ".generation-"
TAKEN = ".taken"
NONE = -1
"""Below every generation."""


def states_aside(state: str) -> list[tuple[int, str]]:
    """The states that starting over, or a hand, has put beside this one, by their generation, oldest first."""
    parent, name = _place(state)
    return sorted((number, f"{parent}/{name}{ASIDE}{written}") for number, written in _called_after(state))


def note_waiting(state: str, generation: int) -> None:
    """Write down beside a state a generation that waits before sinks which know nothing of it yet.

    Late rows and dead letters go by its number from the start: should its state be removed, the next one must not take that number again.
    """
    parent, name = _place(state)
    if parent:
        record_files(parent).create(f"{name}{ASIDE}{generation}{TAKEN}", b"")


def _taken(state: str) -> list[int]:
    """The generations that waited in states that may be gone."""
    return [number for number, _ in _called_after(state, TAKEN)]


def _place(state: str) -> tuple[str, str]:
    """Where a state lies, and its name there; nothing lies beside one that is a whole bucket."""
    if is_local(state):
        root = LocalFiles(state).root
        return str(root.parent), root.name
    parent, _, name = state.rstrip("/").rpartition("/")
    return ("", name) if parent.endswith("/") else (parent, name)


def _called_after(state: str, ending: str = "") -> list[tuple[int, str]]:
    """What lies beside a state under its name and a generation: the number, and how it is written."""
    parent, name = _place(state)
    if is_local(state):
        names = [path.name for path in Path(parent).glob(f"{glob.escape(name)}{ASIDE}*{ending}")]
    else:
        names = record_files(parent).names("") if parent else []
    written = [
        n.removeprefix(f"{name}{ASIDE}").removesuffix(ending)
        for n in names
        if n.startswith(f"{name}{ASIDE}") and n.endswith(ending)
    ]
    return [(int(number), number) for number in written if number.isdigit()]


def noted(files: RecordFiles) -> int:
    """The highest generation that a backfill took from a state."""
    numbers = (name.removesuffix(".json") for name in files.names(DIRECTORY))
    return max((int(number) for number in numbers if number.isdigit()), default=NONE)


def take(files: RecordFiles, above: int) -> int:
    """Take the next generation for a backfill, and write that down: whoever comes after it takes a higher one."""
    number = above + 1
    while not files.create(f"{DIRECTORY}/{number:08d}.json", b"{}"):
        number += 1
    return number


def of_states(files: RecordFiles, state: str) -> int:
    """The highest generation that this state, those set aside and those that are gone are known to have taken."""
    aside = states_aside(state)
    return max(
        [noted(files), *_taken(state), *(number for number, _ in aside), *(noted(record_files(path)) for _, path in aside)]
    )


def standing(outputs: Iterable[Output], shapes: dict[str, PaneShape]) -> dict[str, Held]:
    """What the sinks hold of each output, of those that can be asked."""
    asked = {o.name: o.sink.held(o.name, shapes[o.name]) for o in outputs if isinstance(o.sink, TableSink)}
    return {name: held for name, held in asked.items() if held is not None}


def refuse_outranked(
    outputs: Iterable[Output], shapes: dict[str, PaneShape], generation: int, files: RecordFiles, state: str
) -> None:
    """Stop where a sink holds results of a generation that this state knows nothing of: they would outrank all that it says."""
    for name, stands in standing(outputs, shapes).items():
        if stands.generation > max(generation, noted(files)):
            raise TargetMismatch(
                f"the sink of output {name!r} holds results of generation {stands.generation}, and the state in {state} is of generation "
                f"{generation}: whatever it says of the same windows would be outranked and never seen. Nothing was delivered. Start over with the "
                "next generation, whose results replace the old ones: eventide run FILE --start-over. Or give the output another target."
            )


def fits(output: Output, shape: PaneShape, held: Held | None) -> bool:
    """Whether an output's results can stand beside those of older generations, or must wait to replace them whole."""
    if held is None or not isinstance(output.sink, TableSink):
        return True
    if held.signature and held.signature != shape.signature:
        return False
    try:
        output.sink.open(output.name, shape).close()
    except TargetMismatch:  # other columns: an aggregate that is gone, or of another type
        return False
    return True


__all__ = [
    "ASIDE",
    "NONE",
    "fits",
    "note_waiting",
    "noted",
    "of_states",
    "refuse_outranked",
    "standing",
    "states_aside",
    "take",
]
