"""Clicks of each user in the minute: served to a model two seconds later, and kept complete for its training.

python examples/clicks_for_a_model makes the data, runs this and prints who is served too few clicks.
"""

import eventide as ev

clicks = ev.files(
    "clicks",
    "landing",
    schema="clicked_at timestamp, arrived_at timestamp, user string, device string",
    event_time="clicked_at",
    arrival="arrived_at",
    watermark=ev.bounded("2 seconds"),
)
active = clicks.window(ev.tumbling("1 minute"), by=("user", "device")).agg(clicks=ev.count())

features = ev.sqlite("features.db")
pipeline = ev.Pipeline(
    "clicks",
    active.to("serving", features, late=ev.divert(ev.parquet("late"))),
    active.to("training", features, late=ev.accumulate("5 minutes")),
    measure="device",
    state="state",
    archive="archive",
)
