"""The law of conservation, checked in every batch: what came in is somewhere, by count, read back from what was written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from eventide.errors import EventideError

if TYPE_CHECKING:
    from eventide.engine.ledger import Ledger
    from eventide.engine.microbatch import BatchInput, BatchResult
    from eventide.engine.settling import BucketAccount
    from eventide.engine.store import Store


class ConservationBreach(EventideError):
    """Rows were lost or doubled inside the engine; the batch is not committed."""


def check_books(store: Store, before: Ledger, result: BatchResult, given: BatchInput, settled: list[BucketAccount]) -> None:
    """Stop the pipeline with the numbers unless rows in = ahead + judged + waiting + markers + duplicates + dead letters."""
    rows = result.ledger.rows
    waiting = rows["kept"] - rows["judged"] - rows["duplicates"]
    found = rows["ahead"] + rows["judged"] + waiting + rows["markers"] + rows["duplicates"] + rows["dead"]
    if rows["in"] != found or waiting < 0:
        raise ConservationBreach(
            f"batch {given.number}: {rows['in']} rows came in, but {rows['ahead']} ahead + {rows['judged']} judged "
            f"+ {waiting} waiting + {rows['markers']} markers + {rows['duplicates']} duplicates + {rows['dead']} dead letters = {found}. "
            "The batch was not committed and nothing was delivered."
        )
