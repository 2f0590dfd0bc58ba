"""Who follows a run: told when it opens, of each batch and its stages, and how it ends. Following changes nothing and never ends a run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from eventide.engine.report import BatchReport
    from eventide.engine.run import Run


class Followed(Protocol):
    """One batch, as a follower hears of it."""

    def stage(self, point: str) -> None:
        """A stage is over: the one that ends at this point."""

    def committed(self, report: BatchReport) -> None:
        """The batch is committed; this is its account."""


class Follower(Protocol):
    """Hears of a run in the threads of the run: it must be quick, and keep to itself what goes wrong with it."""

    def opened(self, run: Run) -> None:
        """All that can be checked before the first row is checked, and the lease is held."""

    def batch(self, run: Run, number: int) -> AbstractContextManager[Followed]:
        """A batch begins, and ends with the context; what is raised inside killed it."""

    def closed(self, run: Run, fault: BaseException | None) -> None:
        """The run is over, and the lease given back; of what killed it, if something did."""


class _All:
    """Several followers of one batch as one."""

    def __init__(self, each: Sequence[Followed]) -> None:
        self.each = each

    def stage(self, point: str) -> None:
        for one in self.each:
            one.stage(point)

    def committed(self, report: BatchReport) -> None:
        for one in self.each:
            one.committed(report)


@contextmanager
def followed(run: Run, number: int) -> Iterator[Followed]:
    """A batch of a run, told to each of its followers."""
    with ExitStack() as stack:
        yield _All([stack.enter_context(one.batch(run, number)) for one in run.followers])


__all__ = ["Followed", "Follower", "followed"]
