"""The testing kit: transcripts replayed, a clock you turn by hand, sources and sinks in memory, and streams to order."""

from eventide.testing.answers import Answers, answers
from eventide.testing.clock import ManualClock
from eventide.testing.compare import differences
from eventide.testing.memory import MemorySink, MemorySource, PaneTable, pane_batch
from eventide.testing.replay import UnknownEngine, replay
from eventide.testing.streams import Stream, generate, merged
from eventide.testing.transcript import OutsideTheModel, Step, translate

__all__ = [
    "Answers",
    "ManualClock",
    "MemorySink",
    "MemorySource",
    "OutsideTheModel",
    "PaneTable",
    "Step",
    "Stream",
    "UnknownEngine",
    "answers",
    "differences",
    "generate",
    "merged",
    "pane_batch",
    "replay",
    "translate",
]
