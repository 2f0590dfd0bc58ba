"""The SQL that fills a target by rank and shows it to readers."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pyarrow as pa

from eventide.sinks.shape import PaneShape
from eventide.sinks.target import Target

Quote = Callable[[str], str]


def names(columns: Iterable[str], quote: Quote, of: str = "") -> str:
    """Quoted column names, separated by commas."""
    return ", ".join(of + quote(column) for column in columns)


def outranks(rank: tuple[str, ...], new: str, old: str, quote: Quote) -> str:
    """The condition under which one row's rank, compared as a whole, is greater than another's."""
    column = quote(rank[0])
    greater = f"{new}.{column} > {old}.{column}"
    if len(rank) == 1:
        return greater
    return f"({greater} or ({new}.{column} = {old}.{column} and {outranks(rank[1:], new, old, quote)}))"


def upsert(target: Target, table: str, source: str, quote: Quote) -> str:
    """Put the rows of a source (`values (…)` or `select …`) into the table where they outrank what is there."""
    into = f"insert into {table} as t ({names(target.columns.names, quote)}) {source}"
    into += f" on conflict ({names(target.identity, quote)})"
    if not target.rank:
        return f"{into} do nothing"
    changes = ", ".join(f"{quote(name)} = excluded.{quote(name)}" for name in target.others)
    return f"{into} do update set {changes} where {outranks(target.rank, 'excluded', 't', quote)}"


def merge(target: Target, table: str, source: str, quote: Quote) -> str:
    """The same as `upsert` in the words of the SQL standard; the source must have one row per identity."""
    same = " and ".join(f"t.{quote(name)} = s.{quote(name)}" for name in target.identity)
    matched = ""
    if target.rank:
        changes = ", ".join(f"{quote(name)} = s.{quote(name)}" for name in target.others)
        matched = f"when matched and {outranks(target.rank, 's', 't', quote)} then update set {changes} "
    columns = target.columns.names
    insert = f"insert ({names(columns, quote)}) values ({names(columns, quote, 's.')})"
    return f"merge into {table} t using ({source}) s on {same} {matched}when not matched then {insert}"


def distinct(table: str, column: str, texts: Iterable[str]) -> str:
    """Those of some texts that a column tells apart: what is put together takes the column's collation, and needs no row of it.

    >>> distinct("t", "id", ["a", "A"])
    "select id from t where 1 = 0 union select 'a' union select 'A'"
    """
    chosen = " ".join(f"union select '{text}'" for text in texts)
    return f"select {column} from {table} where 1 = 0 {chosen}"


Shown = Callable[[str, pa.DataType], str]
Added = Callable[[str, str, pa.DataType], str]


def reader_view(shape: PaneShape, table: str, quote: Quote, shown: Shown, added: Added) -> str:
    """The select behind the view that people read: no tombstones; deltas of the highest generation added up."""
    kinds = dict(zip(shape.schema.names, shape.schema.types, strict=True))

    def show(name: str, expression: str | None = None) -> str:
        column = quote(name)
        return f"{shown(expression or column, kinds[name])} as {column}"

    meta = {name: shape.meta(name) for name in ("window_id", "sequence", "op", "timing", "generation", "emitted_at")}
    fixed = [shape.meta("window_start"), shape.meta("window_end"), *shape.key_names]
    if shape.accumulation != "discarding":
        tail = [meta[name] for name in ("sequence", "timing", "generation", "emitted_at", "window_id")]
        columns = ", ".join(show(name) for name in [*fixed, *shape.value_names, *tail])
        return f"select {columns} from {table} where {quote(meta['op'])} = 'insert'"
    sums = [show(name, added(shape.added_by(name), quote(name), kinds[name])) for name in shape.value_names]
    last = [show(meta[name], f"max({quote(meta[name])})") for name in ("sequence", "generation", "emitted_at")]
    columns = ", ".join([*(show(name) for name in fixed), *sums, *last, show(meta["window_id"])])
    newest = f"max({quote(meta['generation'])}) over (partition by {quote(meta['window_id'])})"
    source = f"(select {names(kinds, quote)}, {newest} as eventide_newest from {table}) as ranked"
    group = names([meta["window_id"], *fixed], quote)
    newest_of = f"{quote(meta['generation'])} = eventide_newest and {quote(meta['op'])} = 'insert'"
    return f"select {columns} from {source} where {newest_of} group by {group}"
