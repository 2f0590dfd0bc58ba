"""History in Parquet files: the new shape filled in, or a dropped old field brought back."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl

from eventide.errors import EventideError
from eventide.migration.data.upcast import Upcast

MARKS = "_eventide"
_TOLD = "__recorded "
NO_KEY = "Which columns say that two rows are the same event? Give at least one with --key."


class HistoryRefused(EventideError):
    """History that cannot be rewritten as asked."""


@dataclass(frozen=True, slots=True)
class Filled:
    """What a rewriting did: files written now, files found done, and rows in those written now."""

    files: int
    skipped: int
    rows: int


def is_delta(path: str) -> bool:
    """Is there a Delta table? Its Parquet files must not be touched one by one: the log would no longer fit them."""
    return (Path(path) / "_delta_log").is_dir()


def fill(
    source: str,
    how: Upcast,
    name: str,
    *,
    target: str | None = None,
    spark: Any = None,
    history: str | None = None,
    key: Sequence[str] = (),
) -> Filled:
    """Rewrite the Parquet files below a directory so that each row has both shapes; in place unless a target is given.

    A file is written beside its target and renamed, then marked: stopped anywhere it can be run again, and goes on where
    it was. With Spark the files are shared out among its tasks; without, they are done one after the other here.

    With `history` and `key`, values that were recorded while both shapes were written are taken from there, row by row,
    before any is computed.
    """
    root, out = Path(source), Path(target or source)
    if history is not None and not key:
        raise HistoryRefused(NO_KEY)
    if is_delta(source):
        raise HistoryRefused(f"{source} is a Delta table; its files must not be rewritten one by one. Give --format delta.")
    files = sorted(p for p in root.rglob("*.parquet") if not _hidden(p.relative_to(root)))
    if not files:
        raise HistoryRefused(f"There are no Parquet files below {source}. Give the directory of a Parquet or Delta table.")
    marks = out / MARKS / name
    marks.mkdir(parents=True, exist_ok=True)
    jobs = [(str(f), str(out / f.relative_to(root)), str(marks / (_flat(f.relative_to(root)) + ".done"))) for f in files]
    waiting = [job for job in jobs if not _done(job)]
    work = partial(_rewrite, how, history, tuple(key))
    if spark is None:
        rows = [work(job) for job in waiting]
    else:
        parallel = spark.sparkContext.parallelize(waiting, max(len(waiting), 1))
        rows = parallel.map(work).collect() if waiting else []
    return Filled(len(waiting), len(jobs) - len(waiting), sum(rows))


def _hidden(path: Path) -> bool:
    return any(part.startswith(("_", ".")) for part in path.parts)


def _flat(path: Path) -> str:
    return "+".join(path.parts)


def _done(job: tuple[str, str, str]) -> bool:
    """Is there a mark, and are both files still those that were marked?"""
    source, target, mark = job
    try:
        said = json.loads(Path(mark).read_text())
        return [_stamp(source), _stamp(target)] == [said["source"], said["target"]]
    except (OSError, ValueError, KeyError):
        return False


def _stamp(path: str) -> list[int]:
    """What tells a file from another of its name: its size and when it was written."""
    found = os.stat(path)
    return [found.st_size, found.st_mtime_ns]


def _rewrite(how: Upcast, history: str | None, key: tuple[str, ...], job: tuple[str, str, str]) -> int:
    source, target, mark = job
    read = _stamp(source)
    frame = pl.read_parquet(source, hive_partitioning=False)
    if history is not None:
        frame = recorded(frame, how, history, key)
    changed = how(frame)
    Path(target).parent.mkdir(parents=True, exist_ok=True)
    # Hidden, because whoever reads the directory meanwhile takes every other file for data.
    beside = Path(target).with_name(f".{Path(target).name}.{os.getpid()}.filling")
    changed.write_parquet(beside)
    written = _stamp(str(beside))
    os.replace(beside, target)
    said = {"rows": len(changed), "source": written if source == target else read, "target": written}
    Path(f"{mark}.tmp").write_text(json.dumps(said))
    os.replace(f"{mark}.tmp", mark)
    return len(changed)


def recorded(frame: pl.DataFrame, how: Upcast, history: str, key: tuple[str, ...]) -> pl.DataFrame:
    """The frame with the wanted columns as the dual-write history has them; what it has not stays as it is, or null."""
    kept = _dual_write(history)
    names = kept.collect_schema().names()
    for where, columns in ((history, names), ("the rows to rebuild", frame.columns)):
        lacking = [k for k in key if k not in columns]
        if lacking:
            raise HistoryRefused(f"--key {', '.join(lacking)} is no column of {where}, which has {', '.join(columns)}.")
    tops = sorted({p.partition(".")[0] for m in how.mappings for p in how.sides(m)[0]} & set(names))
    told = kept.filter(pl.any_horizontal(pl.col(tops).is_not_null())).select(*key, pl.col(tops).name.prefix(_TOLD))
    once = told.unique(subset=list(key), keep="first", maintain_order=True)
    joined = frame.lazy().join(once, on=list(key), how="left", maintain_order="left")
    own = [pl.col(t) for t in frame.columns if t in tops]
    values = {t: pl.coalesce(_TOLD + t, *(c for c in own if c.meta.output_name() == t)) for t in tops}
    return joined.with_columns(**values).drop(_TOLD + t for t in tops).collect()


def _dual_write(history: str) -> pl.LazyFrame:
    if is_delta(history):
        return pl.scan_delta(history)
    return pl.scan_parquet(f"{history}/**/*.parquet", hive_partitioning=False, missing_columns="insert", extra_columns="ignore")
