"""What changed since a state was made: what may change is noted and told, what may not is refused with the next command."""

from __future__ import annotations

import hashlib
import json
import logging
from typing import Any

import polars as pl

from eventide.definition.pipeline import Pipeline
from eventide.engine.feeds.projection import computed_with, needed_columns
from eventide.engine.settings import FREE, NEW, Rule, rule_of, settings_of, signature, signature_of
from eventide.errors import EventideError
from eventide.model.time import show_duration
from eventide.state.generations import NONE
from eventide.state.ledger import stage_name

log = logging.getLogger("eventide")

KEPT = ("lanes", "buckets", "generation", "began", "before", "withheld", "lost")
"""Facts that a state keeps, whatever the definition says."""
START_OVER = (
    "start over with the next generation, whose results replace the old ones in every sink: eventide run FILE --start-over."
)


class DefinitionChanged(EventideError):
    """The state was made by another definition, in a way that its contents no longer fit."""


def describe_definition(
    pipeline: Pipeline, kinds: dict[str, pl.DataType], lanes: dict[str, list[str]], buckets: int
) -> dict[str, Any]:
    """The facts of a definition that its state depends on."""
    needed = {*kinds} if pipeline.join else {*needed_columns(pipeline)} - {*pipeline.stream.dedupe_keys}
    return {
        "pipeline": pipeline.name,
        "sources": [source.name for source in pipeline.sources],
        "columns": {name: str(kind) for name, kind in kinds.items() if name in needed},
        "outputs": {o.name: {"allowed": o.late.allowed, "aggregation": signature_of(o.aggregation)} for o in pipeline.outputs},
        "aggregations": _named(pipeline),
        "pairs": pipeline.join is not None,
        "whole_rows": computed_with(pipeline) is None,
        "settings": settings_of(pipeline),
        "asked": {"buckets": pipeline.buckets, "generation": pipeline.generation},
        "lanes": lanes,
        "buckets": buckets,
        "generation": pipeline.generation,
        "began": 0,
        "before": NONE,
        "withheld": [],
        "lost": {},
        "shapes": {},
        "left": {},
        "changes": [],
    }


def _named(pipeline: Pipeline) -> dict[str, str]:
    """What a fresh state calls each aggregation, by what it is; a stage after the one whose results it reads."""
    names = {signature_of(one): str(nth or "") for nth, one in enumerate(pipeline.aggregations)}
    for nth, stage in enumerate(pipeline.stages, 1):
        names[signature_of(stage)] = stage_name(names[signature_of(stage.below[-1])], nth)
    return names


def refuse_older(stored: dict[str, Any] | None, state: str) -> None:
    """Stop before anything is touched where an older format did not note all that the state depends on."""
    if stored is not None and "format" in stored:
        raise DefinitionChanged(
            f"the state in {state} has format {stored['format']}, of an earlier Eventide, which did not note every setting, so that nobody can "
            f"tell whether it still fits. Nothing was changed. Go on with the Eventide that made it, or {START_OVER}"
        )


class StateFinished(EventideError):
    """The end of the input was declared on this state: W stands above every time, and whatever came now would be late."""


def finished(state: str) -> StateFinished:
    """What a run says whose last batch was the end of the input."""
    return StateFinished(
        f"the state in {state} is finished: a run with drain=True (--drain) declared the end of its input and closed every window, so that "
        f"rows read now would all be late. Nothing was changed. To read everything again, {START_OVER} Without --drain a run leaves its "
        "last windows open, and later ones go on from there."
    )


def refuse_unfinished(drain: bool, state: str) -> None:
    """Only a run that is told that the input ends may go on with the end that another one had begun to deliver."""
    if not drain:
        raise StateFinished(
            f"a run on {state} declared the end of its input and died while it delivered the last windows, of which sinks may have a part. "
            "Finish that first: eventide run FILE --until-caught-up --drain. Then the state is finished."
        )


def check_definition(
    stored: dict[str, Any] | None, mine: dict[str, Any], state: str, batch: int = -1, waiting: int = 0
) -> dict[str, Any]:
    """The facts to go on with, of which every free change is told; or a refusal that names all that cannot be followed.

    `batch` is the last that was committed, `waiting` how many rows it left to be judged.
    """
    facts = compared(stored, mine, state, batch, waiting)
    for change in new_changes(stored, facts):
        log.warning("%(setting)s is now %(to)s and was %(from)s up to batch %(after_batch)s: %(why)s.", change)
    return facts


def new_changes(stored: dict[str, Any] | None, facts: dict[str, Any]) -> list[dict[str, Any]]:
    """The free changes that a comparison has found, without those that the state had noted already."""
    found: list[dict[str, Any]] = facts["changes"][len(stored["changes"]) :] if stored is not None else []
    return found


def compared(
    stored: dict[str, Any] | None, mine: dict[str, Any], state: str, batch: int = -1, waiting: int = 0
) -> dict[str, Any]:
    """What the state keeps, what has changed since, and which outputs left; or a refusal. Nobody is told."""
    if stored is None:
        return mine
    wrong = obstacles(stored, mine, waiting)
    if wrong:
        raise DefinitionChanged(
            f"pipeline {mine['pipeline']!r} no longer fits the state in {state}. {' '.join(wrong)} Nothing was changed or delivered. Put it "
            f"back as it was, or {START_OVER}"
        )
    told = free_changes(stored, mine, batch)
    gone = {name: batch for name in stored["outputs"] if name not in mine["outputs"]}
    return {
        **mine,
        **{name: stored[name] for name in KEPT if name in stored},
        "aggregations": {said: _aggregations(stored)[said] for said in mine["aggregations"]},
        "left": {**stored["left"], **gone},
        "changes": stored["changes"] + told,
    }


def obstacles(stored: dict[str, Any], mine: dict[str, Any], waiting: int = 0) -> list[str]:
    """All that the state cannot follow, each with why."""
    changes = _changes(stored["settings"], mine["settings"])
    return [
        *_of_names(stored, mine),
        *(_refusal(label, was, now, rule) for label, was, now, rule in changes if rule.change != FREE),
        *_of_kept_facts(stored, mine),
        *_of_outputs(stored, mine),
        *_of_aggregations(stored, mine),
        *_of_waiting(stored, mine, waiting),
    ]


def free_changes(stored: dict[str, Any], mine: dict[str, Any], batch: int = -1) -> list[dict[str, Any]]:
    """All that may change on the state, as it is noted there."""
    return [
        {"after_batch": batch, "setting": label, "from": was, "to": now, "why": rule.why}
        for label, was, now, rule in _changes(stored["settings"], mine["settings"])
        if rule.change == FREE
    ]


def _changes(stored: dict[str, dict[str, str]], mine: dict[str, dict[str, str]]) -> list[tuple[str, str, str, Rule]]:
    """Settings that differ, of parts that are on both sides: their name, what they were, what they are, and the rule."""
    found = []
    for part, settings in mine.items():
        was = stored.get(part, {})
        if was.get("kind") != settings.get("kind") and was:
            rule = Rule(NEW, "its rows would be read again from the start")
            found.append((f"the kind of {part}", was["kind"], settings["kind"], rule))
            continue
        for name, now in settings.items():
            if name == "kind" or not was:
                continue
            rule = rule_of(part, settings.get("kind", ""), name)
            then = was.get(name, rule.before)
            if then is not None and then != now:
                found.append((_label(part, name), then, now, rule))
    return found


def _label(part: str, name: str) -> str:
    return f"the {name} of the pipeline" if part in ("pipeline", "stream") else f"{name} of {part}"


def _refusal(label: str, was: str, now: str, rule: Rule) -> str:
    return f"{label[0].upper()}{label[1:]} changed from {was} to {now}: {rule.why}."


def _of_names(stored: dict[str, Any], mine: dict[str, Any]) -> list[str]:
    if stored["sources"] == mine["sources"]:
        return []
    was, now = (", ".join(facts["sources"]) for facts in (stored, mine))
    return [
        f"The sources changed from {was} to {now}: their lanes would be taken for others, or wait for rows that never come."
    ]


def _of_kept_facts(stored: dict[str, Any], mine: dict[str, Any]) -> list[str]:
    wrong = []
    for name in sorted({*stored["columns"], *mine["columns"]}):
        was, now = (facts["columns"].get(name, "nothing") for facts in (stored, mine))
        if was != now and mine["pairs"]:
            wrong.append(f"The column {name!r} of the pairs changed from {was} to {now}: those in the sinks have the first.")
        elif was != now and "nothing" not in (was, now):
            wrong.append(f"The column {name!r} changed from {was} to {now}: the partial results in the state are of the first.")
    asked = mine["asked"]
    if asked["buckets"] not in (None, stored["buckets"]):
        wrong.append(f"The buckets changed from {stored['buckets']} to {asked['buckets']}: the state's files are cut by them.")
    if asked["generation"] > stored["generation"]:
        wrong.append(
            f"The generation is {asked['generation']} here and {stored['generation']} in the state, which keeps its own."
        )
    return wrong


def _of_outputs(stored: dict[str, Any], mine: dict[str, Any]) -> list[str]:
    wrong = []
    for name, facts in mine["outputs"].items():
        if name in stored["outputs"]:
            continue
        kept = _kept_for(stored, facts["aggregation"])
        widest = max(kept)
        if name in stored["left"]:
            wrong.append(
                f"The output {name!r} left after batch {stored['left'][name]} and comes back: what it had said is forgotten here, so that "
                "its sequences would begin again below those in its sinks. Give it a new name."
            )
        elif facts["allowed"] > widest:
            wrong.append(
                f"The new output {name!r} allows {show_duration(facts['allowed'])} of lateness, and the state was kept for "
                f"{show_duration(widest)}: the windows between are gone. Allow at most that much."
            )
        elif facts["allowed"] not in kept:
            wrong.append(
                f"The new output {name!r} allows {show_duration(facts['allowed'])} of lateness, and the state tells rows that came late apart "
                f"only by {', '.join(map(show_duration, sorted(kept)))}. Allow one of these."
            )
    return wrong


def _kept_for(stored: dict[str, Any], aggregation: str) -> set[int]:
    """The latenesses by which the state tells rows of an aggregation apart: those of the outputs that read it."""
    return {0, *(o["allowed"] for o in stored["outputs"].values() if o.get("aggregation", aggregation) == aggregation)}


def _aggregations(stored: dict[str, Any]) -> dict[str, str]:
    """The aggregations of a state by what they are, with their names in it; one that could have only one notes it as such."""
    known: dict[str, str] = stored.get("aggregations") or {signature(stored["settings"]["stream"]): ""}
    return known


def _of_aggregations(stored: dict[str, Any], mine: dict[str, Any]) -> list[str]:
    """Of several aggregations each is known by what it is: one may leave, but one that comes would lack what was read before it."""
    known = _aggregations(stored)
    if stored.get("pairs", False) != mine["pairs"]:
        was, now = (", ".join(all) for all in (known, mine["aggregations"]))
        return [f"The outputs read {was} and read {now}: windows and pairs have nothing in common that could be continued."]
    if len(known) == len(mine["aggregations"]) == 1:
        return []  # told setting by setting
    wrong = []
    for name, facts in mine["outputs"].items():
        now, was = facts["aggregation"], stored["outputs"].get(name, {}).get("aggregation")
        if now not in known:
            wrong.append(
                f"The output {name!r} reads {now}, of which the state has nothing: its open windows would lack what was read before."
            )
        elif was not in (None, now):
            wrong.append(
                f"The output {name!r} read {was} and reads {now}: what it already said cannot be continued with other windows."
            )
    return wrong


def _of_waiting(stored: dict[str, Any], mine: dict[str, Any], waiting: int) -> list[str]:
    """Where nothing was diverted, rows that wait were kept with only the columns that are computed with."""
    if stored["whole_rows"] or not mine["whole_rows"] or not waiting:
        return []
    return [
        f"{waiting:,} rows wait to be judged, and were kept without the columns that only a diverted row needs. Let the old definition judge "
        "them first (eventide run FILE --until-caught-up), then change it."
    ]


def _since_noted(part: str, settings: dict[str, str]) -> dict[str, str]:
    """Without settings that are as they were before states noted them, so that a batch that was begun then is known again."""
    kind = settings.get("kind", "")
    return {n: now for n, now in settings.items() if n == "kind" or rule_of(part, kind, n).before != now}


def digest(facts: dict[str, Any]) -> str:
    """What tells one definition from another in the record of a batch; functions (transforms, maps) are not part of it.

    >>> one = {"settings": {"pipeline": {"name": "a", "when_all_idle": "hold"}}, "lanes": {}}
    >>> digest(one) == digest({"lanes": {"s": ["0"]}, "settings": {"pipeline": {"when_all_idle": "hold", "name": "a"}}})
    True
    """
    said = {name: facts.get(name) for name in ("sources", "columns", "outputs", "whole_rows", "settings")}
    said["settings"] = {part: _since_noted(part, settings) for part, settings in (said["settings"] or {}).items()}
    if len(facts.get("aggregations", ())) <= 1:  # the settings say it all, as they did when there was only one
        said["outputs"] = {n: {k: v for k, v in o.items() if k != "aggregation"} for n, o in (said["outputs"] or {}).items()}
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()[:16]
