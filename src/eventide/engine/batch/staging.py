"""A large delivery brought near its target by the executors, each its own files, and applied by the driver in one step."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial

import pyarrow as pa

from eventide.engine.batch.runner import Runner
from eventide.errors import SinkError, SinkRefused, SinkUnavailable, StagedPartsLost
from eventide.sinks.base import Delivery, StagedWriter
from eventide.state.store import Store

TRIES = 3
"""How often parts are staged again that were lost on the way: a server that crashed has emptied them."""


def is_large(writer: StagedWriter, store: Store, files: list[str]) -> bool:
    """Whether a delivery is worth the executors' connections; one file is one task, and gains nothing."""
    return len(files) > 1 and sum(map(store.count, files)) >= writer.parallel_from


def deliver_staged(
    writer: StagedWriter, runner: Runner, store: Store, files: list[str], schema: pa.Schema, delivery: Delivery
) -> None:
    """Stage every file as a part of its own, then apply all parts at once; until then readers see nothing of it.

    A task that runs twice stages the same rows under the same name. A batch that runs again has new files, so that no straggler of
    the earlier try can touch its parts. What is never applied is cleared when the sink is next opened.
    """
    tasks: list[Callable[[], str]] = [partial(_stage, writer, store, file, schema, delivery) for file in files]
    for tries_left in reversed(range(TRIES)):
        try:
            writer.deliver_staged([_token(line) for line in runner.run(tasks)], delivery)
            break
        except StagedPartsLost:
            if not tries_left:
                raise


def _stage(writer: StagedWriter, store: Store, file: str, schema: pa.Schema, delivery: Delivery) -> str:
    """On an executor. What the sink says goes back as text: an exception would lose its type on the way through Spark."""
    try:
        return json.dumps({"token": writer.stage(file, store.batches([file], schema), delivery)})
    except SinkError as error:
        return json.dumps({"refused": isinstance(error, SinkRefused), "said": str(error)})


def _token(line: str) -> str:
    answer = json.loads(line)
    if "token" in answer:
        return str(answer["token"])
    raise (SinkRefused if answer["refused"] else SinkUnavailable)(answer["said"])
