"""What a tuning recommends, as lines to paste: within the policies that the pipeline has chosen, each with what it needs to take effect."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from eventide.definition.output import Output
from eventide.definition.pipeline import Pipeline
from eventide.engine.settings import FREE, RULES
from eventide.model.policy import LatePolicy
from eventide.model.time import span
from eventide.model.watermark import Bounded
from eventide.wording import words

if TYPE_CHECKING:
    from eventide.tuning.recommendation import Tuning

AS_IT_IS = "as it is"
NOW = "takes effect on the state that is there"
NEW_STATE = "needs a new state: eventide run FILE --start-over"


def advice(tuning: Tuning) -> list[str]:
    """The recommendation as it is written in a pipeline; of a pipeline, for each of its sources and outputs."""
    pipeline = tuning.pipeline
    if pipeline is None:
        late = LatePolicy("accumulate", tuning.allowed) if tuning.allowed else LatePolicy("drop")
        found = [*_idle(tuning), (f"late=ev.{words(late)},", "")]
        lines = [(f"watermark=ev.{words(Bounded(tuning.bound))},", ""), *found]
    else:
        lines = [*_watermarks(tuning, pipeline), *_idle(tuning, pipeline), *_policies(tuning, pipeline)]
    return [line if not why else f"{line}  # {why}" for line, why in lines]


def _watermarks(tuning: Tuning, pipeline: Pipeline) -> Iterator[tuple[str, str]]:
    for source in pipeline.sources:
        if source.watermark.says is not None:
            # The producers know better than history how far their stream is complete: a bound would pass over what they say.
            measured = f"as its rows say; by their times alone it would be {words(Bounded(tuning.bound))}"
            yield f"watermark=ev.{words(source.watermark)},", f"{source.name}: {AS_IT_IS}, {measured}"
            continue
        # By arrival nothing is out of order, and a bound would need a column of event times that such a source does not name.
        wanted = source.watermark if source.watermark.by_arrival else Bounded(tuning.bound)
        was = "" if source.watermark == wanted else f", instead of {words(source.watermark)}"
        yield f"watermark=ev.{words(wanted)},", f"{source.name}: {_effect(source, 'watermark', source.watermark, wanted)}{was}"


def _idle(tuning: Tuning, pipeline: Pipeline | None = None) -> Iterator[tuple[str, str]]:
    sources = pipeline.sources if pipeline is not None else [None] * len(tuning.names)
    for (name, report), source in zip(tuning.idle(), sources, strict=True):
        if report.longest:
            wanted = rounded_up(report.longest)
            effect = "" if source is None else f"; {_effect(source, 'idle_after', source.idle_after, wanted)}"
            yield f"idle_after={span(wanted)},", f"{name}: longer than any silence seen{effect}"


def _policies(tuning: Tuning, pipeline: Pipeline) -> Iterator[tuple[str, str]]:
    """An output whose results never move stays so; how much that costs is said. What the others allow is measured."""
    for output in pipeline.outputs:
        policy = output.late
        if _is_beside(tuning, output):
            asked = f"it reads {words(output.aggregation.first.window)}, which this says nothing of: ask for that window"
            yield f"late=ev.{_written(policy)},", f"{output.name}: {AS_IT_IS}; {asked}"
            continue
        if policy.name in ("drop", "divert"):
            late = tuning.point(tuning.bound).refused
            where = "diverted" if policy.refused else "dropped"
            yield f"late=ev.{_written(policy)},", f"{output.name}: {AS_IT_IS}; {late:,} rows of this history would be {where}"
            continue
        wanted = replace(policy, allowed=tuning.allowed or policy.allowed)
        yield (
            f"late=ev.{_written(wanted)},",
            f"{output.name}: {_effect(output, 'late', policy, wanted)}"
            + ("" if tuning.allowed else "; this history needs none of it")
            + ("; results(late=…) below it must allow as much" if output.aggregation.below else ""),
        )


def _is_beside(tuning: Tuning, output: Output) -> bool:
    """Whether an output reads other windows than those that were asked about, where another output reads these."""
    assert tuning.pipeline is not None
    windows = {o.aggregation.first.window for o in tuning.pipeline.outputs}
    return len(windows) > 1 and tuning.answer.question.window in windows - {output.aggregation.first.window}


def _effect(part: Any, setting: str, was: Any, wanted: Any) -> str:
    if was == wanted:
        return AS_IT_IS
    return NOW if RULES[type(part)][setting].change == FREE else NEW_STATE


def rounded_up(time: int) -> int:
    """To two digits in seconds, so that nobody takes it for a measured constant.

    >>> rounded_up(1), rounded_up(61_000_000)
    (1000000, 65000000)
    """
    second = 1_000_000
    step = second
    while time > 20 * step:
        step *= 5 if str(step)[0] == "1" else 2
    return -(-time // step) * step


def _written(policy: LatePolicy) -> str:
    """As it is written in a pipeline; where the refused rows go is left as it stands there."""
    if policy.name == "divert" and policy.refused is not None:
        return "divert()" if policy.refused.to is None else "divert(…)"
    plain = words(replace(policy, refused=None))
    return plain if policy.refused is None else f"{plain[:-1]}, refused=…)"
