"""Revenue by the minute, into a warehouse: corrected for an hour, and what comes later put aside.

python examples/checkout_revenue starts a broker and a registry, runs this while the schema changes under it, and explains the gap that is left.
"""

import polars as pl

import eventide as ev
from eventide.migration import DriftWatch, MigrationClient, Upcast, open_migration
from eventide.registry.client import RegistryClient

PRICING = pl.col("pricing").struct
CENTS = PRICING.field("base") + PRICING.field("surge") + PRICING.field("tax")


def pipeline(servers, registry):
    """It names the new shape from its first day, and reads either: it is deployed once."""
    change = open_migration("pricing", registry)
    checkouts = ev.kafka(
        "checkouts",
        servers=servers,
        topic="checkouts",
        value=ev.avro(registry, reader=MigrationClient(RegistryClient(registry)).reader("pricing")),
        event_time="checked_out_at",
        watermark=ev.bounded("60 seconds"),
    )
    checked = checkouts.map(DriftWatch.of(change, registry=registry)).map(Upcast.of(change))
    priced = checked.map(lambda rows: rows.with_columns(CENTS.alias("cents")))
    return ev.Pipeline("checkout_revenue", revenue(priced), state="state", archive="archive")


def revenue(checkouts):
    """What the dashboard reads."""
    minutes = checkouts.window(ev.tumbling("1 minute")).agg(cents=ev.sum("cents"), n=ev.count())
    late = ev.accumulate("60 minutes", refused=ev.divert(ev.parquet("late")))
    return minutes.to("revenue", ev.duckdb("warehouse.duckdb"), late=late)
