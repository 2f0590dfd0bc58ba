"""Rows that a state keeps, as commands show and export them: late rows and dead letters."""

from __future__ import annotations

import base64
import os
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.table import Table

from eventide.cli.faults import Refused, refuse_unwritable
from eventide.cli.tables import table
from eventide.readable.harmless import cell

if TYPE_CHECKING:
    import polars as pl

    from eventide.state.kept_rows import KeptRows

FORMS = (".parquet", ".csv", ".json")
MOST = 10
"""Lanes and reasons that are shown."""
WIDEST = 72
"""Signs of a value of a row."""


def rows_options(command: Callable[..., None]) -> Callable[..., None]:
    """The options by which rows are chosen."""
    for option in (
        click.option(
            "--export",
            type=click.Path(),
            help="Write all of them to this file, which must not be there: .parquet, .csv or .json (lines).",
        ),
        click.option("--sample", type=click.IntRange(1), help="Show so many, chosen by chance; asked again, the same."),
        click.option("--limit", default=10, show_default=True, type=click.IntRange(0), help="Show so many, the oldest first."),
    ):
        command = option(command)
    return command


def by_lane(names: list[str], counted: Counter[tuple[Any, ...]]) -> list[dict[str, Any]]:
    """Rows by source and lane, most first; what is counted begins with the place of the source and the lane."""
    found: Counter[tuple[str, str]] = Counter()
    for (source, lane, *_), number in counted.items():
        found[names[source], lane] += number
    return [{"source": source, "lane": lane, "rows": number} for (source, lane), number in found.most_common()]


def shown_lanes(lanes: list[dict[str, Any]]) -> Table:
    """The lanes that most rows came by."""
    made = table("lane", "rows")
    for one in lanes[:MOST]:
        made.add_row(cell(f"{one['source']}/{one['lane']}"), f"{one['rows']:,}")
    if len(lanes) > MOST:
        made.add_row(f"and {len(lanes) - MOST:,} more", "")
    return made


def chosen(rows: KeptRows, limit: int, sample: int | None) -> pl.DataFrame:
    """The rows to show."""
    return rows.first(limit) if sample is None else rows.sample(sample)


def shown_rows(frame: pl.DataFrame) -> Table:
    """Rows one below the other, a line for each column: side by side they would not fit. Bytes as the text that they are, as far as they are one."""
    made = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False)
    for row in frame.iter_rows(named=True):
        for name, value in row.items():
            made.add_row(cell(name), cell(_text(value), WIDEST))
        made.add_row("", "")
    return made


def as_records(frame: pl.DataFrame) -> list[dict[str, Any]]:
    """Rows as JSON has them: times as ISO text, bytes in base64."""
    return [{name: as_plain(value) for name, value in row.items()} for row in frame.iter_rows(named=True)]


def exported(rows: KeptRows, path: str) -> None:
    """Write all rows to a file, a piece at a time, and say how many on standard error. It gets its name when it is whole, and replaces none."""
    beside = Path(path).with_name(f".{Path(path).name}.{os.getpid()}")
    try:
        with _writer(rows, beside, Path(path).suffix) as write:
            number = 0
            for piece in rows.pieces():
                write(piece)
                number += len(piece)
        os.link(beside, path)
    except FileExistsError:
        raise _there(path) from None
    finally:
        beside.unlink(missing_ok=True)
    click.echo(f"{number:,} rows in {path}", err=True)


def refuse_export(path: str | None) -> None:
    """Say at the beginning what is wrong with the file that rows are to be written to."""
    if path is None:
        return
    refuse_unwritable("--export", path)
    if Path(path).suffix not in FORMS:
        raise Refused(f"--export {path}: its name must end with one of {', '.join(FORMS)}.")
    if Path(path).exists():
        raise _there(path)


def _there(path: str) -> Refused:
    return Refused(f"--export {path}: it is there already, and is not replaced. Name another file, or remove it.")


@contextmanager
def _writer(rows: KeptRows, path: Path, form: str) -> Iterator[Callable[[pl.DataFrame], None]]:
    """What writes pieces in a form; all of them get the columns of all files."""
    import polars as pl
    import pyarrow.parquet as pq

    schema = rows.schema
    empty = pl.from_arrow(schema.empty_table())
    assert isinstance(empty, pl.DataFrame)
    _refuse_nested(empty, form)

    def whole(piece: pl.DataFrame) -> pl.DataFrame:
        return pl.concat([empty, piece], how="diagonal_relaxed").select(empty.columns).cast(empty.schema)

    if form == ".parquet":
        with pq.ParquetWriter(path, empty.to_arrow().schema) as parquet:
            yield lambda piece: parquet.write_table(whole(piece).to_arrow().cast(empty.to_arrow().schema))
        return
    with path.open("wb") as file:
        if form == ".csv":
            _in_base64(empty).write_csv(file)
            yield lambda piece: _in_base64(whole(piece)).write_csv(file, include_header=False)
        else:
            yield lambda piece: _in_base64(whole(piece)).write_ndjson(file)


def _refuse_nested(empty: pl.DataFrame, form: str) -> None:
    nested = [name for name, kind in empty.schema.items() if kind.is_nested()]
    if form == ".csv" and nested:
        raise Refused(f"--export: CSV cannot hold nested values, as in {', '.join(nested)}. Export to .parquet or .json.")


def _in_base64(frame: pl.DataFrame) -> pl.DataFrame:
    import polars as pl

    return frame.with_columns(pl.col(pl.Binary).bin.encode("base64"))


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        return value.decode(errors="backslashreplace")
    return "" if value is None else value.isoformat() if isinstance(value, datetime) else str(value)


def as_plain(value: Any) -> Any:
    """A value as JSON has it: times as ISO text, bytes in base64."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return value if isinstance(value, str | int | float | bool | None) else _text(value)
