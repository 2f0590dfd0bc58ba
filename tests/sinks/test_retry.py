"""Patience, with a clock that the test holds."""

from __future__ import annotations

import pytest

from eventide.errors import SinkRefused, SinkUnavailable
from eventide.sinks import Retry


class Clock:
    def __init__(self) -> None:
        self.now, self.pauses = 0.0, []

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds

    def retry(self, **options: float) -> Retry:
        return Retry(clock=lambda: self.now, sleep=self.sleep, **options)


def down() -> None:
    raise SinkUnavailable("down")


def test_pauses_grow_and_the_time_is_bounded() -> None:
    clock = Clock()
    with pytest.raises(SinkUnavailable, match="gave up after 30 s"):
        clock.retry(give_up_after=30, first=0.1, longest=5).run(down)
    assert clock.now == pytest.approx(30)
    assert all(0.05 * 2**i <= pause <= 0.1 * 2**i for i, pause in enumerate(clock.pauses[:5]))
    assert max(clock.pauses) <= 5


def test_pauses_of_two_writers_differ() -> None:
    one, two = Clock(), Clock()
    for clock in (one, two):
        with pytest.raises(SinkUnavailable):
            clock.retry(give_up_after=10).run(down)
    assert one.pauses != two.pauses


def test_what_will_never_work_is_not_tried_again() -> None:
    clock, tries = Clock(), []

    def refused() -> None:
        tries.append(1)
        raise SinkRefused("no")

    with pytest.raises(SinkRefused):
        clock.retry().run(refused)
    assert len(tries) == 1
    assert not clock.pauses


def test_no_patience_means_one_try() -> None:
    clock = Clock()
    with pytest.raises(SinkUnavailable):
        clock.retry(give_up_after=0).run(down)
    assert not clock.pauses
