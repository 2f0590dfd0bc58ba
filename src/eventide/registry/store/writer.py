"""The one thread that writes: changes that arrive together share a transaction and its sync to disk."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, TypeVar

from eventide.registry.faults import timed_out
from eventide.registry.store.base import Store, StoreUnavailable
from eventide.registry.store.lookups import Question
from eventide.registry.store.session import Session

T = TypeVar("T")
_TOGETHER = 64


@dataclass(eq=False)
class _Job:
    change: Callable[[Session], Any]
    not_after: float
    questions: frozenset[Question] = frozenset()
    future: Future[Any] = field(default_factory=Future)
    result: Any = None
    error: BaseException | None = None


class Writer:
    """Takes changes from any thread, applies them one after the other, and answers once they are on disk.

    Each change stands in a savepoint of its own, so one that is refused takes nothing of the others with it. A change
    that waited past its time, or whose client has gone, is dropped before it starts; one that has started is finished
    and answered. So a timeout always means that nothing was stored.
    """

    def __init__(self, store: Store, *, wait_seconds: float = 30.0, after_commit: Callable[[int], None]) -> None:
        self._store = store
        self._wait_seconds = wait_seconds
        self._after_commit = after_commit
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="registry-writer", daemon=True)
        self._thread.start()

    def submit(self, change: Callable[[Session], T], questions: frozenset[Question] = frozenset()) -> Future[T]:
        """Queue a change; cancelling the future before it starts takes it off the queue.

        `questions` are what it is likely to ask: those of all changes of a transaction are then asked at once.
        """
        job = _Job(change, time.monotonic() + self._wait_seconds, questions)
        self._jobs.put(job)
        return job.future

    def close(self) -> None:
        """Finish what is queued, then stop."""
        self._jobs.put(None)
        self._thread.join()

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            batch = [job]
            stop = False
            while len(batch) < _TOGETHER and not self._jobs.empty():
                following = self._jobs.get()
                if following is None:
                    stop = True
                    break
                batch.append(following)
            self._apply([j for j in batch if self._still_wanted(j)])
            if stop:
                return

    @staticmethod
    def _still_wanted(job: _Job) -> bool:
        if not job.future.set_running_or_notify_cancel():
            return False
        if time.monotonic() > job.not_after:
            job.future.set_exception(timed_out())
            return False
        return True

    def _apply(self, batch: list[_Job]) -> None:
        if not batch:
            return
        try:
            with self._store.write() as session:
                session.lookups.prefetch(question for job in batch for question in job.questions)
                for job in batch:
                    self._apply_one(session, job)
        except BaseException as error:  # the commit failed: nobody may be told otherwise
            if len(batch) > 1 and not isinstance(error, StoreUnavailable):
                for job in batch:  # one of them cannot be written; the others must not suffer for it
                    self._apply([job])
                return
            for job in batch:
                job.future.set_exception(error)
            return
        if session.revision is not None:
            self._after_commit(session.revision)
        for job in batch:
            if job.error is not None:
                job.future.set_exception(job.error)
            else:
                job.future.set_result(job.result)

    @staticmethod
    def _apply_one(session: Session, job: _Job) -> None:
        session.begin_change()
        job.error = None
        try:
            job.result = job.change(session)
        except Exception as error:
            session.take_back()
            job.error = error
            return
        session.end_change()
