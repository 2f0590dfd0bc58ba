"""Redis: a hash of results for each output, and their ranks beside it; a script compares and writes, so that nothing stale comes back."""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pyarrow as pa

from eventide.errors import DefinitionError, SinkError, SinkRefused, SinkUnavailable
from eventide.model.time import Duration, duration
from eventide.redaction import masked, without_secrets
from eventide.sinks import plain
from eventide.sinks.base import Capabilities, Delivery
from eventide.sinks.libraries import need
from eventide.sinks.ranked import rank_columns
from eventide.sinks.retry import Retry
from eventide.sinks.shape import PaneShape
from eventide.sinks.target import TableWriter, Target

ROWS_PER_CALL = 1_000
PASSING = ("OOM", "MISCONF", "LOADING", "BUSY", "READONLY", "NOREPLICAS", "MASTERDOWN", "TRYAGAIN", "CLUSTERDOWN", "EXECABORT")
"""How answers of the server begin that may be others later."""

APPLY = """
-- KEYS: results, ranks, ends. ARGV: the end up to which results are forgotten, then (id, generation, sequence, withdrawn, end, row) of each.
local function outranks(new, old)
  for part = 1, 3 do
    if new[part] ~= old[part] then return new[part] > old[part] end
  end
  return false
end
for at = 2, #ARGV, 6 do
  local id, row, ends = ARGV[at], ARGV[at + 5], tonumber(ARGV[at + 4])
  local new = {tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2]), tonumber(ARGV[at + 3])}
  local known, old = redis.call('HGET', KEYS[2], id), {-1, -1, -1}
  if known then old = cjson.decode(known) end
  if outranks(new, old) and (ARGV[1] == '' or ends > tonumber(ARGV[1])) then
    redis.call('HSET', KEYS[2], id, cjson.encode(new))
    redis.call('ZADD', KEYS[3], ARGV[at + 4], id)
    if new[3] == 1 then redis.call('HDEL', KEYS[1], id) else redis.call('HSET', KEYS[1], id, row) end
  end
end
if ARGV[1] ~= '' then
  for _, id in ipairs(redis.call('ZRANGE', KEYS[3], '-inf', ARGV[1], 'BYSCORE', 'LIMIT', 0, 10000)) do
    redis.call('HDEL', KEYS[1], id)
    redis.call('HDEL', KEYS[2], id)
    redis.call('ZREM', KEYS[3], id)
  end
end
"""
"""Runs in the server, where nothing comes between the comparison and the writing."""


class RedisWriter(TableWriter):
    """Panes or log rows into the hash of an output; a delivery is one transaction."""

    def __init__(self, sink: RedisSink, target: Target, shape: PaneShape | None = None) -> None:
        super().__init__(target, sink.retry, shape)
        self.sink = sink
        self._client: Any = None

    def store(self, rows: pa.Table, delivery: Delivery) -> None:
        """All calls of a delivery between MULTI and EXEC: readers see all of it or nothing."""
        self.attempt(lambda: self._send(rows, delivery))

    def _send(self, rows: pa.Table, delivery: Delivery) -> None:
        sending = self.client().pipeline(transaction=True)
        for start in range(0, rows.num_rows, ROWS_PER_CALL):
            some = plain.rows(rows.slice(start, ROWS_PER_CALL))
            if self.shape is None:
                for row in some:
                    sending.hsetnx(self.target.name, self._id(row), _text(row))
            else:
                name = self.target.name
                sending.eval(APPLY, 3, name, f"{name}:ranks", f"{name}:ends", *self._panes(some, rows, start, delivery))
        sending.execute()

    def _panes(self, some: list[dict[str, Any]], rows: pa.Table, start: int, delivery: Delivery) -> Iterator[Any]:
        assert self.shape is not None
        keep, mark = self.sink.keep, delivery.watermark
        yield "" if keep is None or mark is None else mark - keep
        generation, sequence, op = rank_columns(self.shape)
        ends = rows[self.shape.meta("window_end")].cast(pa.int64()).slice(start, len(some)).to_pylist()
        for row, end in zip(some, ends, strict=True):
            withdrawn = row.pop(op) == "retract"
            yield from (self._id(row), row[generation], row[sequence], int(withdrawn), end, _text(row))

    def _id(self, row: dict[str, Any]) -> str:
        """A window's id as it is; where several columns make the identity, a JSON list of them."""
        parts = [row[name] for name in self.target.identity]
        return str(parts[0]) if len(parts) == 1 else json.dumps(parts, ensure_ascii=False)

    def client(self) -> Any:
        """The connection, opened when it is first wanted."""
        if self._client is None:
            redis = need("redis", "redis")
            never = need("redis.retry", "redis").Retry(need("redis.backoff", "redis").NoBackoff(), 0)
            patience = {"socket_timeout": self.sink.timeout, "socket_connect_timeout": self.sink.timeout}
            self._client = redis.Redis.from_url(self.sink.url, retry=never, **patience)
        return self._client

    def check(self) -> None:
        """Whether the server answers, and what stands under the output's names is of the kind that it needs.

        All of them: a script that stops at the last one has written ranks by then, and a pane whose rank is known never comes again.
        """
        kinds = {self.target.name: b"hash"}
        if self.shape is not None:
            kinds |= {f"{self.target.name}:ranks": b"hash", f"{self.target.name}:ends": b"zset"}
        for key, kind in kinds.items():
            found = self.attempt(partial(self._kind_of, key))
            if found not in (kind, b"none"):
                raise SinkRefused(
                    f"the key {key!r} in {self.sink.where} holds a {found.decode()}; the output needs it for a {kind.decode()}. "
                    "Give the output another key (key=…), or remove that one."
                )

    def _kind_of(self, key: str) -> bytes:
        found: bytes = self.client().type(key)
        return found

    def error(self, cause: Exception) -> SinkError:
        errors = need("redis.exceptions", "redis")
        said = masked(f"{self.sink.where}: {type(cause).__name__}: {cause}")
        if isinstance(cause, errors.AuthenticationError | errors.AuthorizationError):
            return SinkRefused(said)
        passing = isinstance(cause, errors.ConnectionError | errors.TimeoutError | OSError)
        return (
            SinkUnavailable(said)
            if passing or said.partition(": ")[2].partition(": ")[2].startswith(PASSING)
            else SinkRefused(said)
        )

    def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.close()


def _text(row: dict[str, Any]) -> str:
    return json.dumps(row, ensure_ascii=False, allow_nan=False)


@without_secrets
@dataclass(frozen=True)
class RedisSink:
    """Panes into a hash, one field for each result."""

    url: str
    key: str | None = None
    keep: int | None = None
    timeout: float = 10.0
    retry: Retry = field(default=Retry(), repr=False)

    @property
    def where(self) -> str:
        """The address, without what is secret in it."""
        return masked(self.url)

    @property
    def capabilities(self) -> Capabilities:
        """One field for each window; a delivery is a transaction."""
        return Capabilities(upsert=True, retract=True, transactional=True, append=True)

    def place(self, name: str) -> Hashable:
        """The server, and the key in it."""
        return type(self).__name__, self.url, self.key or name

    def open(self, output: str, shape: PaneShape) -> RedisWriter:
        """Check that the server answers, and that the key is ours to write."""
        return self._opened(Target(self.key or output, shape.schema, shape.identity, rank_columns(shape)), shape)

    def open_log(self, name: str, schema: pa.Schema, identity: tuple[str, ...]) -> RedisWriter:
        """A hash of late rows or dead letters, one field for each."""
        return self._opened(Target.of_log(self.key or name, schema, identity))

    def _opened(self, target: Target, shape: PaneShape | None = None) -> RedisWriter:
        writer = RedisWriter(self, target, shape)
        try:
            writer.check()
        except BaseException:
            writer.close()
            raise
        return writer


def redis(
    url: str, key: str | None = None, *, keep: Duration | None = None, timeout: float = 10.0, retry: Retry | None = None
) -> RedisSink:
    """Results in the Redis hash `key` (by default the output's name): a field for each window, its value a JSON object.

    `keep` forgets results whose windows ended so long before W, with their ranks; it must be longer than anything can be delivered
    again. Without it everything stays.

    >>> redis("redis://:hunter2@localhost:6379/0", keep="1 day")
    RedisSink(url='redis://:***@localhost:6379/0', key=None, keep=86400000000, timeout=10.0)
    """
    if not url.startswith(("redis://", "rediss://", "unix://")):
        raise DefinitionError(
            f"{masked(url)!r} is no address of a Redis server: write redis://host:6379/0, rediss:// or unix://."
        )
    return RedisSink(url, key, None if keep is None else duration(keep, what="keep"), timeout, retry or Retry())
