"""What a changed definition would come to: the windows that hang on it, and by the archive the results that would be other ones."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from eventide.definition.pipeline import Pipeline
from eventide.engine.recut import ONE_BATCH, recut
from eventide.engine.trial import Trial, tried
from eventide.engine.verify import Difference, differences, standing
from eventide.engine.why import Asking
from eventide.model.time import MAX_TIME, plus
from eventide.state.results import Results
from eventide.state.retention import refuse_removed
from eventide.state.state import State
from eventide.state.windows import output_windows
from eventide.storage.scratch import scratch


@dataclass(frozen=True)
class Planned:
    """A trial, and what the state holds that it is about."""

    trial: Trial
    open: int = 0
    """Open windows of all outputs."""
    retained: int = 0
    """Closed ones that take late rows still."""
    waiting: int = 0
    """Rows that were read and wait to be judged."""
    results: int = 0
    """Results that were given, which a new generation replaces."""


@dataclass
class Changed:
    """What the archive says under the definition as it is now, beside what stands."""

    compared: int = 0
    """Results that can change no more under either definition."""
    differences: list[Difference] = field(default_factory=list)
    reshaped: list[str] = field(default_factory=list)
    """Outputs of other columns, keys or windows: every result of them is another one."""
    refused: dict[str, tuple[int, int]] = field(default_factory=dict)
    """For each output, rows that it has refused, and that it would refuse of all archived ones."""


def planned(pipeline: Pipeline) -> Planned:
    """Hold a definition against its state, as a run would, and count what hangs on it."""
    trial = tried(pipeline)
    if trial.batch is None or trial.batch < 0:
        return Planned(trial)
    state = State.of(pipeline)
    mark, cut = state.ledger.frontier.watermark, [one for one in output_windows(state) if one.window is not None]
    return Planned(
        trial,
        sum(one.open(mark) for one in cut),
        0 if mark == MAX_TIME else sum(one.retained(mark) for one in cut),
        state.ledger.waiting,
        sum(counts["panes"] for counts in state.ledger.outputs.values()),
    )


def changed_results(pipeline: Pipeline) -> Changed:
    """The archive through the definition as it is now, against what the state says of windows that are final under both."""
    asking, found = Asking.open(pipeline, changed=True), Changed()
    refuse_removed(asking.state, "a comparison with them")
    made, state = recut(asking.archive, scratch("plan"), ONE_BATCH), asking.state
    mark, known = state.ledger.frontier.watermark, (state.definition or {})["outputs"]
    for output in pipeline.outputs:
        if output.name not in known:
            continue
        counts: list[Counter[str]] = [state.ledger.counts_of(output.name), made.verdicts[output.name]]
        found.refused[output.name] = (counts[0]["rows_refused"], counts[1]["rows_refused"])
        shape, files = made.shapes[output.name], state.panes(output.name)
        noted = (state.definition or {}).get("shapes", {}).get(output.name, {}).get("signature", shape.signature)
        if noted != shape.signature or (files and not {*shape.schema.names} <= {*state.store.schema(files[0]).names}):
            found.reshaped.append(output.name)
            continue
        if mark is None:
            continue
        until = None if mark == MAX_TIME else plus(mark, -max(output.late.allowed, known[output.name]["allowed"]))
        both = [standing(one) for one in (Results(state.store, tuple(files), shape), made.results[output.name])]
        was, now = ({w: v for w, v in one.items() if until is None or v[0] <= until} for one in both)
        found.compared += len({*was, *now})
        found.differences += differences(output, ("as it stands", "as it would be"), was, now, shape)
    return found


__all__ = ["Changed", "Planned", "changed_results", "planned"]
