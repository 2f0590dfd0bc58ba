"""Payments by minute and bank: one output that never moves, one that is corrected for twenty minutes.

Make the data first with `eventide demo`, then: eventide run examples/payments.py --until-caught-up
"""

import eventide as ev

payments = ev.files(
    "payments",
    "demo/landing",
    schema="event_time timestamp, arrived_at timestamp, bank string, paise bigint",
    event_time="event_time",
    arrival="arrived_at",
    lane="directory",
    files_per_batch=12,
    watermark=ev.bounded("30 seconds"),
)

minutes = payments.window(ev.tumbling("1 minute"), by="bank").agg(total=ev.sum("paise"), n=ev.count())

pipeline = ev.Pipeline(
    "payments",
    minutes.to("dashboard", ev.sqlite("demo/payments.db"), late=ev.drop()),
    minutes.to(
        "totals",
        ev.sqlite("demo/payments.db"),
        late=ev.retract("20 minutes", refused=ev.divert(ev.parquet("demo/payments-late"))),
    ),
    state="demo/payments-state",
)
