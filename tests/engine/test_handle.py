"""A query in the user's hand: stopped after the batch at work, and what killed it is raised, as it was."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest
from py4j.protocol import Py4JNetworkError

from eventide.engine.gate import INTERRUPTED, LONGEST, BatchFailed, Gate
from eventide.engine.handle import Handle, StoppedBeforeTheEnd
from eventide.engine.spark_session import SparkGone
from eventide.errors import SinkRefused


class Query:
    """As Spark's: one thread that calls a function for each batch, until it is stopped or a batch fails."""

    def __init__(self, batch: Any) -> None:
        self.isActive, self.died, self.batch = True, None, batch
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        while self.isActive:
            try:
                self.batch()
            except Exception as error:
                self.died = error if self.isActive or INTERRUPTED not in str(error) else None
                self.isActive = False

    def awaitTermination(self, seconds: float | None = None) -> bool | None:
        if seconds is not None and int(seconds * 1000) <= 0:
            raise ValueError("[VALUE_NOT_POSITIVE] Value for `timeout` must be positive")
        self.thread.join(seconds)
        if self.died is not None:
            raise RuntimeError(f"[STREAM_FAILED] {self.died}")
        return None if seconds is None else not self.thread.is_alive()

    def stop(self) -> None:
        self.isActive = False
        self.thread.join(20)
        assert not self.thread.is_alive()

    def exception(self) -> Exception | None:
        return None if self.died is None else RuntimeError(f"[STREAM_FAILED] {self.died}")


class Run:
    """What a handle needs of a run."""

    def __init__(self, work: Any) -> None:
        self.gate, self.work, self.closed, self.done, self.drained = Gate(), work, 0, 0, 0
        self.ledger = SimpleNamespace(batch=7)
        self.progress: Any = None

    def start(self) -> Query:
        self.query: Any = None
        self.query = Query(self._on_batch)
        return self.query

    def _on_batch(self) -> None:
        with self.gate.batch(lambda: self.query is not None and not self.query.isActive):
            self.work(self)
            self.done += 1

    def drain(self) -> None:
        self.drained += 1

    def unread(self, seen: Any) -> list[str]:
        return [name for name, rows in seen.items() if rows > self.done]

    def close(self, fault: BaseException | None = None) -> None:
        assert not self.gate._passing.locked(), "sinks were closed under a batch at work"
        self.closed += 1


def handle_of(work: Any, **how: Any) -> tuple[Handle, Any]:
    run: Any = Run(work)
    return Handle(run, run.start(), **how), run


def test_stop_waits_for_the_batch_at_work_and_starts_no_other() -> None:
    began, going_on = threading.Event(), threading.Event()

    def work(run: Any) -> None:
        began.set()
        assert going_on.wait(20)

    handle, run = handle_of(work)
    assert began.wait(20)
    threading.Timer(0.2, going_on.set).start()
    handle.stop()
    assert (run.done, run.closed) == (1, 1)
    handle.stop()
    assert handle.wait() and run.closed == 1


@pytest.mark.parametrize("seconds", [0, 0.0001, -1])
def test_a_wait_of_no_time_only_asks(seconds: float) -> None:
    handle, run = handle_of(lambda run: time.sleep(0.01))
    assert handle.wait(seconds) is False
    assert run.closed == 0 and run.query.isActive
    handle.stop()
    assert handle.wait(seconds) is True


@pytest.mark.parametrize("ask", ["wait", "stop"])
def test_what_killed_the_query_is_raised_as_it_was(ask: str) -> None:
    fault = SinkRefused("no rights on table sales " + "x" * 100_000)

    def work(run: Any) -> None:
        raise fault

    handle, run = handle_of(work)
    run.query.thread.join(20)
    with pytest.raises(SinkRefused) as raised:
        getattr(handle, ask)()
    assert raised.value is fault and run.closed == 1
    assert len(str(run.query.died)) < LONGEST + 200  # Spark's own search in a long text overflows the JVM's stack


@pytest.mark.parametrize("ask", ["wait", "stop"])
def test_what_killed_the_query_is_not_hidden_by_what_goes_wrong_in_letting_go(ask: str) -> None:
    fault = SinkRefused("no rights on table sales")

    def work(run: Any) -> None:
        raise fault

    def close(fault: BaseException | None = None) -> None:
        raise OSError("no answer from s3://AKIA:abc/d+e@lake/state")

    handle, run = handle_of(work)
    run.close = close
    run.query.thread.join(20)
    with pytest.raises(SinkRefused) as raised:
        getattr(handle, ask)()
    assert raised.value is fault
    assert fault.__notes__ == ["After that, letting go failed too: OSError: no answer from s3://AKIA:***@lake/state"]


@pytest.mark.parametrize("ask", ["wait", "stop"])
def test_what_goes_wrong_in_letting_go_after_a_good_end_is_raised(ask: str) -> None:
    handle, run = handle_of(_that_is_all)

    def close(fault: BaseException | None = None) -> None:
        raise OSError("no answer")

    run.close = close
    run.query.thread.join(20)
    with pytest.raises(OSError, match="no answer"):
        getattr(handle, ask)()


def test_a_query_that_spark_itself_ended_is_raised_too() -> None:
    handle, run = handle_of(lambda run: time.sleep(0.01))
    run.query.died, run.query.isActive = ValueError("offset out of range"), False
    run.query.thread.join(20)
    for ask in (handle.wait, handle.stop):
        with pytest.raises(RuntimeError, match="offset out of range"):
            ask()


def test_a_jvm_that_is_gone_is_told_in_words() -> None:
    def work(run: Any) -> None:
        raise Py4JNetworkError("Answer from Java side is empty")

    handle, _ = handle_of(work)
    with pytest.raises(SparkGone, match="Batch 7 is the last"):
        handle.wait()


def test_a_batch_may_stop_its_own_run() -> None:
    ready = threading.Event()

    def work(run: Any) -> None:
        assert ready.wait(20)
        handle.stop()

    handle, run = handle_of(work)
    ready.set()
    assert handle.wait(20)
    assert run.done == 1


def test_an_interrupt_while_waiting_leaves_the_query_running(monkeypatch: pytest.MonkeyPatch) -> None:
    handle, run = handle_of(lambda run: time.sleep(0.01))
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(run.query, "awaitTermination", _interrupted)
        handle.wait()
    assert run.closed == 0 and run.query.isActive
    handle.stop()
    assert run.closed == 1


def _that_is_all(run: Any) -> None:
    time.sleep(0.1)
    run.query.isActive = False


def _interrupted(seconds: float | None = None) -> bool:
    raise KeyboardInterrupt


def test_what_a_stop_interrupts_is_no_failure() -> None:
    handle, run = handle_of(lambda run: time.sleep(0.01))
    run.query.stop, stop = lambda: (stop(), setattr(run.query, "died", BatchFailed(INTERRUPTED))), run.query.stop
    handle.stop()
    assert handle.wait() and run.closed == 1
    other, run = handle_of(lambda run: time.sleep(0.01))
    run.gate.is_shut, run.query.died, run.query.isActive = True, BatchFailed(INTERRUPTED), False
    assert other.wait(20) and run.closed == 1


def test_only_a_query_that_ended_by_itself_is_drained() -> None:
    handle, run = handle_of(_that_is_all, drain=True)
    assert handle.wait(20) and run.drained == 1
    stopped, run = handle_of(lambda run: time.sleep(0.01), drain=True)
    stopped.stop()
    assert stopped.wait() and run.drained == 0


def test_a_query_that_somebody_else_stopped_is_not_drained() -> None:
    """As `spark.streams.get(id).stop()` does it: Spark ends the query as if it had read everything."""
    stopped, run = handle_of(_that_is_all, drain=True, seen={"clicks": 2, "views": 1})
    run.pipeline = SimpleNamespace(name="sales")
    with pytest.raises(
        StoppedBeforeTheEnd, match=r"'sales' was stopped by somebody else.*\(of clicks\).*--until-caught-up --drain"
    ):
        stopped.wait(20)
    assert (run.done, run.drained, run.closed) == (1, 0, 1)


def test_a_batch_that_comes_after_the_stop_is_told_in_sparks_own_words() -> None:
    gate = Gate(is_shut=True)
    with pytest.raises(BatchFailed, match="InterruptedException"), gate.batch(lambda: True):
        raise AssertionError("let in")
    assert gate.fault is None
