"""Dead letters mended: each is written once into the directory of a source of its own, from which the run reads it as an event.

What makes it exact is that nothing is decided twice. A letter is known by its place (source, lane, offset) in one generation. Its mended record says that
place, and stands in a file that is created once, whole or not at all, and never written again; who mends again reads the places from these files. The
run reads each file once, as it reads every file. Of two that mend at the same time one file wins, and the other is told.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime

from eventide.definition.pipeline import Pipeline
from eventide.definition.source import Source
from eventide.errors import DefinitionError, EventideError, StoreUnavailable
from eventide.kernel.place import DEAD_LETTERS
from eventide.redaction import masked
from eventide.sources.mended import MendedSource
from eventide.state.kept_rows import KeptRows
from eventide.state.records import record_files
from eventide.state.state import State
from eventide.storage.files import RecordFiles

PLACE = "_mended"
"""Beside the columns of a mended record: where it was dead."""
README = "_README"
"""Makes the directory; sources do not read names that begin so."""
FILE = re.compile(r"generation-(\d+)-(\d+)\.json")
MOST = 10_000
"""Records of a file."""
Place = tuple[str, str, int]


class MendRefused(EventideError):
    """Nothing was mended, or no more than is said: by going on a letter could be counted twice, or lost."""


@dataclass(frozen=True)
class Letter:
    """A record that could not be read."""

    source: str
    lane: str
    offset: int
    arrival: datetime | None
    event_time: datetime | None
    """None: it could not be told."""
    reason: str
    raw: bytes | None
    """Its bytes, where the source has any: of a row of a Parquet file there are none."""

    @property
    def place(self) -> Place:
        """By which it is known."""
        return self.source, self.lane, self.offset


@dataclass(frozen=True)
class Mending:
    """What came of it."""

    letters: int
    """Dead letters that the state keeps."""
    mended: int
    """By this call."""
    before: int
    """By earlier ones: they are not mended again."""
    left: int
    """Dead still: the function gave nothing for them."""
    files: tuple[str, ...] = ()


Mend = Callable[[Letter], Mapping[str, object] | None]


def mend(pipeline: Pipeline, change: Mend, into: str) -> Mending:
    """Write what a function makes of the dead letters into the directory of a source, each letter once."""
    source = _target(pipeline, into)
    state = State.of(pipeline)
    state.ledger  # noqa: B018 (a state that has committed nothing has no letters, and says so)
    files = record_files(source.path)
    numbers = _numbers(files, source, state.generation)
    done = {place for number in numbers for place in _places(files, state.generation, number)}
    before = left = 0
    waiting: list[str] = []
    written: list[str] = []
    number = max(numbers, default=0)

    def write() -> None:
        nonlocal number
        number += 1
        written.append(_name(state.generation, number))
        if not files.create(written[-1], "".join(waiting).encode()):
            raise MendRefused(
                f"{source.path}/{written[-1]} came into being meanwhile: somebody else mends at the same time. {len(written) - 1} files of this "
                "call stand. Ask again: what is mended by then is not mended twice."
            )
        waiting.clear()

    total = mended = 0
    for letter in _letters(state):
        total += 1
        if letter.place in done:
            before += 1
            continue
        record = _mended(change, letter)
        if record is None:
            left += 1
            continue
        done.add(letter.place)
        waiting.append(record)
        mended += 1
        if len(waiting) == MOST:
            write()
    if waiting:
        write()
    return Mending(total, mended, before, left, tuple(written))


def _target(pipeline: Pipeline, into: str) -> MendedSource:
    if pipeline.state is None:
        raise DefinitionError(
            f"pipeline {pipeline.name!r} has no state directory, and so no dead letters that could be mended."
        )
    found = [source for source in pipeline.sources if source.name == into]
    if found and isinstance(found[0], MendedSource):
        return found[0]
    able = [source.name for source in pipeline.sources if isinstance(source, MendedSource)]
    raise DefinitionError(
        f"pipeline {pipeline.name!r} has no source {into!r} that mended letters could come back by; "
        + (f"it has {', '.join(able)}." if able else 'give it one: ev.merge(source, ev.mended("again", "mended/", …)). ')
        + ("" if able else "On a state that stands that needs a new generation: eventide run FILE --start-over.")
    )


def _letters(state: State) -> Iterator[Letter]:
    for piece in KeptRows(state, "dead", DEAD_LETTERS).pieces():
        for row in piece.iter_rows(named=True):
            place = state.sources[row["source"]], row["lane"], row["offset"]
            yield Letter(*place, row["arrival"], row["event_time"], row["reason"], row["raw"])


def _mended(change: Mend, letter: Letter) -> str | None:
    """A line of the file; None where the letter is left as it is."""
    where = f"the dead letter at {letter.source}/{letter.lane}, offset {letter.offset} ({letter.reason})"
    try:
        record = change(letter)
    except Exception as error:
        raise MendRefused(masked(f"{where}: the function that mends it failed: {type(error).__name__}: {error}.")) from error
    if record is None:
        return None
    if not isinstance(record, Mapping) or PLACE in record:
        raise MendRefused(f"{where}: it was mended into {record!r:.200}. Give a dict of columns without {PLACE!r}, or None.")
    try:
        return json.dumps({**record, PLACE: letter.place}, default=_plain, allow_nan=False) + "\n"
    except (TypeError, ValueError) as error:
        raise MendRefused(f"{where}: what it was mended into cannot be written as JSON: {error}.") from error


def _plain(value: object) -> str:
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise ValueError(f"{value!r} has no zone: make it value.replace(tzinfo=datetime.UTC), or what it is")
        return value.isoformat()
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    raise TypeError(f"{type(value).__name__} {value!r:.100}; use texts, numbers, booleans, times, lists and dicts")


def _name(generation: int, number: int) -> str:
    return f"generation-{generation}-{number:06}.json"


def _numbers(files: RecordFiles, source: MendedSource, generation: int) -> list[int]:
    """The files of this generation; those of another were mended from letters of another reading of the sources."""
    found = [match for match in map(FILE.fullmatch, files.names("")) if match is not None]
    others = sorted({int(match[1]) for match in found} - {generation})
    if others:
        raise MendRefused(
            f"{source.path} holds letters that were mended for generation {others[0]}, and this is generation {generation}, which reads its sources "
            f"from their beginning: the same letters are dead again in it, or are read now, and with these files they would be counted twice. Move "
            f"them away (mv {source.path} {source.path.rstrip('/')}.generation-{others[0]}), then run, and mend again what is still dead."
        )
    return sorted(int(match[2]) for match in found)


def _places(files: RecordFiles, generation: int, number: int) -> Iterator[Place]:
    body = files.read(_name(generation, number))
    if body is None:
        raise StoreUnavailable(f"{_name(generation, number)} was listed and cannot be read. Ask again.")
    for line in body.splitlines():
        source, lane, offset = json.loads(line)[PLACE]
        yield source, lane, offset


def prepare(sources: Iterable[Source]) -> None:
    """Make the directories of sources of mended letters, before they are opened."""
    for source in sources:
        if isinstance(source, MendedSource):
            record_files(source.path).create(
                README, b"Dead letters that were mended, written by Eventide and by nobody else.\n"
            )


def refuse_other_generations(sources: Iterable[Source], generation: int) -> None:
    """Refuse to read letters again that were mended for another generation."""
    for source in sources:
        if isinstance(source, MendedSource):
            _numbers(record_files(source.path), source, generation)


__all__ = ["Letter", "Mend", "MendRefused", "Mending", "mend", "prepare", "refuse_other_generations"]
