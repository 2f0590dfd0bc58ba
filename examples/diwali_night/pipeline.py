"""UPI payments by the minute, under three policies side by side: one drops what is late, one corrects itself, one puts it aside.

python examples/diwali_night makes the data, runs this, reconciles the night and prints what stands.
"""

import eventide as ev

payments = ev.files(
    "payments",
    "landing",
    schema="paid_at timestamp, arrived_at timestamp, paise bigint",
    event_time="paid_at",
    arrival="arrived_at",
    lane="directory",
    watermark=ev.bounded("30 seconds"),
)
minutes = payments.window(ev.tumbling("1 minute")).agg(paise=ev.sum("paise"), n=ev.count())

upi = ev.sqlite("upi.db")
pipeline = ev.Pipeline(
    "diwali",
    minutes.to("wall", upi, late=ev.drop()),
    minutes.to("live", upi, late=ev.accumulate("18 minutes")),
    minutes.to("upi_minute", upi, late=ev.divert(ev.parquet("late"))),
    state="state",
    archive="archive",
)
