"""CSV files as columns, each record by itself: a record that is broken is one dead letter, whatever stands around it.

A cell that begins with a quote ends at the next single one, over commas and lines, and the next cell follows; an empty cell is null, and `""` an empty text. Arrow cuts many
records into cells at once; what it refuses is cut here by the same rules, one by one.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator

import polars as pl
import pyarrow as pa
import pyarrow.csv as pacsv

from eventide.engine.feeds.columnar import Kinds, texts_of
from eventide.engine.feeds.text_columns import from_texts
from eventide.engine.feeds.text_times import FEW, Times
from eventide.engine.feeds.values import Misfit
from eventide.kernel.columns import DEAD, RAW

Cells = list[bytes | None]
Record = tuple[bytes, str | None]
"""The bytes of one, and what is wrong with its quotes."""
OPEN = "a quote is never closed"
LOOSE = 'text after the quote that ends a cell; quotes inside of one are doubled (Spark writes them so with .option("escape", \'"\'))'


def records_of(lines: Iterable[bytes]) -> Iterator[Record]:
    r"""Lines put together where a quoted cell goes on over their end, each with what is wrong with its quotes; empty ones are none.

    >>> list(records_of([b'a,"b', b'c"', b"", b'd"e,f']))
    [(b'a,"b\nc"', None), (b'd"e,f', None)]
    """
    held: list[bytes] = []
    inside, wrong = False, False
    for line in lines:
        if inside or b'"' in line:
            inside, loose = _inside(line, inside)
            wrong = wrong or loose
        held.append(line)
        if inside:
            continue
        record = b"\n".join(held).removesuffix(b"\r")
        if record.strip():
            yield record, LOOSE if wrong else None
        held, wrong = [], False
    if held:
        yield b"\n".join(held), OPEN


def _inside(line: bytes, inside: bool) -> tuple[bool, bool]:
    """Whether a quoted cell is open at the end of a line, and whether anything but the next cell followed the end of one."""
    at, loose = 0, False
    while True:
        if not inside and line[at : at + 1] == b'"':
            inside, at = True, at + 1
        if inside:
            end = line.find(b'"', at)
            if end < 0:
                return True, loose
            if line[end + 1 : end + 2] == b'"':
                at = end + 2
                continue
            inside, at = False, end + 1
            loose = loose or (line[at : at + 1] not in (b"", b",") and line[at:] != b"\r")
        comma = line.find(b",", at)
        if comma < 0:
            return False, loose
        at = comma + 1


def cells_of(record: bytes) -> Cells:
    """The cells of one record.

    >>> cells_of(b'a,,"","b,""c"')
    [b'a', None, b'', b'b,"c']
    """
    cells: Cells = []
    at = 0
    while True:
        quoted = record[at : at + 1] == b'"'
        begun = b""
        if quoted:
            end = at + 1
            while True:
                end = record.find(b'"', end)
                if end < 0:
                    raise Misfit(OPEN)
                if record[end + 1 : end + 2] != b'"':
                    break
                end += 2
            begun, at = record[at + 1 : end].replace(b'""', b'"'), end + 1
        comma = record.find(b",", at)
        cell = begun + (record[at:] if comma < 0 else record[at:comma])
        cells.append(None if not cell and not quoted else cell)
        if comma < 0:
            return cells
        at = comma + 1


def header_of(first: Record, kinds: Kinds) -> list[str]:
    """The names in a header; one that is asked for must not stand there twice."""
    record, wrong = first
    try:
        if wrong is not None:
            raise Misfit(wrong)
        names = [(cell or b"").decode() for cell in cells_of(record)]
    except (Misfit, UnicodeDecodeError) as error:
        raise ValueError(f"its first line is no header: {error}") from None
    for name in kinds:
        if names.count(name) > 1:
            raise ValueError(f"its header names the column {name!r} {names.count(name)} times")
    _refuse_strange(names, kinds)
    return names


def _refuse_strange(names: list[str], kinds: Kinds) -> None:
    """Refuse a header that means columns which are asked for and does not name them: they would be null in every row."""
    if any("\r" in name for name in names):
        raise ValueError("its header holds a carriage return: lines end with a line feed, or with both")
    if kinds and not any(name in kinds for name in names):
        found = ", ".join(map(repr, names))
        raise ValueError(
            f"its header names none of the columns {', '.join(kinds)}, but {found[:200]}; cells stand between commas"
        )
    meant = {name.strip().casefold(): name for name in names if name not in kinds}
    for name in kinds:
        near = None if name in names else meant.get(name.strip().casefold())
        if near is not None:
            raise ValueError(f"its header names the column {near!r}, and asked for is {name!r}")


def decode_csv(records: list[Record], header: list[str], kinds: Kinds, times: Times) -> pl.DataFrame:
    """Records as the columns asked for, why a row is a dead letter, and the bytes of those that are."""
    bodies = [record for record, _ in records]
    wanted = {name: header.index(name) for name in kinds if name in header}
    cells, reasons = _cut(bodies, len(header), list(wanted.values()))
    reasons |= {index: wrong for index, (_, wrong) in enumerate(records) if wrong is not None}
    columns = {name: pl.repeat(None, len(bodies), dtype=kind, eager=True) for name, kind in kinds.items()}
    for name, column in zip(wanted, cells, strict=True):
        columns[name], wrong = _typed(column, kinds[name], times)
        for row, reason in wrong.items():
            reasons.setdefault(row, f"another schema: the column {name!r}: {reason}")
    dead: list[str | None] = [None] * len(bodies)
    raw: list[bytes | None] = [None] * len(bodies)
    for row, reason in reasons.items():
        dead[row], raw[row] = reason, bodies[row]
    return pl.DataFrame({**columns, DEAD: pl.Series(dead, dtype=pl.String), RAW: pl.Series(raw, dtype=pl.Binary)})


def _cut(records: list[bytes], width: int, wanted: list[int]) -> tuple[list[pl.Series], dict[int, str]]:
    """The cells asked for, column by column, and why a record has none."""
    found = _cut_together(records, width, wanted)
    if found is not None:
        return found, {}
    if len(records) > FEW:
        half = len(records) // 2
        (one, bad), (other, worse) = _cut(records[:half], width, wanted), _cut(records[half:], width, wanted)
        return [pl.concat(pair) for pair in zip(one, other, strict=True)], bad | {half + row: why for row, why in worse.items()}
    rows: list[Cells] = []
    reasons = {}
    for index, record in enumerate(records):
        cells: Cells = []
        try:
            cells = cells_of(record)
            if len(cells) != width:
                raise Misfit(f"{len(cells)} cells, and the header has {width}")
        except Misfit as error:
            cells, reasons[index] = [None] * width, str(error)
        rows.append(cells)
    return [pl.Series([row[place] for row in rows], dtype=pl.Binary) for place in wanted], reasons


def _cut_together(records: list[bytes], width: int, wanted: list[int]) -> list[pl.Series] | None:
    body = b"\n".join(records) + b"\n"  # without which an empty last cell would be a text
    if not records or b"\r" in body:  # which Arrow holds for the end of a line
        return None
    names = [str(place) for place in range(width)]
    try:
        table = pacsv.read_csv(
            io.BytesIO(body),
            read_options=pacsv.ReadOptions(use_threads=False, column_names=names, block_size=len(body) + 1),
            parse_options=pacsv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False),
            convert_options=pacsv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.large_binary()), include_columns=[str(place) for place in wanted],
                null_values=[""], strings_can_be_null=True, quoted_strings_can_be_null=False,
            ),
        )  # fmt: skip
    except pa.ArrowInvalid:
        return None
    if wanted and table.num_rows != len(records):
        return None
    return [pl.Series(table.column(str(place)), dtype=pl.Binary) for place in wanted]


def _typed(cells: pl.Series, kind: pl.DataType, times: Times) -> tuple[pl.Series, dict[int, str]]:
    """Cells in a column's type, and why some do not fit it."""
    texts = texts_of(cells)
    column, wrong = from_texts(texts, kind, times)
    return column, {**wrong, **dict.fromkeys((texts.is_null() & cells.is_not_null()).arg_true().to_list(), "not UTF-8")}
