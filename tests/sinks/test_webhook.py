"""Webhooks and functions: keys that repeat, answers that pass and those that do not."""

from __future__ import annotations

import contextlib
import random
import socket
import threading
from typing import Any

import pytest

from eventide.errors import DefinitionError, SinkRefused, SinkUnavailable
from eventide.sinks import PaneShape, Retry, console, function, webhook
from eventide.sinks.ranked import emitted
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


class Raw:
    """A server that answers each connection with the bytes that it is told, and counts what reached it."""

    def __init__(self, *answers: bytes) -> None:
        self.answers = list(answers)
        self.methods: list[bytes] = []
        self.keys: list[str] = []
        self.socket = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self._serve, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.socket.getsockname()[1]}/hook"

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self.socket.accept()
                with connection:
                    self._answer(connection)

    def _answer(self, connection: socket.socket) -> None:
        stream = connection.makefile("rb")
        self.methods.append(stream.readline().split(b" ")[0])
        headers = dict(line.split(b": ", 1) for line in iter(lambda: stream.readline().strip(), b""))
        stream.read(int(headers.get(b"Content-Length", b"0")))
        self.keys.append(headers.get(b"Idempotency-Key", b"").decode())
        connection.sendall(self.answers.pop(0) if self.answers else b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")

    def close(self) -> None:
        self.socket.close()


@pytest.fixture
def raw() -> Any:
    made = Raw()
    yield made
    made.close()


@pytest.mark.parametrize("code", [300, 301, 302, 303, 307, 308])
def test_a_redirected_post_is_not_delivered(raw: Raw, code: int) -> None:
    where = f"{raw.url}/elsewhere?token=hush-hush"
    raw.answers = [f"HTTP/1.1 {code} Moved\r\nLocation: {where}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode()]
    writer = webhook(raw.url, retry=QUICK).open("o", SHAPE)
    with pytest.raises(SinkRefused, match=f"answered {code}") as caught:
        writer.deliver(batch(PANES[:1]), delivery("o", 0))
    assert raw.methods == [b"POST"]
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize("asked", ["soon", "", "-1", "9" * 400, "Thu, 99 Foo 2026 99:99:99 GMT", "٣", "1.5", "\xff"])
def test_a_retry_after_that_is_no_time_is_ignored(raw: Raw, asked: str) -> None:
    raw.answers = [f"HTTP/1.1 503 Busy\r\nRetry-After: {asked}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode()]
    webhook(raw.url, retry=QUICK).open("o", SHAPE).deliver(batch(PANES[:1]), delivery("o", 0))
    assert len(raw.keys) == 2
    assert raw.keys[0] == raw.keys[1]


BROKEN = [
    b"",
    b"HTTP/1.1",
    b"HTTP/1.1 200 OK\r\nContent-Le",
    b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab",
    b"what is this\r\n\r\n",
    b"HTTP/1.1 abc Fine\r\n\r\n",
]


@pytest.mark.parametrize("answer", BROKEN)
def test_an_answer_that_breaks_off_is_asked_for_again_under_the_same_key(raw: Raw, answer: bytes) -> None:
    raw.answers = [answer, answer]
    webhook(raw.url, retry=QUICK).open("o", SHAPE).deliver(batch(PANES[:1]), delivery("o", 0))
    assert len(raw.keys) == 3
    assert len({*raw.keys}) == 1


def test_an_answer_that_breaks_off_for_ever_is_unavailable(raw: Raw) -> None:
    raw.answers = [BROKEN[3]] * 3
    with pytest.raises(SinkUnavailable, match="out of reach"):
        webhook(raw.url, retry=Retry(give_up_after=0)).open("o", SHAPE).deliver(batch(PANES[:1]), delivery("o", 0))


def test_a_key_never_stands_for_other_panes(place: Webhook) -> None:
    """Cut into larger requests after a crash, the same delivery must not hide panes behind a key that the receiver knows."""
    bodies: dict[str, set[str]] = {}

    def requests(rows: int, panes: list[Any]) -> None:
        writer = place.sink(batch_rows=rows).open(place.output, SHAPE)
        for body, key in writer._requests(emitted(batch(panes), SHAPE), delivery(place.output, 0)):
            bodies.setdefault(key, set()).add(body.decode())

    for rows in (100, 500, 7, 1200, 5000, 100):
        requests(rows, PANES)
    requests(500, PANES[:900])
    assert all(len(same) == 1 for same in bodies.values())


def test_the_same_panes_in_another_order_make_the_same_requests(place: Webhook) -> None:
    writer = place.sink(batch_rows=100).open(place.output, SHAPE)
    for seed in range(3):
        panes = list(PANES)
        random.Random(seed).shuffle(panes)
        writer.deliver(batch(panes), delivery(place.output, 0))
    keys = place.receiver.keys
    assert keys[:12] == keys[12:24] == keys[24:]


def test_a_receiver_that_knows_keys_alone_gets_every_pane_once_whatever_is_tried_again() -> None:
    """Law: with the same batch_rows, a receiver that ignores known keys holds each pane once."""
    taken: dict[str, list[str]] = {}
    made = Webhook(World(None))
    made.receiver.answers = [500, 503, 500] * 4
    made.receiver.on_body = lambda key, body: taken.setdefault(key, [row["window_id"] for row in body["panes"]])
    writer = made.sink(batch_rows=100, retry=QUICK).open(made.output, SHAPE)
    for _ in range(2):
        writer.deliver(batch(PANES), delivery(made.output, 0))
    made.close()
    held = [window for windows in taken.values() for window in windows]
    assert sorted(held) == sorted(p["window_id"] for p in PANES)


@pytest.mark.parametrize("kind", ["webhook", "function"])
def test_panes_come_in_the_order_of_emission(place: Webhook, kind: str) -> None:
    """By the end of their windows, whatever bucket they come from; each window's by rank, a session's withdrawal first."""
    got: list[dict[str, Any]] = []
    if kind == "webhook":
        place.receiver.on_body = lambda _, body: got.extend(body["panes"])
        sink = place.sink(batch_rows=7)
    else:
        sink = function(lambda table, _: got.extend(table.to_pylist()), keyed=True)
    buckets = []
    for bucket in range(4):
        slots = list(range(bucket, 40, 4))
        random.Random(bucket).shuffle(slots)
        panes = []
        for slot in slots:
            panes += [pane(f"w{slot}", s, op, slot=slot, total=s, n=1) for s in range(2) for op in ("insert", "retract")]
        buckets.append(panes)
    absorbed, merged = pane("b: from 5", 0, "retract", slot=41, total=1, n=1), pane("a: from 3", 0, slot=41, total=2, n=2)
    buckets[1] += [absorbed, merged]
    writer = sink.open("o", RETRACTING)
    writer.deliver([b for panes in buckets for b in batch(panes, RETRACTING)], delivery("o", 0))
    ends = [row["window_end"] for row in got]
    assert ends == sorted(ends)
    for slot in range(40):
        mine = [(row["sequence"], row["op"]) for row in got if row["window_id"] == f"w{slot}"]
        assert mine == [(0, "insert"), (0, "retract"), (1, "insert"), (1, "retract")]
    assert [row["window_id"] for row in got[-2:]] == ["b: from 5", "a: from 3"]
