"""Exact late-data semantics on Spark Structured Streaming.

Declare sources, windows, aggregates and outputs, each output with its own late policy; run them live, until caught up, or over
history: every answer is what one-event-at-a-time processing in arrival order would give.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from eventide import lateness as lateness
    from eventide.api import *  # noqa: F403 (the names that are in its __all__)
    from eventide.telemetry.openlineage import openlineage as openlineage
    from eventide.telemetry.opentelemetry import opentelemetry as opentelemetry
    from eventide.tuning.tune import tune as tune

__version__ = "0.1.0"


_APART = {
    "lateness": "eventide.lateness",
    "openlineage": "eventide.telemetry.openlineage",
    "opentelemetry": "eventide.telemetry.opentelemetry",
    "tune": "eventide.tuning.tune",
}
"""Names that are not needed to define a pipeline, each with the module that it is or is in."""


def __getattr__(name: str) -> Any:
    """What users write comes with everything behind it, Polars and Arrow included: imported at its first use, not by every command."""
    if name in _APART:
        home = import_module(_APART[name])
        return getattr(home, name, home)
    if name == "__all__":
        return [*import_module("eventide.api").__all__, *_APART]
    if name.startswith("_"):
        raise AttributeError(f"module 'eventide' has no attribute {name!r}")
    try:
        return getattr(import_module("eventide.api"), name)
    except AttributeError:
        raise AttributeError(f"module 'eventide' has no attribute {name!r}") from None


def __dir__() -> list[str]:
    return sorted({*globals(), *__getattr__("__all__")})
