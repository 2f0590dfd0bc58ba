"""What every service of ours needs: which addresses only this machine reaches, and metrics in Prometheus's text format."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator

MEDIA = "text/plain; version=0.0.4; charset=utf-8"
Sample = tuple[dict[str, str], float]
ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})


def is_loopback(host: str) -> bool:
    """Can only this machine reach the address?

    >>> is_loopback("127.0.0.1"), is_loopback("::1"), is_loopback("0.0.0.0")
    (True, True, False)
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def metric(name: str, kind: str, told: str, samples: Iterable[Sample]) -> Iterator[str]:
    r"""A metric with its samples.

    >>> print("".join(metric("rows_total", "counter", "Rows.", [({"lane": 'a"b'}, 7)])), end="")
    # HELP rows_total Rows.
    # TYPE rows_total counter
    rows_total{lane="a\"b"} 7
    """
    yield f"# HELP {name} {told}\n# TYPE {name} {kind}\n"
    yield from (sample(name, labels, value) for labels, value in samples)


def sample(name: str, labels: dict[str, str], value: float) -> str:
    """One line; labels may hold anything at all."""
    told = ",".join(f'{label}="{_harmless(text)}"' for label, text in labels.items())
    return f"{name}{{{told}}} {value}\n" if told else f"{name} {value}\n"


def _harmless(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode().translate(ESCAPES)


__all__ = ["MEDIA", "Sample", "is_loopback", "metric", "sample"]
