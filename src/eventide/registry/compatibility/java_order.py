"""The order in which a Java hash set lists its members: reasons come in that order from Confluent's service."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache


def in_java_order(keys: Iterable[str], size: int = 0) -> Iterator[str]:
    """The keys as a Java hash set of that size would list them; of their own number if no size is given."""
    found = list(dict.fromkeys(keys))
    if len(found) < 2:
        return iter(found)
    buckets = 16
    while (size or len(found)) > buckets * 3 // 4:
        buckets *= 2
    return iter(sorted(found, key=lambda key: _spread(key) & (buckets - 1)))


@lru_cache(maxsize=10_000)
def _spread(key: str) -> int:
    value = 0
    encoded = key.encode("utf-16-be", "surrogatepass")
    for index in range(0, len(encoded), 2):
        value = (31 * value + (encoded[index] << 8 | encoded[index + 1])) & 0xFFFFFFFF
    return value ^ (value >> 16)
