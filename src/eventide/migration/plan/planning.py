"""From the current and the wanted schema to a plan; or to the news that none is needed."""

from __future__ import annotations

import json
from collections.abc import Collection
from collections.abc import Mapping as Map
from dataclasses import dataclass, replace

from eventide.migration.faults import PlanRefused, listed
from eventide.migration.plan.expression import refuse_unless_valid
from eventide.migration.plan.fitting import as_wanted, fitted
from eventide.migration.plan.mapping import Change, Mapping
from eventide.migration.plan.pairing import Said, one_to_one, pair
from eventide.migration.plan.plan import Plan
from eventide.migration.plan.policy import Policy
from eventide.migration.plan.rule_set import contract_rules, expand_rules
from eventide.migration.plan.shape import Language, Leaf, language
from eventide.migration.plan.shape.addition import Addition
from eventide.registry.compatibility import InvalidSchema, check_level, parse


@dataclass(frozen=True, slots=True)
class Additive:
    """No migration is needed. `reasons` says what the registry would still find wrong with the wanted schema."""

    added: tuple[str, ...]
    reasons: tuple[str, ...]

    @property
    def advice(self) -> str:
        """What to do instead."""
        if self.reasons:
            return f"Nothing is renamed, retyped or dropped, but the registry would refuse it: {listed(self.reasons)}"
        what = f"It only adds {listed(self.added)}" if self.added else "No field changes"
        return f"{what}: no migration is needed, register the schema as it is."


def propose(
    kind: str,
    current: str,
    wanted: str,
    *,
    level: str = "BACKWARD",
    said: Said | None = None,
    policy: Policy | None = None,
    kept: Collection[str] = (),
) -> Plan | Additive:
    """Classify a change and, if it breaks readers, plan it. Fields in `kept` stay even if the wanted schema lacks them.

    Raises:
        PlanRefused: the schemas cannot be compared, or what was said about them does not fit.
    """
    said = said or Said()
    lang = language(kind)
    old, new = lang.leaves(_valid(kind, current)), lang.leaves(_valid(kind, wanted))
    _refuse_unknown(said, old)
    mappings, additions, notes, origins = _in_place(kind, lang, wanted, old, new, level, said)
    gone = {path: leaf for path, leaf in old.items() if path not in new and path not in kept}
    # What was said to be the successor may be there already, from a migration that was given up.
    named = {*said.renames.values(), *said.forward}
    come = {path: leaf for path, leaf in new.items() if path not in old or (gone and path in named)}
    if not gone and not mappings:
        reasons = check_level(level, parse(kind, wanted), [parse(kind, current, strict=False)])
        return Additive(tuple(come), tuple(r.message for r in reasons))
    mappings += pair(gone, come, said)
    additions = [*lang.missing(current, wanted), *additions]
    grown = lang.with_added(current, additions)
    for addition in additions:
        remark = lang.remark(grown, addition)
        if remark is not None and any(
            p == addition.path or p.startswith(addition.path + ".") for p in come.keys() | origins.keys()
        ):
            notes.append(remark)
    drops = tuple(dict.fromkeys(_highest(path, new) for m in mappings for path in m.old))
    fit = fitted(kind, current, level, additions, drops)
    both = lang.leaves(lang.with_added(current, fit.additions))
    involved = {path for m in mappings for path in (*m.old, *m.new)}
    types = {path: Leaf(path, leaf.type, leaf.definition) for path, leaf in both.items() if path in involved}
    told = tuple(dict.fromkeys((*notes, *fit.notes)))
    tight, required = as_wanted(lang, wanted, fit.additions, origins)
    plan = Plan(
        kind, tuple(mappings), fit.additions, drops, told, policy or Policy(), types, fit.retired, tight, required
    )  # fmt: skip
    return validated(plan.edited(said.forward, said.backward), both)


def validated(plan: Plan, leaves: Map[str, Leaf]) -> Plan:
    """The plan itself, if every expression can be parsed and reads what is there.

    Raises:
        PlanRefused: the first that does not.
    """
    for mapping in plan.mappings:
        if mapping.change is Change.DROP:
            continue
        for target, sql in mapping.forward.items():
            refuse_unless_valid(target, sql, [p for p in leaves if p not in plan.new])
        for target, sql in mapping.backward.items():
            refuse_unless_valid(target, sql, [p for p in leaves if p not in plan.old])
        lacking = [p for p in mapping.new if p not in mapping.forward]
        lacking += [p for p in mapping.old if p not in mapping.backward]
        if lacking:
            raise PlanRefused(f"There is no expression for {listed(lacking)}; give one with --forward or --backward.")
    if plan.policy.rules and plan.kind == "PROTOBUF":
        raise PlanRefused("Migration rules are written for AVRO and JSON; leave the setting `rules` off for PROTOBUF.")
    if plan.policy.rules:
        for rules in (expand_rules, contract_rules):
            rules(plan, "")  # what cannot be said as a rule is refused now, not half-way
    return plan


def expanded(plan: Plan, text: str) -> str:
    """A schema with both shapes."""
    return language(plan.kind).with_added(text, plan.additions)


def contracted(plan: Plan, text: str) -> str:
    """A schema without the old shape."""
    lang = language(plan.kind)
    text = lang.without(text, [path for path in plan.drops if path not in plan.retired])
    return (lang.retired(text, plan.retired) or text) if plan.retired else text


def readable(plan: Plan, text: str) -> str:
    """A schema that reads every record of a migration, from before it to after it: both shapes, both optional."""
    return language(plan.kind).loosened(expanded(plan, text), plan.drops)


def _valid(kind: str, text: str) -> str:
    try:
        parse(kind, text, strict=False)
    except InvalidSchema as error:
        raise PlanRefused(f"This is no {kind} schema: {error.reason}") from None
    return text


def _refuse_unknown(said: Said, old: Map[str, Leaf]) -> None:
    for path in [*said.renames, *said.meaning, *said.names, *said.backward]:
        if path not in old:
            raise PlanRefused(f"{path!r} is no field of the current schema; it has {listed(list(old), 20)}.")


def _in_place(
    kind: str, lang: Language, wanted: str, old: Map[str, Leaf], new: Map[str, Leaf], level: str, said: Said
) -> tuple[list[Mapping], list[Addition], list[str], dict[str, str]]:
    """Fields that keep their name but not their type or meaning: the new one needs a name of its own for a while.

    The last is where the wanted schema has each of those names.
    """
    mappings, additions, notes, origins = [], [], [], {}
    for path, source in old.items():
        target = new.get(path)
        if target is None:
            continue
        if source.definition != target.definition and not _widens(kind, source, target, level):
            change = Change.RETYPE
            name = said.names.get(path, f"{source.name}_{target.type}")
        elif path in said.meaning or source.meaning != target.meaning:
            change = Change.MEANING
            name = said.meaning.get(path) or said.names.get(path) or f"{source.name}_v2"
        else:
            if source.doc != target.doc:
                notes.append(f"the words about {path} changed; if its meaning did, say --meaning {path}=NEW_NAME")
            continue
        renamed = lang.renamed(Addition(source.parent, source.name, lang.field(wanted, path)), name)
        made = lang.missing('{"type":"record","name":"R","fields":[]}', _record([renamed.definition])) if kind == "AVRO" else []
        additions.append(Addition(source.parent, name, made[0].definition if made else renamed.definition))
        moved = replace(target, path=renamed.path)
        origins[renamed.path] = path
        mappings.append(
            one_to_one(source, moved, change, certain=False, why=f"{path} keeps its name but not its {_what(change)}")
        )
        notes.append(f"{path} becomes {renamed.path}; to have its name back, rename it in a migration of its own afterwards")
    return mappings, additions, notes, origins


def _what(change: Change) -> str:
    return "type" if change is Change.RETYPE else "meaning"


def _widens(kind: str, source: Leaf, target: Leaf, level: str) -> bool:
    """Does the subject's level take the new type in place of the old one?"""
    if kind == "PROTOBUF":
        if source.definition["number"] != target.definition["number"]:
            return False  # another field, by the name of this one
        texts = _message(source), _message(target)
    elif kind == "JSON":
        one, other = ({"type": "object", "properties": {"f": leaf.definition}} for leaf in (source, target))
        texts = json.dumps(one), json.dumps(other)
    else:
        texts = (_record([{"name": "f", "type": source.definition}]), _record([{"name": "f", "type": target.definition}]))
    try:
        return level != "NONE" and not check_level(level, parse(kind, texts[1]), [parse(kind, texts[0])])
    except InvalidSchema:
        return False


def _message(leaf: Leaf) -> str:
    words = " ".join(w for w in (leaf.definition.get("label"), leaf.definition["type"]) if w)
    return f'syntax = "proto3"; message M {{ {words} f = 1; }}'


def _record(fields: list[object]) -> str:
    return json.dumps({"type": "record", "name": "R", "fields": fields})


def _highest(path: str, kept: Map[str, Leaf]) -> str:
    """The outermost field around a leaf of which nothing is kept."""
    while "." in path:
        parent = path.rpartition(".")[0]
        if any(k == parent or k.startswith(parent + ".") for k in kept):
            break
        path = parent
    return path
