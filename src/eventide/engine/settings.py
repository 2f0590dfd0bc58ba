"""Every setting of a definition: whether it may change on existing state, why, and what it is in the user's words."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any

from eventide.definition.join import Join
from eventide.definition.output import Output
from eventide.definition.pipeline import Pipeline
from eventide.definition.source import Source
from eventide.definition.stream import Aggregation, Stream
from eventide.model.policy import LatePolicy
from eventide.model.time import duration, span
from eventide.model.view import WHOLE
from eventide.redaction import masked
from eventide.sources.delta import DeltaRows
from eventide.sources.files import FileSource
from eventide.sources.frame import FrameSource
from eventide.sources.generated import GeneratedRows
from eventide.sources.kafka import KafkaSource
from eventide.sources.mended import MendedSource
from eventide.storage.address import for_arrow, is_local
from eventide.wording import words

FREE, NEW, REFUSED, PARTS = "free", "needs a new generation", "refused", "by its parts"
UNSEEN: Callable[[Any], str] | None = None
"""Of values that cannot be compared (functions, DataFrames), or that may hold a password: they are not written down."""


@dataclass(frozen=True)
class Rule:
    """What a change of one setting means for a state that was made before it."""

    change: str
    why: str
    words: Callable[[Any], str] | None = words
    before: str | None = None
    """What it was, in words, in a state that was made before there was such a setting."""


def place(path: str) -> str:
    """Where a path leads, without the password that an address may hold.

    >>> place("s3://key:secret@bucket/landing"), place("s3a://bucket/landing")
    ('"s3://key:***@bucket/landing"', '"s3://bucket/landing"')
    """
    whole = os.path.abspath(path.removeprefix("file://").removeprefix("file:")) if is_local(path) else for_arrow(path)
    return words(masked(whole))


def _admitting(policy: LatePolicy) -> str:
    """A policy without where it puts what it refuses."""
    return "divert()" if policy.name == "divert" else words(replace(policy, refused=None))


def _source(frame: object) -> str:
    """A DataFrame that is opened by one of our own values, by that value; of others nothing can be said."""
    if isinstance(frame, DeltaRows):
        return f"delta_table({place(frame.path)})"
    return repr(frame) if isinstance(frame, GeneratedRows) else "a DataFrame"


def _side(stream: Stream) -> str:
    """A side of a join: its sources by their names, and what it holds for the same event."""
    names = words([source.name for source in stream.sources])
    within = stream.dedupe_within
    return names if within is None else f"{names}.dedupe({words(list(stream.dedupe_keys))}, within={span(within)})"


_LANES = "lanes are told apart by it: those that the state knows would hold W for ever, or be read again under other names"
_ANY_SOURCE = {
    "name": Rule(NEW, _LANES),
    "event_time": Rule(NEW, "rows before and after would be put into windows by different times"),
    "watermark": Rule(FREE, "W never goes back: rows read from now on are judged by the new one, what was said stands"),
    "idle_after": Rule(FREE, "lanes fall idle by the new span from now on; W never goes back", span),
    "arrival": Rule(NEW, "rows before and after would be put in order by different times"),
    "time_unit": Rule(NEW, "the same number would be another time"),
    "time_zone": Rule(NEW, "the same timestamp would be another time"),
    "time_format": Rule(NEW, "the same text would be another time"),
    "max_ahead": Rule(FREE, "rows read from now on are dead letters by the new span", span),
    "max_skew": Rule(FREE, "rows read from now on are lowered to the clock by the new span", span),
    "transforms": Rule(FREE, "functions cannot be compared: start over if they change what a row means", UNSEEN),
    "maps": Rule(FREE, "functions cannot be compared: start over if they change what a row means", UNSEEN),
}
RULES: dict[type, dict[str, Rule]] = {
    Pipeline: {
        "name": Rule(REFUSED, "the state belongs to the pipeline that made it; give this one a state directory of its own"),
        "outputs": Rule(PARTS, "each output by its name, in any order"),
        "state": Rule(FREE, "another directory is another state", UNSEEN),
        "when_all_idle": Rule(FREE, "W moves by the new rule from now on, and never goes back"),
        "buckets": Rule(NEW, "the state's files are cut by it; without buckets= the state keeps its own", UNSEEN),
        "generation": Rule(NEW, "the state keeps its own, and only a new state takes a higher one", UNSEEN),
        "dead_letter_sink": Rule(FREE, "dead letters go there from now on", UNSEEN),
        "archive": Rule(FREE, "what arrives from now on is kept there", lambda path: "None" if path is None else place(path)),
        "archive_format": Rule(FREE, "what arrives from now on is kept so"),
        "measure": Rule(FREE, "what arrives from now on is measured so"),
        "keep": Rule(
            FREE,
            "files that are older are removed by the new span from now on",
            lambda keep: span(keep and duration(keep)),
            "None",
        ),
        "audits": Rule(FREE, "events that are read from now on go there; what was delivered before stays where it is", UNSEEN),
    },
    Output: {
        "name": Rule(PARTS, "a new name is a new output, which begins now; a name that left does not come back"),
        "aggregation": Rule(PARTS, "its window, keys and aggregates"),
        "sink": Rule(FREE, "results go there from now on; what was delivered before stays where it is", UNSEEN),
        "late": Rule(NEW, "what it already said cannot be continued under another policy", _admitting),
        "late.refused": Rule(FREE, "rows that are refused from now on go there; those refused before stay where they are"),
        "early": Rule(FREE, "early results come by the new rule from now on"),
        "late_firing": Rule(FREE, "it changes how many corrections there are, never the last one"),
        "accumulation": Rule(NEW, "what it already said cannot be continued in another mode"),
        "view": Rule(NEW, "what it already said cannot be continued under another view", before=words(WHOLE)),
    },
    Aggregation: {
        "stream": Rule(PARTS, "its sources and what it holds for the same event"),
        "over": Rule(PARTS, "the results that a stage reads: a stage is known by all that it is made of"),
        "window": Rule(NEW, "the partial results in the state are cut by it"),
        "keys": Rule(NEW, "the partial results in the state are kept by them"),
        "pairs": Rule(PARTS, "the join whose pairs it reads"),
        "aggregates": Rule(
            NEW, "the partial results in the state are of them", lambda all: ", ".join(f"{n}={words(what)}" for n, what in all)
        ),
    },
    Join: {
        "left": Rule(NEW, "the rows in the state stand on the sides that they came on, each once", _side),
        "right": Rule(NEW, "the rows in the state stand on the sides that they came on, each once", _side),
        "on": Rule(NEW, "the rows in the state are kept by it"),
        "within": Rule(NEW, "rows were let go by it that others could match now"),
        "how": Rule(NEW, "what it already said of rows without a match cannot be continued"),
        "late": Rule(PARTS, "the policy of its outputs"),
        "prefix": Rule(NEW, "the columns of the pairs in the sinks are called by it"),
        "self_pairs": Rule(NEW, "pairs of rows with themselves were stated, or not"),
        "shown": Rule(PARTS, "the columns of the pairs, which are compared by themselves"),
    },
    Stream: {
        "sources": Rule(PARTS, "each source by its name, in the same order"),
        "dedupe_keys": Rule(NEW, "the state remembers events by them"),
        "dedupe_within": Rule(NEW, "the state remembers events for so long", span),
    },
    FileSource: {
        **_ANY_SOURCE,
        "path": Rule(NEW, "files are remembered by their path: all of them would be read again", place),
        "format": Rule(NEW, "which files have been read is known for the files of one format"),
        "schema": Rule(FREE, "the columns that the state is made of must stay, and are compared by themselves"),
        "lane": Rule(NEW, _LANES),
        "files_per_batch": Rule(FREE, "how the stream is cut never shows"),
        "read": Rule(FREE, "rows are the same either way"),
        "on_bad_file": Rule(
            FREE, "files that cannot be read from now on go by the new rule; those that are dead letters stay so"
        ),
    },
    KafkaSource: {
        **_ANY_SOURCE,
        "servers": Rule(FREE, "the same cluster may be reached by other names"),
        "topics": Rule(NEW, f"of several topics a lane is called by topic and partition, of one by the partition; {_LANES}"),
        "value": Rule(FREE, "the columns that the state is made of must stay, and are compared by themselves"),
        "starting": Rule(FREE, "it has no effect any more: the state goes on from its own offsets"),
        "rows_per_batch": Rule(FREE, "how the stream is cut never shows"),
        "headers": Rule(FREE, "one column more or less, from now on"),
        "options": Rule(FREE, "how the cluster is reached", UNSEEN),
    },
    FrameSource: {
        **_ANY_SOURCE,
        "frame": Rule(NEW, "its rows would be read again from the start", _source),
        "lane": Rule(NEW, _LANES),
        "offset": Rule(NEW, "rows before and after would be put in order by different columns"),
        "connectors": Rule(FREE, "how its rows are reached"),
        "lanes": Rule(FREE, "the state keeps the lanes that it began with", UNSEEN),
    },
}

RULES[MendedSource] = RULES[FileSource]


def settings_of(pipeline: Pipeline) -> dict[str, dict[str, str]]:
    """Every setting that can be compared, in the user's words, by the part that it is a setting of."""
    alone = pipeline.join is not None or (len(pipeline.aggregations) == 1 and not pipeline.stages)
    only = _said(pipeline.join or pipeline.aggregation) if alone else {}
    found = {"pipeline": _said(pipeline), "stream": {**only, **_said(pipeline.stream)}}
    for source in pipeline.sources:
        found[f"source {source.name!r}"] = _said(source)
    for output in pipeline.outputs:
        found[f"output {output.name!r}"] = _said(output)
    return found


def signature_of(aggregation: Aggregation | Join) -> str:
    """An aggregation, or a join, in its user's words: by it a state knows its own again."""
    if isinstance(aggregation, Join):
        return str(aggregation)
    said, over = signature(_said(aggregation)), aggregation.over
    if over is None:
        return said
    return f"{said}, over the results of [{signature_of(over.aggregation)}] ({words(over.view)}, late: {words(over.late)})"


def signature(said: Mapping[str, str]) -> str:
    """The same of what was said of an aggregation that is the only one.

    >>> signature({"window": 'tumbling("1 minute")', "keys": '"bank"', "aggregates": "n=count()", "dedupe_keys": "()"})
    'tumbling("1 minute") by "bank": n=count()'
    """
    return f"{said['window']} by {said['keys']}: {said['aggregates']}"


def rule_of(part: str, kind: str, setting: str) -> Rule:
    """The rule for a setting of a part; `kind` is the source's, where the part is a source."""
    if part == "stream":
        return {**RULES[Aggregation], **RULES[Join], **RULES[Stream]}[setting]
    if part.startswith("source "):
        return RULES[_KINDS[kind]][setting]
    return RULES[Pipeline if part == "pipeline" else Output][setting]


_KINDS: dict[str, type[Source]] = {kind.__name__: kind for kind in (FileSource, KafkaSource, FrameSource, MendedSource)}


def _said(part: object) -> dict[str, str]:
    rules = next(RULES[kind] for kind in type(part).__mro__ if kind in RULES)
    said = {
        name: rule.words(attrgetter(name)(part))
        for name, rule in rules.items()
        if rule.words is not None and rule.change != PARTS
    }
    return {"kind": type(part).__name__, **said} if isinstance(part, Source) else said
