"""Webhook: panes posted as JSON, each request with an idempotency key by which the receiver knows a repeat."""

from __future__ import annotations

import email.utils
import hashlib
import json
import time
import urllib.parse
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC
from typing import Any

import pyarrow as pa

from eventide.errors import DefinitionError, SinkError, SinkRefused, SinkUnavailable
from eventide.redaction import masked, without_secrets
from eventide.sinks import plain
from eventide.sinks.base import Capabilities, Delivery
from eventide.sinks.libraries import need
from eventide.sinks.ranked import emitted, together
from eventide.sinks.retry import Retry
from eventide.sinks.shape import PaneShape, require_keyed

PASSING = {408, 409, 425, 429}
LONGEST_ANSWER = 1 << 20
"""Bytes of an answer that are read; nobody needs more to know that a delivery was taken."""


class WebhookWriter:
    """Posts a delivery in requests of at most so many rows; the same delivery makes the same requests again."""

    def __init__(self, sink: WebhookSink, schema: pa.Schema, identity: tuple[str, ...], shape: PaneShape | None) -> None:
        self.sink = sink
        self.schema = schema
        self.identity = identity
        self.shape = shape
        self.kind = "panes" if shape else "rows"
        self._client: Any = None

    def deliver(self, panes: Iterable[pa.RecordBatch], delivery: Delivery) -> None:
        """Post the panes, in the order in which they were emitted."""
        table = emitted(panes, self.shape) if self.shape else together(panes, self.schema)
        for body, key in self._requests(table, delivery):
            self.sink.retry.run(lambda body=body, key=key: self._post(body, key))  # type: ignore[misc]

    append = deliver

    def _requests(self, table: pa.Table, delivery: Delivery) -> Iterator[tuple[bytes, str]]:
        """Each request and its key, which follows from the panes in it: cut otherwise, a request is another one.

        A key that said only where a request begins would be the same for a longer one, and its receiver would ignore the rest.
        """
        facts = {"pipeline": delivery.pipeline, "output": delivery.output, "batch": delivery.batch}
        # The clock tells a batch of this state directory from one of the same number in an earlier one.
        told = f"{delivery.pipeline}\0{delivery.output}\0{delivery.batch}\0{delivery.clock}\0{self.kind}"
        for start in range(0, table.num_rows, self.sink.batch_rows):
            rows = plain.rows(table.slice(start, self.sink.batch_rows))
            who = json.dumps([[row[name] for name in self.identity] for row in rows], ensure_ascii=False)
            body = json.dumps({**facts, self.kind: rows}, ensure_ascii=False, allow_nan=False)
            yield body.encode(), hashlib.sha256(f"{told}\0{who}".encode()).hexdigest()

    def _post(self, body: bytes, key: str) -> None:
        httpx = need("httpx", "webhook")
        if self._client is None:
            self._client = httpx.Client(timeout=self.sink.timeout, follow_redirects=False)
        headers = {"Content-Type": "application/json", **dict(self.sink.headers), self.sink.key_header: key}
        try:
            with self._client.stream("POST", self.sink.url, content=body, headers=headers) as answer:
                _read(answer)
        except httpx.InvalidURL as error:
            raise SinkRefused(f"{self.sink.where} is no address that can be posted to: {error}") from None
        except httpx.HTTPError as error:
            # Also an answer that broke off: whether the receiver took the request is not known, so it is sent again under its key.
            raise SinkUnavailable(self._said(f"is out of reach: {type(error).__name__}: {error}")) from None
        if not answer.is_success:
            raise self._refusal(answer)

    def _refusal(self, answer: Any) -> SinkError:
        said = self._said(f"answered {answer.status_code} {answer.reason_phrase}")
        if answer.status_code in (401, 403):
            return SinkRefused(f"{said}: it does not accept these credentials (headers=…)")
        if answer.is_redirect:
            where = self._said(answer.headers.get("Location", "nowhere"), alone=True)
            return SinkRefused(
                f"{said}: it points to {where}. A redirected POST may arrive as a GET without its panes, so none is followed: "
                "give the webhook the address where panes are taken."
            )
        if answer.status_code >= 500 or answer.status_code in PASSING:
            self._wait(answer.headers.get("Retry-After"))
            return SinkUnavailable(said)
        return SinkRefused(said)

    def _said(self, text: str, alone: bool = False) -> str:
        """What happened, without what may be secret: headers, user, password, query."""
        secrets = [value for _, value in self.sink.headers]
        secrets += [part for part in urllib.parse.urlsplit(self.sink.url).query.split("&") if part]
        return masked(text if alone else f"{self.sink.where} {text}", secrets)

    def _wait(self, asked: str | None) -> None:
        """As long as the receiver asked for, within our own patience; a wish that is no time is none."""
        if seconds := asked_pause(asked or "", time.time()):
            self.sink.retry.sleep(min(seconds, self.sink.retry.give_up_after))

    def close(self) -> None:
        """Let go of the connections."""
        client, self._client = self._client, None
        if client is not None:
            client.close()


def _read(answer: Any) -> None:
    """An answer up to its end, so that one which breaks off is noticed; a very long one is let go."""
    read = 0
    for part in answer.iter_raw():
        read += len(part)
        if read > LONGEST_ANSWER:
            return


def asked_pause(asked: str, now: float) -> float:
    """The seconds that a Retry-After asks for: a number or a date; 0 for anything else.

    >>> asked_pause("3", 0.0), asked_pause("Thu, 01 Jan 1970 00:00:09 GMT", 2.0), asked_pause("soon", 0.0)
    (3.0, 7.0, 0.0)
    """
    if asked.isascii() and asked.isdigit() and len(asked) < 10:
        return float(asked)
    try:
        when = email.utils.parsedate_to_datetime(asked)
    except (ValueError, OverflowError):
        return 0.0
    return max(0.0, (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp() - now)


@without_secrets
@dataclass(frozen=True)
class WebhookSink:
    """Panes to a web address."""

    url: str = field(repr=False)
    key_header: str = "Idempotency-Key"
    keyed: bool = False
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    batch_rows: int = 500
    timeout: float = 10.0
    retry: Retry = field(default=Retry(), repr=False)

    def __post_init__(self) -> None:
        if urllib.parse.urlsplit(self.url).scheme not in ("http", "https"):
            raise DefinitionError(f"a webhook's url begins with http:// or https://, not {self.where!r}")
        if not self.key_header:
            raise DefinitionError("a webhook without an idempotency key would count a repeated delivery twice: name its header")
        if self.batch_rows < 1:
            raise DefinitionError(f"webhook(batch_rows={self.batch_rows}): a request carries one row or more")

    @property
    def where(self) -> str:
        """The address without what may be secret in it: user, password, query."""
        parts = urllib.parse.urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"

    def __repr__(self) -> str:
        return f"webhook({self.where!r}, keyed={self.keyed})"

    @property
    def capabilities(self) -> Capabilities:
        """A receiver that keys by window and compares ranks can take corrections; others get each window once."""
        return Capabilities(upsert=self.keyed, retract=self.keyed, ordered=True, append=True)

    def open(self, output: str, shape: PaneShape) -> WebhookWriter:
        """Refuse what the receiver would get wrong."""
        require_keyed(f"webhook({self.where!r})", self.keyed, shape)
        need("httpx", "webhook")
        return WebhookWriter(self, shape.schema, shape.rank_identity, shape)

    def open_log(self, name: str, schema: pa.Schema, identity: tuple[str, ...]) -> WebhookWriter:
        """Late rows or dead letters."""
        need("httpx", "webhook")
        return WebhookWriter(self, schema, identity, None)


def webhook(
    url: str,
    *,
    key_header: str = "Idempotency-Key",
    keyed: bool = False,
    headers: Mapping[str, str] | None = None,
    batch_rows: int = 500,
    timeout: float = 10.0,
    retry: Retry | None = None,
) -> WebhookSink:
    """Results posted to a web address as JSON; every request carries an idempotency key.

    >>> webhook("https://me:secret@example.org/hook?token=abc", headers={"Authorization": "Bearer xyz"})
    webhook('https://example.org/hook', keyed=False)
    """
    return WebhookSink(url, key_header, keyed, tuple((headers or {}).items()), batch_rows, timeout, retry or Retry())
