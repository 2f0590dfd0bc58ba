"""The testing kit: transcripts replayed, a clock you turn by hand, sources and sinks in memory, and streams to order."""

from eventide.testing.compare import differences
from eventide.testing.replay import UnknownEngine, replay
from eventide.testing.transcript import OutsideTheModel, Step, translate

__all__ = ["OutsideTheModel", "Step", "UnknownEngine", "differences", "replay", "translate"]
