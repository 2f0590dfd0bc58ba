"""Departures by the hour of their schedule: what one counts at once, what is corrected, and what is put aside.

python examples/flights makes the data, asks what waiting buys, runs this and prints what each policy loses.
"""

import eventide as ev

flights = ev.files(
    "flights",
    "landing",
    schema="scheduled timestamp, departed timestamp, origin string, carrier string",
    event_time="scheduled",
    arrival="departed",
    lane="directory",
    watermark=ev.bounded("30 minutes"),
)
hours = flights.window(ev.tumbling("1 hour"), by="origin").agg(n=ev.count())

board = ev.sqlite("flights.db")
pipeline = ev.Pipeline(
    "flights",
    hours.to("board", board, late=ev.drop()),
    hours.to("corrected", board, late=ev.accumulate("3 hours")),
    hours.to("aside", board, late=ev.divert(ev.parquet("late"))),
    state="state",
    archive="archive",
)
