"""What may change when a pipeline starts again on its state, and what needs a new state."""

from __future__ import annotations

from typing import Any

import polars as pl

from eventide.errors import EventideError

FIXED = ("window", "keys", "aggregates", "sources", "dedupe", "columns")


class DefinitionChanged(EventideError):
    """The state was made by another definition, in a way that its contents no longer fit."""


def describe_definition(
    pipeline: Any, kinds: dict[str, pl.DataType], lanes: dict[str, list[str]], buckets: int
) -> dict[str, Any]:
    """The facts of a definition that its state depends on."""
    aggregation = pipeline.aggregation
    needed = {column for _, what in aggregation.aggregates for column in what.columns} | set(aggregation.keys)
    return {
        "pipeline": pipeline.name,
        "window": repr(aggregation.window),
        "keys": list(aggregation.keys),
        "aggregates": [[name, repr(what)] for name, what in aggregation.aggregates],
        "sources": [source.name for source in aggregation.stream.sources],
        "dedupe": [list(aggregation.stream.dedupe_keys), aggregation.stream.dedupe_within],
        "columns": {name: str(kind) for name, kind in kinds.items() if name in needed},
        "outputs": {o.name: {"allowed": o.late.allowed, "accumulation": o.accumulation} for o in pipeline.outputs},
        "lanes": lanes,
        "buckets": buckets,
        "generation": pipeline.generation,
    }


def check_definition(stored: dict[str, Any] | None, mine: dict[str, Any], state: str) -> dict[str, Any]:
    """The facts to go on with: lanes, buckets and generation stay as they were; the rest must fit."""
    if stored is None:
        return mine
    for part in FIXED:
        if stored[part] != mine[part]:
            raise DefinitionChanged(
                f"the {part} of pipeline {mine['pipeline']!r} changed from {stored[part]!r} to {mine[part]!r}, but the state in {state} was "
                "made by the old one, and cannot be read as the new. Sinks, new outputs and trigger intervals may change at any time; for "
                f"this, start over with the next generation, whose results replace the old ones in every sink: eventide run FILE --start-over."
            )
    widest = max((facts["allowed"] for facts in stored["outputs"].values()), default=0)
    for name, facts in mine["outputs"].items():
        old = stored["outputs"].get(name)
        if old is not None and old != facts:
            raise DefinitionChanged(
                f"output {name!r} changed from {old} to {facts}; what it already said cannot be continued under another policy. Give the "
                "changed output a new name, or start over: eventide run FILE --start-over."
            )
        if old is None and facts["allowed"] > widest:
            raise DefinitionChanged(
                f"the new output {name!r} allows more lateness than the state in {state} was kept for; its windows are gone already. "
                "Start over: eventide run FILE --start-over."
            )
    return {**mine, "lanes": stored["lanes"], "buckets": stored["buckets"], "generation": stored["generation"]}
