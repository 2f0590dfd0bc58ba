"""How long it takes to read a schema, to check one pair, and to check a new version against a thousand old ones.

python benchmarks/compatibility.py
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable
from typing import Any

from eventide.registry.compatibility import check, check_level
from eventide.registry.compatibility.levels import _parse

FIELDS, VERSIONS = 20, 1_000


def avro(extra: int) -> str:
    fields: list[dict[str, Any]] = [{"name": f"f{i}", "type": "long", "default": 0} for i in range(FIELDS)]
    fields += [{"name": f"x{i}", "type": ["null", "string"], "default": None} for i in range(extra)]
    return json.dumps({"type": "record", "name": "Order", "namespace": "shop", "fields": fields})


def json_schema(extra: int) -> str:
    properties: dict[str, Any] = {f"f{i}": {"type": "integer"} for i in range(FIELDS)}
    properties |= {f"x{i}": {"type": ["null", "string"]} for i in range(extra)}
    return json.dumps({"type": "object", "properties": properties, "additionalProperties": False})


def protobuf(extra: int) -> str:
    fields = [f"int64 f{i} = {i + 1};" for i in range(FIELDS)]
    fields += [f"string x{i} = {FIELDS + i + 1};" for i in range(extra)]
    return f'syntax = "proto3"; package shop; message Order {{ {" ".join(fields)} }}'


def median(action: Callable[[], object], rounds: int = 50) -> float:
    """The median of the times in microseconds."""
    times = []
    for _ in range(rounds):
        started = time.perf_counter()
        action()
        times.append((time.perf_counter() - started) * 1e6)
    return statistics.median(times)


def main() -> None:
    print(f"{FIELDS} to {2 * FIELDS} fields, {VERSIONS:,} versions; medians")
    for kind, text in (("AVRO", avro), ("JSON", json_schema), ("PROTOBUF", protobuf)):
        old = [_parse(kind, text(i % FIELDS), (), True) for i in range(VERSIONS)]
        new = _parse(kind, text(FIELDS), (), True)
        assert not check(new, old[-1])
        reading = median(lambda kind=kind, text=text: _parse(kind, text(FIELDS), (), True))
        pair = median(lambda new=new, old=old: check(new, old[-1]), 500)
        last = median(lambda new=new, old=old: check_level("BACKWARD", new, old))
        every = median(lambda new=new, old=old: check_level("BACKWARD_TRANSITIVE", new, old), 5)
        print(
            f"{kind:9} parse {reading:7.0f} µs   one pair {pair:6.1f} µs   BACKWARD {last:6.1f} µs   "
            f"BACKWARD_TRANSITIVE {every / 1000:6.1f} ms"
        )


if __name__ == "__main__":
    main()
