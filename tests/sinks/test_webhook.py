"""Webhooks and functions: keys that repeat, answers that pass and those that do not."""

from __future__ import annotations

from typing import Any

import pytest

from eventide.errors import DefinitionError, SinkRefused, SinkUnavailable
from eventide.sinks import PaneShape, Retry, console, function, webhook
from tests.sinks.panes import DELTAS, SHAPE, batch, delivery, pane
from tests.sinks.places import Webhook, World

RETRACTING = PaneShape(SHAPE.keys, SHAPE.values, accumulation="accumulating-and-retracting")
PANES = [pane(f"w{i}", 0, slot=i, total=i, n=1) for i in range(1200)]
QUICK = Retry(give_up_after=5, first=0.01, longest=0.05)


@pytest.fixture
def place() -> Any:
    made = Webhook(World(None))
    yield made
    made.close()


def test_the_same_delivery_has_the_same_keys_and_another_has_others(place: Webhook) -> None:
    writer = place.sink().open(place.output, SHAPE)
    for number in (0, 0, 1):
        writer.deliver(batch(PANES), delivery(place.output, number))
    keys = place.receiver.keys
    assert len(keys) == 9
    assert keys[0:3] == keys[3:6]
    assert len({*keys}) == 6


def test_an_answer_that_may_pass_is_waited_out(place: Webhook) -> None:
    place.receiver.answers = [503, 500, 429]
    place.sink(retry=QUICK).open(place.output, SHAPE).deliver(batch(PANES[:10]), delivery(place.output, 0))
    assert len(place.rows(SHAPE)) == 10


@pytest.mark.parametrize(("answer", "said"), [(401, "credentials"), (403, "credentials"), (400, "answered 400")])
def test_an_answer_that_will_not_pass_fails_at_once(place: Webhook, answer: int, said: str) -> None:
    place.receiver.answers = [answer]
    writer = place.sink(headers={"Authorization": "Bearer hush"}).open(place.output, SHAPE)
    with pytest.raises(SinkRefused, match=said) as caught:
        writer.deliver(batch(PANES[:1]), delivery(place.output, 0))
    assert "hush" not in str(caught.value)
    assert len(place.receiver.keys) == 1


def test_nobody_there_is_unavailable() -> None:
    writer = webhook("http://127.0.0.1:1/x", retry=Retry(give_up_after=0)).open("o", SHAPE)
    with pytest.raises(SinkUnavailable, match="out of reach"):
        writer.deliver(batch(PANES[:1]), delivery("o", 0))


@pytest.mark.parametrize("shape", [RETRACTING, DELTAS], ids=["retract", "discarding"])
def test_a_far_end_without_a_memory_of_ranks_is_refused(shape: PaneShape) -> None:
    for sink in (webhook("http://127.0.0.1:1/x"), function(print)):
        assert not sink.capabilities.retract
        with pytest.raises(DefinitionError, match="keyed=True"):
            sink.open("o", shape)
    assert function(print, keyed=True).capabilities.retract
    function(print, keyed=True).open("o", shape)


def test_a_webhook_without_a_key_or_a_url_is_refused() -> None:
    with pytest.raises(DefinitionError, match="idempotency key"):
        webhook("http://x/", key_header="")
    with pytest.raises(DefinitionError, match="http://"):
        webhook("file:///etc/passwd")


def test_the_console_says_what_changes(capsys: pytest.CaptureFixture[str]) -> None:
    writer = console(limit=2).open("totals", SHAPE)
    panes = [pane("w", 0, total=5, n=1), pane("w", 0, "retract", total=5, n=1), pane("w", 1, total=7, n=2)]
    writer.deliver(batch(panes), delivery("totals", 0))
    first, second, rest = capsys.readouterr().out.splitlines()
    assert first.startswith("totals +I window_start=2025-06-15T15:06:40.000000Z")
    assert "total=5" in second
    assert second.startswith("totals -U")
    assert rest == "totals … and 1 more"
