"""`tune`: the question that a pipeline (or a directory of events) puts to its history, and its answer."""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd
from typing import Any

from eventide.definition.source import Source
from eventide.engine.spark_compat import packages_of
from eventide.engine.spark_session import local_session
from eventide.errors import DefinitionError
from eventide.model.time import Duration, duration, show_duration
from eventide.model.window import Sliding, Window
from eventide.state.archive import archived_lanes
from eventide.tuning.history import RowHistory, open_history
from eventide.tuning.job import LaneHistory, ask
from eventide.tuning.lane_scan import Question
from eventide.tuning.recommendation import Tuning

FINEST = 1_000_000
"""The usual resolution of the curve; finer only where windows or asked bounds need it."""


def tune(
    what: Any,
    window: Window | None = None,
    *,
    spark: Any = None,
    on_time: float = 0.99,
    in_the_end: float = 0.999,
    resolution: Duration | None = None,
    bounds: Sequence[Duration] = (),
    output: str | None = None,
) -> Tuning:
    """Ask the history of a pipeline (its archive if it keeps one, else its sources) or of a source with a window.

    `output` says whose windows are asked for where outputs of a pipeline have different ones; without it they are those of the first, and the
    answer says so. `bounds` are further bounds and allowed latenesses that the caller will ask for: the curve is exact on multiples of its
    resolution, which is made fine enough for them.

    >>> for line in ev.tune(clicks, ev.tumbling("10 seconds")).lines():  # doctest: +SKIP
    ...     print(line)
    watermark=ev.bounded("19 seconds"),
    idle_after="7 seconds",  # clicks: longer than any silence seen
    late=ev.accumulate("4 seconds"),
    """
    check_targets(on_time, in_the_end)
    sources, cut, taken = _parts(what, window, output)
    session = spark or local_session(_packages(what))
    grid = _resolution(cut, resolution, [duration(b, what="a bound", zero=True) for b in bounds])
    question = Question(cut, grid, tuple(s.idle_after for s in sources), tuple(s.max_ahead for s in sources))
    lanes, rows = _history(session, what, sources)
    if not lanes and rows is None:
        raise DefinitionError(f"there is no history to ask: {', '.join(s.name for s in sources)} hold no file yet.")
    answer = ask(session, question, lanes, rows)
    pipeline = None if isinstance(what, Source) else what
    return Tuning(answer, (on_time, max(on_time, in_the_end)), [s.name for s in sources], pipeline, taken)


def check_targets(*shares: float) -> None:
    """Refuse what is no share of the rows, before any history is read.

    >>> check_targets(0.99, 1.5)
    Traceback (most recent call last):
        ...
    eventide.errors.DefinitionError: a target is 1.5; it is a share of the rows, such as 0.99.
    """
    for share in shares:
        if not 0 < share <= 1:
            raise DefinitionError(f"a target is {share!r}; it is a share of the rows, such as 0.99.")


def _parts(what: Any, window: Window | None, output: str | None) -> tuple[tuple[Source, ...], Window, str | None]:
    """The sources, the windows, and whose they are where a pipeline has several."""
    if output is not None and (window is not None or isinstance(what, Source)):
        raise DefinitionError(
            f"tune(output={output!r}) takes the windows of a pipeline's output; leave it out beside a window or a source."
        )
    if isinstance(what, Source):
        if window is None:
            raise DefinitionError(
                'tune(source) needs the windows that it is to be cut into, as in tune(source, tumbling("1 minute")).'
            )
        return (what,), window, None
    what.refuse_join("tuning")
    chosen = what.output(output)
    taken = chosen.name if window is None and len({one.window for one in what.aggregations}) > 1 else None
    return what.sources, window or chosen.aggregation.first.window, taken


def _packages(what: Any) -> list[str]:
    return packages_of([what]) if isinstance(what, Source) else what.packages()


def _history(session: Any, what: Any, sources: tuple[Source, ...]) -> tuple[list[LaneHistory], RowHistory | None]:
    if not isinstance(what, Source) and what.archive is not None:
        return [LaneHistory(lane, chunks) for lane, chunks in archived_lanes(what).items()], None
    return open_history(session, sources)


def _resolution(window: Window, asked: Duration | None, bounds: Sequence[int]) -> int:
    """A step that divides the windows' ends and all asked bounds."""
    parts = [window.slice_size, window.offset] if isinstance(window, Sliding) else [window.gap]
    if asked is not None:
        grid = duration(asked, what="the resolution")
        if any(part % grid for part in parts):
            raise DefinitionError(
                f"a resolution of {show_duration(grid)} does not divide the windows ({window}). Take a divisor of their size and slide."
            )
        return grid
    return gcd(*parts, *bounds, FINEST) if gcd(*parts, *bounds) % FINEST else FINEST
