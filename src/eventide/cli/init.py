"""`eventide init [DIRECTORY]`: a pipeline file with comments to start from, and a few payments for it to read."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import click

from eventide.cli.faults import Refused

FILE, LANDING = "pipeline.py", "landing"
PIPELINE = '''"""Payments by bank and minute. Run it with: eventide run pipeline.py --until-caught-up"""

import eventide as ev

# Where events come from. Every directory below landing/ is a lane: a part of the source that is in order in itself. Kafka's partitions
# are such lanes too: ev.kafka("payments", servers=…, topics=…, …).
payments = ev.files(
    "payments",
    "landing",
    format="json",
    schema="event_time timestamp, arrived_at timestamp, bank string, paise bigint",
    event_time="event_time",  # when it happened
    arrival="arrived_at",  # when it came; leave this out, and it is the time at which its file was written
    lane="directory",
    watermark=ev.bounded("30 seconds"),  # how far out of order a lane may be; `eventide tune pipeline.py` measures what to say here
    idle_after="10 minutes",  # a lane that is silent for so long holds the others back no more
)

# What is computed: for every bank and minute the sum and the number of its payments.
minutes = payments.window(ev.tumbling("1 minute"), by="bank").agg(total=ev.sum("paise"), n=ev.count())

pipeline = ev.Pipeline(
    "payments-by-minute",
    # Each output says for itself what becomes of late rows. This one corrects its results for ten minutes, and keeps what comes later still
    # (eventide late pipeline.py); ev.drop() would never change a result, and only count what came late.
    minutes.to("totals", ev.sqlite("payments.db"), late=ev.retract("10 minutes", refused=ev.divert())),
    state="state",  # what a run remembers: delete it, and everything is read again
    archive="archive",  # every event as it arrived, for why, verify, plan --results and backfills
)
'''


@click.command()
@click.argument("directory", default=".", type=click.Path(file_okay=False))
def init(directory: str) -> None:
    """Write a pipeline file with comments into DIRECTORY (default: here), with a few payments that it reads; it runs as it is.

    Nothing that is there already is replaced.
    """
    root = Path(directory)
    for there in (root / FILE, root / LANDING):
        if there.exists():
            raise Refused(f"{there} is there already, and is not replaced. Name another directory: eventide init DIRECTORY.")
    try:
        root.mkdir(parents=True, exist_ok=True)
        for lane, rows in _payments(datetime.now(UTC)).items():
            (root / LANDING / lane).mkdir(parents=True)
            (root / LANDING / lane / "0001.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
        with (root / FILE).open("x", encoding="utf-8") as file:
            file.write(PIPELINE)
    except OSError as error:
        raise Refused(
            f"{error.filename}: {error.strerror}. Name a directory that can be written: eventide init DIRECTORY."
        ) from error
    inside = "" if directory == "." else f"cd {directory} && "
    click.echo(f"wrote {root / FILE}, and {root / LANDING} with two lanes of payments for it\n")
    click.echo(f"  look at it   {inside}eventide validate {FILE}")
    click.echo(f"  run it       {inside}eventide run {FILE} --until-caught-up")
    click.echo(f"  read it      {inside}sqlite3 payments.db .tables")


def _payments(now: datetime) -> dict[str, list[dict[str, object]]]:
    """A quarter of an hour of payments in two lanes, one of which brings some of them late."""
    start = now.replace(second=0, microsecond=0) - timedelta(hours=1)
    return {lane: list(_lane(start, late)) for lane, late in (("mumbai", 0), ("lucknow", 240))}


def _lane(start: datetime, late: int) -> Iterator[dict[str, object]]:
    for second in range(0, 900, 5):
        behind = late if second % 60 == 15 else 0
        happened = start + timedelta(seconds=max(0, second - behind))
        arrived = start + timedelta(seconds=second + 1)
        yield {
            "event_time": f"{happened:%Y-%m-%dT%H:%M:%SZ}", "arrived_at": f"{arrived:%Y-%m-%dT%H:%M:%SZ}",
            "bank": ("north", "south", "west")[second // 5 % 3], "paise": 100 + second,
        }  # fmt: skip
