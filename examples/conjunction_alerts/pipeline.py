"""Three sensors, each with its own clock, into a counter, a summary of risks, alerts that can be withdrawn, and the input itself.

python examples/conjunction_alerts makes the data, runs this and prints what stands.
"""

import eventide as ev


def sensor(name, bound):
    """One sensor: how late it may be is its own."""
    return ev.files(
        name,
        f"landing/{name}",
        schema="seen_at timestamp, arrived_at timestamp, object string, metres bigint, sensor string",
        event_time="seen_at",
        arrival="arrived_at",
        watermark=ev.bounded(bound),
    )


seen = ev.merge(sensor("radar", "100 ms"), sensor("optical", "30 seconds"), sensor("beacon", "10 seconds"))

minutes = seen.window(ev.tumbling("1 minute"), by="sensor").agg(n=ev.count())
passes = seen.window(ev.tumbling("30 seconds"), by="object").agg(metres=ev.median("metres"), n=ev.count())

sda = ev.sqlite("sda.db")
pipeline = ev.Pipeline(
    "conjunctions",
    minutes.to("events_per_minute", sda, late=ev.drop()),
    passes.to("risk_summary", sda, late=ev.accumulate("5 seconds")),
    passes.where("metres < 1000").to("alerts", sda, late=ev.retract("60 seconds"), late_firing=ev.per_row()),
    seen.to("audit", ev.parquet("audit")),
    state="state",
    archive="archive",
)
