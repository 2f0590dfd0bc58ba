"""Statements of the warehouses: each is one of its own dialect's; a setting that is secret is never shown."""

from __future__ import annotations

import pyarrow as pa
import pytest
import sqlglot

from eventide.sinks import PaneShape
from eventide.sinks.kinds.bigquery import BigQueryDialect
from eventide.sinks.kinds.snowflake import SnowflakeDialect, snowflake
from eventide.sinks.sql_generations import view_of
from eventide.sinks.target import Target
from eventide.sinks.warehouse import MergeDialect, Warehouse
from tests.sinks.panes import DELTAS, SHAPE

EVERY_KIND = PaneShape(
    keys=(("odd key", pa.string()),),
    values=tuple(
        (f"v{number}", kind)
        for number, kind in enumerate(
            [pa.bool_(), pa.int64(), pa.float64(), pa.decimal128(38, 2), pa.decimal128(38, 20), pa.date32(), pa.time64("us"), pa.binary(), pa.timestamp("us"), pa.list_(pa.string())]
        )
    ),
)  # fmt: skip


@pytest.mark.parametrize("dialect", [SnowflakeDialect(), BigQueryDialect("acme.sales")], ids=["snowflake", "bigquery"])
@pytest.mark.parametrize("shape", [SHAPE, DELTAS, EVERY_KIND], ids=["totals", "deltas", "every kind"])
def test_every_statement_is_one_of_its_dialect(dialect: MergeDialect, shape: PaneShape) -> None:
    database = Warehouse(lambda: None, dialect)
    target = Target.of_panes("totals", shape)
    staging = dialect.located("eventide_staged_0")
    columns = ", ".join(f"{database.quote(f.name)} {database.type_of(f.type)}" for f in target.columns)
    statements = [
        database.create_table(target),
        dialect.temporary.format(name=staging, columns=columns),
        dialect.merge(target, database.located(target.name), f"select * from {staging}"),
        dialect.drop.format(name=staging),
        f"create or replace view {database.located('totals')} as {view_of(database, target, shape)}",
        database.distinct(target.name, shape.identity[0], ["a", "A"]),
        dialect.catalogue().replace("%s", "'totals'"),
        dialect.views().replace("%s", "'totals'"),
        f"select 1 where {database.quote('window_start')} >= {database.instant(0)}",
    ]
    name = "snowflake" if isinstance(dialect, SnowflakeDialect) else "bigquery"
    for statement in statements:
        (tree,) = sqlglot.parse(statement, read=name, error_level=sqlglot.ErrorLevel.RAISE)
        assert tree is not None and not isinstance(tree, sqlglot.exp.Command), statement


def test_a_password_among_the_settings_is_never_shown() -> None:
    assert "hunter2" not in repr(snowflake(account="acme", user="me", password="hunter2"))
