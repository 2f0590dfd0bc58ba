"""The form of a change that the subject's level takes: a field as it is wanted or with less said, dropped or only retired."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from eventide.migration.plan.shape import Language, language
from eventide.migration.plan.shape.addition import Addition
from eventide.registry.compatibility import InvalidSchema, check_level, parse


@dataclass(frozen=True, slots=True)
class Fit:
    """Additions as they go into the schema, the drops that stay as names without meaning, and what people should know."""

    additions: tuple[Addition, ...]
    retired: tuple[str, ...]
    notes: tuple[str, ...]


def fitted(kind: str, current: str, level: str, additions: Sequence[Addition], drops: Sequence[str]) -> Fit:
    """The softest touch comes second: each field is added and dropped as it is, wherever the level takes that."""
    lang, notes, kept = language(kind), [], []
    text = current
    for addition in additions:
        softer = lang.softened(addition)
        whole = _takes(kind, level, text, lang.with_added(text, [addition]))
        if softer is not None and not whole and _takes(kind, level, text, lang.with_added(text, [softer])):
            addition = softer
            notes.append(
                f"{addition.path} stands in the schema without its type: the object around it is open, and {level} takes no "
                "type for a name that earlier documents may have used; the drift check looks at the values, and "
                "`eventide migrate tighten` gives the type at the end"
            )
        kept.append(addition)
        text = lang.with_added(text, [addition])
    retired = []
    for path in drops:
        without, softer_text = lang.without(text, [path]), lang.retired(text, [path])
        if softer_text is not None and not _takes(kind, level, text, without) and _takes(kind, level, text, softer_text):
            retired.append(path)
            without = softer_text
            notes.append(
                f"{path} stays as a name that may hold anything: the object around it is closed, and without the name {level} "
                "would have it refuse the documents that still have it"
            )
        text = without
    return Fit(tuple(kept), tuple(retired), tuple(notes))


def as_wanted(
    lang: Language, wanted: str, additions: Sequence[Addition], origins: Mapping[str, str]
) -> tuple[tuple[Addition, ...], tuple[str, ...]]:
    """The additions that the wanted schema asks more of, as it has them, and the leaves that every record must then have.

    `origins` says where the wanted schema has a field that goes by another name for a while.
    """
    tight, required = [], []
    for addition in additions:
        source = origins.get(addition.path, addition.path)
        definition = lang.field(wanted, source)
        named = lang.renamed(Addition(addition.parent, source.rpartition(".")[2], definition), addition.name)
        must = lang.requires(wanted, source)
        if not must and lang.softened(named) != addition:
            continue
        tight.append(replace(named, required=must))
        inner = [leaf for leaf in lang.leaves(wanted).values() if leaf.path == source or leaf.path.startswith(source + ".")]
        required += [addition.path + leaf.path[len(source) :] for leaf in inner if must and not leaf.nullable]
    return tuple(tight), tuple(required)


def _takes(kind: str, level: str, before: str, after: str) -> bool:
    try:
        return not check_level(level, parse(kind, after), [parse(kind, before, strict=False)])
    except InvalidSchema:
        return False
