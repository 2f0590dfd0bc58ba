"""What is measured: each case a stream, a query over it, who answers it, and the ratio that is asked for."""

from __future__ import annotations

from dataclasses import dataclass

LATENESS = "10 seconds"


@dataclass(frozen=True)
class Case:
    """A query over a stream."""

    name: str
    keys: int
    size: str = "60 seconds"
    slide: str | None = None
    gap: str | None = None
    dedupe: bool = False
    kafka: bool = False
    engines: tuple[str, ...] = ("native", "eventide")
    """The first is what the others are compared with."""
    bars: tuple[float, ...] = ()
    """For each of the others, how many times as fast it should be."""
    scale: float = 1.0
    """Of the rows that are asked for, how many it takes."""

    @property
    def stream(self) -> str:
        """Which stream it reads; cases share them."""
        return f"{'kafka' if self.kafka else 'parquet'}-{self.keys}"


CASES = {
    case.name: case
    for case in (
        Case("parquet-1k", 1_000, engines=("native", "eventide", "eventide-4"), bars=(3, 1.5)),
        Case("parquet-1m", 1_000_000, bars=(10,)),
        Case("kafka-1k", 1_000, kafka=True, engines=("native", "eventide", "eventide-4"), bars=(2, 1.5)),
        Case("kafka-1m", 1_000_000, kafka=True, bars=(8,)),
        Case("sliding-5s", 1_000, slide="5 seconds", bars=(4,)),
        Case("sliding-1h", 1_000, size="3600 seconds", slide="60 seconds", bars=(10,)),
        Case("sessions-1k", 1_000, gap="10 seconds", bars=(2,)),
        Case("sessions-1m", 1_000_000, gap="10 seconds", bars=(2,)),
        Case("dedupe", 1_000, dedupe=True, bars=(2,)),
        Case("lateness-60x", 1_000, engines=("eventide", "eventide-late"), bars=(1 / 1.2,)),
    )
}
