"""Which generations there are: of states set aside, of backfills that were delivered, and of what stands in sinks."""

from __future__ import annotations

import glob
from collections.abc import Iterable

from eventide.definition.output import Output
from eventide.errors import TargetMismatch
from eventide.sinks.base import Held, TableSink
from eventide.sinks.shape import PaneShape
from eventide.state.journal import LocalFiles
from eventide.storage.address import is_local
from eventide.storage.files import RecordFiles

DIRECTORY = "generations"
ASIDE = ".generation-"
TAKEN = ".taken"
NONE = -1
"""Below every generation."""


def states_aside(state: str) -> list[tuple[int, str]]:
    """The states that starting over has put beside this one, by their generation, oldest first."""
    if not is_local(state):
        return []
    root = LocalFiles(state).root
    found = root.parent.glob(f"{glob.escape(root.name)}{ASIDE}*")
    numbered = ((path.name.removeprefix(f"{root.name}{ASIDE}"), str(path)) for path in found)
    return sorted((int(number), path) for number, path in numbered if number.isdigit())


def note_waiting(state: str, generation: int) -> None:
    """Write down beside a state a generation that waits before sinks which know nothing of it yet.

    Late rows and dead letters go by its number from the start: should its state be removed, the next one must not take that number again.
    """
    if is_local(state):
        root = LocalFiles(state).root
        LocalFiles(str(root.parent)).create(f"{root.name}{ASIDE}{generation}{TAKEN}", b"")


def _taken(state: str) -> list[int]:
    """The generations that waited in states that may be gone."""
    if not is_local(state):
        return []
    root = LocalFiles(state).root
    found = root.parent.glob(f"{glob.escape(root.name)}{ASIDE}*{TAKEN}")
    numbers = (path.name.removeprefix(f"{root.name}{ASIDE}").removesuffix(TAKEN) for path in found)
    return [int(number) for number in numbers if number.isdigit()]


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
        [noted(files), *_taken(state), *(number for number, _ in aside), *(noted(LocalFiles(path)) for _, path in aside)]
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
