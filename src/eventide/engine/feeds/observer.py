"""Maps that also look: what they saw on the workers comes back with the batch and is told to them once on the driver."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol, runtime_checkable

from eventide.definition.pipeline import Pipeline


@runtime_checkable
class Observer(Protocol):
    """A map (see `Source.map`) that counts or keeps something of the rows it is called with."""

    def seen(self) -> Any:
        """On a worker: what was seen since it was last asked, as JSON; none if nothing was."""

    def told(self, pipeline: str, batch: int, seen: list[Any]) -> None:
        """On the driver, before the batch is committed: all that was seen in it. A batch run again is told again, alike."""


def tell(pipeline: Pipeline, batch: int, observed: Iterable[tuple[int, list[Any]]]) -> None:
    """Tell every observer of a pipeline what its copies on the workers saw; by source, one entry for each of its maps."""
    heard = list(observed)
    for index, source in enumerate(pipeline.sources):
        for place, change in enumerate(source.maps):
            if isinstance(change, Observer):
                said = [seen[place] for i, seen in heard if i == index and seen and seen[place] is not None]
                change.told(pipeline.name, batch, said)
