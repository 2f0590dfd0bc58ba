"""Dead letters that were mended, as a source of their own: each is read again, once, as an event that arrives now."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from eventide.definition.source import ahead
from eventide.errors import DefinitionError
from eventide.model.time import Duration
from eventide.model.watermark import custom
from eventide.redaction import without_secrets
from eventide.sources.files import FileSource

IDLE_AFTER = 1_000_000
"""It says nothing of how far time has come: after a second W goes on without it."""


@without_secrets
@dataclass(frozen=True, kw_only=True)
class MendedSource(FileSource):
    """A directory into which `Pipeline.mend` writes, and nobody else."""

    mended: ClassVar[bool] = True

    def __str__(self) -> str:
        return f"{self.name} (dead letters that were mended, event time {self.event_time})"


def mended(
    name: str,
    path: str,
    *,
    schema: str,
    event_time: str,
    max_ahead: Duration | None = "1 day",
    time_unit: str = "us",
    time_zone: str = "UTC",
    time_format: str | None = None,
) -> MendedSource:
    """Where dead letters come back that `eventide dead FILE --mend` (or `Pipeline.mend`) has mended: merge it with the source that they came by.

    A mended letter arrives when it is mended, and is judged like any other event that arrives then: late, if its windows have closed. It
    never moves the watermark, and holds it for a second at most.

    >>> import eventide as ev
    >>> pay = ev.files("pay", "landing/", format="json", schema="ts timestamp, paise bigint", event_time="ts", watermark=ev.bounded("5 s"))
    >>> again = ev.mended("pay_mended", "mended/", schema="ts timestamp, paise bigint", event_time="ts")
    >>> [source.name for source in ev.merge(pay, again).sources]
    ['pay', 'pay_mended']
    """
    if not schema.strip():
        raise DefinitionError(
            f'mended({name!r}) needs schema="…" as Spark DDL: the columns of the source that it is merged with.'
        )
    return MendedSource(
        name=name, path=str(path), event_time=event_time, watermark=custom("CAST(NULL AS TIMESTAMP)"), format="json", schema=schema, lane="source",
        arrival=None, idle_after=IDLE_AFTER, files_per_batch=None, max_ahead=ahead(name, max_ahead), time_unit=time_unit,
        time_zone=time_zone, time_format=time_format, read="auto",
    )  # fmt: skip


__all__ = ["MendedSource", "mended"]
