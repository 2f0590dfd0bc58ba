"""A pipeline out of the file that defines it."""

from __future__ import annotations

import runpy
from pathlib import Path

import click

from eventide.pipeline import Pipeline


def load_pipeline(place: str) -> Pipeline:
    """The pipeline of `FILE` or `FILE:NAME`; without a name, the one called `pipeline` or the only one."""
    path, _, name = place.partition(":")
    if not Path(path).is_file():
        raise click.UsageError(
            f"{path} is not a file. Give the Python file that defines the pipeline, as in upi.py or upi.py:minutes."
        )
    values = runpy.run_path(path)
    found = {key: value for key, value in values.items() if isinstance(value, Pipeline)}
    if name or "pipeline" in found:
        name = name or "pipeline"
        if name not in found:
            raise click.UsageError(f"{path} defines no pipeline called {name!r}. It has {', '.join(found) or 'none'}.")
        return found[name]
    if len(found) != 1:
        raise click.UsageError(
            f"{path} defines {len(found)} pipelines ({', '.join(found) or 'none'}); name one, as in {path}:NAME."
        )
    return next(iter(found.values()))
