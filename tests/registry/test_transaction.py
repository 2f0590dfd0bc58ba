"""Changes that wait for the next question are where they belong: seen by whoever asks, gone with whoever is refused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from eventide.registry.store import Session, Store, Writer, open_store
from eventide.registry.store.writer import _Job
from tests.registry.conftest import Ask
from tests.registry.schemas import V1, V2


class Refused(Exception):
    """A change of mind."""


@pytest.fixture
def store(store_url: str) -> Iterator[Store]:
    opened = open_store(store_url)
    yield opened
    opened.close()


@pytest.fixture
def writer(store: Store) -> Iterator[Writer]:
    running = Writer(store, after_commit=lambda revision: None)
    yield running
    running.close()


KEYS = st.sampled_from("abc")
STEPS = st.one_of(
    st.tuples(st.just("put"), KEYS, st.integers(0, 9).map(str)), st.tuples(st.just("get"), KEYS), st.tuples(st.just("refuse"))
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(batches=st.lists(st.lists(st.lists(STEPS, max_size=6), min_size=1, max_size=5), min_size=1, max_size=3))
def test_any_batches_of_changes_are_those_of_one_after_the_other(store: Store, writer: Writer, batches: Any) -> None:
    with store.write() as session:
        session._run("DELETE FROM facts WHERE name IN ('a', 'b', 'c')", ())
    model: dict[str, str] = {}
    for batch in batches:
        jobs = [_Job(lambda session, steps=steps: _do(session, steps), 0.0) for steps in batch]
        writer._apply(jobs)
        for job, steps in zip(jobs, batch, strict=True):
            try:
                expected: Any = _do(own := _Model(model), steps)
                model = own.facts
            except Refused as refused:
                expected = refused
            got = job.future.exception() or job.future.result()
            assert type(got) is type(expected) and (got == expected or isinstance(got, Refused))
    with store.read() as session:
        assert {k: session.fact(k) for k in "abc"} == {k: model.get(k) for k in "abc"}


class _Model:
    def __init__(self, facts: dict[str, str]) -> None:
        self.facts = dict(facts)

    def fact(self, name: str) -> str | None:
        return self.facts.get(name)

    def put_fact(self, name: str, value: str) -> None:
        self.facts[name] = value


def _do(session: Any, steps: list[tuple[str, ...]]) -> list[str | None]:
    seen = []
    for what, *more in steps:
        if what == "put":
            session.put_fact(*more)
        elif what == "get":
            seen.append(session.fact(*more))
        else:
            raise Refused
    return seen


@pytest.mark.parametrize("reads_on", [False, True])
def test_a_change_that_the_database_refuses_takes_nobody_with_it(store: Store, writer: Writer, reads_on: bool) -> None:
    def bad(session: Session) -> None:
        session.put_fact("bad", "1")
        session._run("INSERT INTO counters VALUES ('.', 0)", ())  # there is one already
        if reads_on:
            session.fact("b")

    def good(name: str) -> Any:
        def put(session: Session) -> str | None:
            before = session.fact(name)
            session.put_fact(name, "1")
            return before

        return put

    jobs = [_Job(change, 0.0) for change in (good("a"), bad, good("b"), good("c"))]
    writer._apply(jobs)
    assert jobs[1].future.exception() is not None
    assert [jobs[i].future.result() for i in (0, 2, 3)] == [None, None, None]
    with store.read() as session:
        assert [session.fact(name) for name in ("a", "bad", "b", "c")] == ["1", None, "1", "1"]


def test_a_failure_that_somebody_caught_does_not_become_a_silent_rollback(store: Store) -> None:
    with pytest.raises(Exception, match="nowhere"), store.write() as session:
        session.put_fact("a", "1")
        with pytest.raises(Exception, match="nowhere"):
            session._run("SELECT * FROM nowhere", ())
    with store.read() as session:
        assert session.fact("a") is None


def test_an_alias_is_followed_once_however_often_a_request_is_looked_at(ask: Ask) -> None:
    ask.ok("PUT", "/config/a", {"alias": "b"})
    ask.ok("PUT", "/config/b", {"alias": "c"})
    ask.register("a", V1)
    assert ask.ok("GET", "/subjects") == ["b"]
    assert ask.register("a", V2)["version"] == 2
    assert ask.ok("GET", "/subjects/a/versions") == [1, 2]
