"""Webhook: panes posted as JSON, each request with an idempotency key by which the receiver knows a repeat."""

from __future__ import annotations

import email.utils
import hashlib
import json
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from eventide.errors import DefinitionError, SinkRefused, SinkUnavailable
from eventide.redaction import without_secrets
from eventide.sinks import plain
from eventide.sinks.base import Capabilities, Delivery
from eventide.sinks.ranked import together
from eventide.sinks.retry import Retry
from eventide.sinks.shape import PaneShape

PASSING = {408, 409, 425, 429}


class WebhookWriter:
    """Posts a delivery in requests of at most so many rows; the same delivery makes the same requests again."""

    def __init__(self, sink: WebhookSink, schema: pa.Schema, kind: str) -> None:
        self.sink = sink
        self.schema = schema
        self.kind = kind

    def deliver(self, panes: Iterable[pa.RecordBatch], delivery: Delivery) -> None:
        """Post the panes, in order."""
        rows = plain.rows(together(panes, self.schema))
        for start in range(0, len(rows), self.sink.batch_rows):
            facts = {"pipeline": delivery.pipeline, "output": delivery.output, "batch": delivery.batch}
            body = json.dumps(
                {**facts, self.kind: rows[start : start + self.sink.batch_rows]}, ensure_ascii=False, allow_nan=False
            )
            # The clock tells a batch of this state directory from one of the same number in an earlier one.
            told = f"{delivery.pipeline}\0{delivery.output}\0{delivery.batch}\0{delivery.clock}\0{self.kind}\0{start}"
            key = hashlib.sha256(told.encode()).hexdigest()
            self.sink.retry.run(lambda body=body, key=key: self._post(body.encode(), key))  # type: ignore[misc]

    append = deliver

    def _post(self, body: bytes, key: str) -> None:
        headers = {"Content-Type": "application/json", **dict(self.sink.headers), self.sink.key_header: key}
        request = urllib.request.Request(self.sink.url, data=body, headers=headers, method="POST")  # noqa: S310 (checked)
        where = self.sink.where
        try:
            with urllib.request.urlopen(request, timeout=self.sink.timeout) as answer:  # noqa: S310
                answer.read()
        except urllib.error.HTTPError as error:
            said = f"{where} answered {error.code} {error.reason}"
            if error.code in (401, 403):
                raise SinkRefused(f"{said}: it does not accept these credentials (headers=…)") from None
            if error.code >= 500 or error.code in PASSING:
                self._wait(error.headers.get("Retry-After"))
                raise SinkUnavailable(said) from None
            raise SinkRefused(said) from None
        except OSError as error:
            raise SinkUnavailable(f"{where} is out of reach: {error}") from None

    def _wait(self, asked: str | None) -> None:
        """As long as the receiver asked for, within our own patience."""
        if not asked:
            return
        when = email.utils.parsedate_to_datetime(asked).timestamp() - time.time() if not asked.isdigit() else float(asked)
        self.sink.retry.sleep(min(max(when, 0.0), self.sink.retry.give_up_after))

    def close(self) -> None:
        """Nothing is held open."""


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
        return WebhookWriter(self, shape.schema, "panes")

    def open_log(self, name: str, schema: pa.Schema, identity: tuple[str, ...]) -> WebhookWriter:
        """Late rows or dead letters."""
        return WebhookWriter(self, schema, "rows")


def require_keyed(name: str, keyed: bool, shape: PaneShape) -> None:
    """Refuse retractions and deltas to a far end that is not known to remember the ranks it applied."""
    if not keyed and ("retract" in shape.accumulation or shape.accumulation == "discarding"):
        raise DefinitionError(
            f"{name} cannot take a {shape.accumulation} output: a repeated or late pane would be applied twice. "
            "If the receiver keeps one row per window and compares (generation, sequence, op), say so with keyed=True."
        )


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
