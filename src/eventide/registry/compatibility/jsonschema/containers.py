"""What changed in an object, an array or a combination: the content model decides what may come and go."""

from __future__ import annotations

from eventide.registry.compatibility.java_order import in_java_order
from eventide.registry.compatibility.jsonschema.changes import Change, below, is_compatible
from eventide.registry.compatibility.jsonschema.matching import largest_matching
from eventide.registry.compatibility.jsonschema.scalars import bounds
from eventide.registry.compatibility.jsonschema.shape import ABSENT, Shape
from eventide.registry.compatibility.jsonschema.walk import Walk
from eventide.registry.patterns import is_found

_MANY = 40
_MATCHES_A_PAIR = 10
"""How many names held against a pattern cost as much of the budget as one pair of schemas."""
_OBJECT = (("maxProperties", "MAX_PROPERTIES"), ("minProperties", "MIN_PROPERTIES"))
_ARRAY = (("maxItems", "MAX_ITEMS"), ("minItems", "MIN_ITEMS"))
_CONTAINS = (("maxContains", "MAX_CONTAINS"), ("minContains", "MIN_CONTAINS"))


def objects(original: Shape, update: Shape) -> Walk:
    """The changes between two objects."""
    changes = _required(original, update)
    names = {**original.properties, **update.properties}
    changed = [name for name in names if not _is_same(original.properties.get(name), update.properties.get(name))]
    yield len(changed) * (len(original.patterns) + len(update.patterns)) // _MATCHES_A_PAIR
    for name in in_java_order(changed, len(names)):
        before, after = original.properties.get(name), update.properties.get(name)
        if before is not None and after is not None:
            found = yield before, after
        elif before is not None:
            found = yield from _removed(before, update, name)
        else:
            found = yield from _added(original, update, name)
        if found:
            changes += below(("properties", name), found)
    changes += _dependencies(original, update)
    for name in in_java_order([*original.dependent, *update.dependent]):
        if name not in update.dependent:
            changes.append(("DEPENDENCY_SCHEMA_REMOVED", ("dependencies", name)))
        elif name not in original.dependent:
            changes.append(("DEPENDENCY_SCHEMA_ADDED", ("dependencies", name)))
        else:
            found = yield original.dependent[name], update.dependent[name]
            changes += below(("dependencies", name), found)
    changes += yield from _additional(original, update, "additionalProperties", "ADDITIONAL_PROPERTIES")
    changes += yield from _unevaluated(original, update, "unevaluatedProperties", "UNEVALUATED_PROPERTIES")
    return changes + bounds(_OBJECT, original, update)


def arrays(original: Shape, update: Shape) -> Walk:
    """The changes between two arrays."""
    changes: list[Change] = []
    if original.inner is not None and update.inner is not None:
        changes += below(("items",), (yield original.inner, update.inner))
    elif original.inner is not update.inner:
        changes.append(("SCHEMA_ADDED" if original.inner is None else "SCHEMA_REMOVED", ("items",)))
    before, after = original.tuple_items, update.tuple_items
    for index in range(max(len(before), len(after))):
        if index < len(before) and index < len(after):
            found = yield before[index], after[index]
        elif index < len(before):
            found = yield from _item_removed(before[index], update)
        else:
            found = yield from _item_added(original, after[index])
        changes += below(("items", str(index)), found)
    changes += yield from _additional(original, update, "additionalItems", "ADDITIONAL_ITEMS")
    changes += yield from _unevaluated(original, update, "unevaluatedItems", "UNEVALUATED_ITEMS")
    changes += bounds(_ARRAY, original, update)
    unique = bool(original.facts.get("uniqueItems")), bool(update.facts.get("uniqueItems"))
    if unique[0] != unique[1]:
        changes.append(("UNIQUE_ITEMS_REMOVED" if unique[0] else "UNIQUE_ITEMS_ADDED", ("uniqueItems",)))
    return changes + bounds(_CONTAINS, original, update)


def combinations(original: Shape, update: Shape) -> Walk:
    """The changes between two combinations: each branch must find a partner that reads it."""
    changes: list[Change] = []
    if original.criterion != update.criterion:
        if not _widened(original, update):
            return [("COMBINED_TYPE_CHANGED", ())]
        changes.append(("COMBINED_TYPE_EXTENDED", ()))
    before = list({branch.signature: branch for branch in original.branches}.values())
    after = list({branch.signature: branch for branch in update.branches}.values())
    smaller = min(len(before), len(after))
    if len(before) < len(after):
        changes.append(("PRODUCT_TYPE_EXTENDED" if update.criterion == "allOf" else "SUM_TYPE_EXTENDED", ()))
    elif len(before) > len(after):
        changes.append(("PRODUCT_TYPE_NARROWED" if original.criterion == "allOf" else "SUM_TYPE_NARROWED", ()))
    matched = 0
    if smaller > _MANY:
        before, after, matched = _without_twins(before, after)
    edges: dict[tuple[int, int], list[Change]] = {}
    for left, branch in enumerate(before):
        for right, other in enumerate(after):
            found = yield branch, other
            if is_compatible(found):
                edges[left, right] = below((original.criterion, str(left)), found)
    pairs = largest_matching(len(before), edges)
    for pair in pairs:
        changes += edges[pair]
    if matched + len(pairs) < smaller:
        changes.append(("COMBINED_TYPE_SUBSCHEMAS_CHANGED", ()))
    return changes


def is_open(shape: Shape) -> bool:
    """Whether anything may stand beside what the schema names."""
    if not shape.additional or shape.additional_shape is not None or shape.patterns:
        return False
    return shape.unevaluated is None or shape.unevaluated.is_empty


def _covering(shape: Shape, name: str | None) -> Shape | None:
    """The schema that covers what is not named, if there is one."""
    for pattern, inner in shape.patterns if name is not None else ():
        if is_found(pattern, name or ""):
            return inner
    if shape.additional_shape is not None:
        return shape.additional_shape
    if shape.additional and shape.unevaluated is not None and shape.unevaluated.form not in ("false", "empty", "true"):
        return shape.unevaluated
    return None


def _is_same(before: Shape | None, after: Shape | None) -> bool:
    return before is not None and after is not None and before.is_twin_of(after)


def _required(original: Shape, update: Shape) -> list[Change]:
    changes: list[Change] = []
    before, after = original.facts.get("required", frozenset()), update.facts.get("required", frozenset())
    if before == after:
        return changes
    for name in in_java_order(original.properties):
        if name in update.properties and (name in before) != (name in after):
            if name in before:
                kind = "REQUIRED_ATTRIBUTE_REMOVED"
            elif update.properties[name].default is not ABSENT:
                kind = "REQUIRED_ATTRIBUTE_WITH_DEFAULT_ADDED"
            else:
                kind = "REQUIRED_ATTRIBUTE_ADDED"
            changes.append((kind, ("required", name)))
    return changes


def _removed(before: Shape, update: Shape, name: str) -> Walk:
    if is_open(update):
        return [("PROPERTY_REMOVED_FROM_OPEN_CONTENT_MODEL", ())]
    covering = _covering(update, name)
    if covering is None:
        closed = "PROPERTY_WITH_FALSE_REMOVED" if before.form == "false" else "PROPERTY_REMOVED"
        return [(f"{closed}_FROM_CLOSED_CONTENT_MODEL", ())]
    found = yield before, covering
    covered = "IS_COVERED" if is_compatible(found) else "NOT_COVERED"
    return [*found, (f"PROPERTY_REMOVED_{covered}_BY_PARTIALLY_OPEN_CONTENT_MODEL", ())]


def _added(original: Shape, update: Shape, name: str) -> Walk:
    after = update.properties[name]
    required = name in update.facts.get("required", ())
    has_default = after.default is not ABSENT
    kind = ("REQUIRED_PROPERTY_WITH_DEFAULT" if has_default else "REQUIRED_PROPERTY") if required else "OPTIONAL_PROPERTY"
    if is_open(original):
        if after.is_empty:
            kind = "PROPERTY_WITH_EMPTY_SCHEMA"
        return [(f"{kind}_ADDED_TO_OPEN_CONTENT_MODEL", ())]
    changes: list[Change] = []
    covering = _covering(original, name)
    if covering is not None:
        changes += yield covering, after
        covered = "IS_COVERED" if is_compatible(changes) else "NOT_COVERED"
        changes = [*changes, (f"PROPERTY_ADDED_{covered}_BY_PARTIALLY_OPEN_CONTENT_MODEL", ())]
    return [*changes, (f"{kind}_ADDED_TO_UNOPEN_CONTENT_MODEL", ())]


def _dependencies(original: Shape, update: Shape) -> list[Change]:
    changes: list[Change] = []
    before, after = original.facts.get("dependencies", {}), update.facts.get("dependencies", {})
    for name in in_java_order([*before, *after]):
        if name not in after:
            what = "REMOVED"
        elif name not in before:
            what = "ADDED"
        elif before[name] == after[name]:
            continue
        else:
            what = "EXTENDED" if after[name] > before[name] else "NARROWED" if before[name] > after[name] else "CHANGED"
        changes.append((f"DEPENDENCY_ARRAY_{what}", ("dependencies", name)))
    return changes


def _additional(original: Shape, update: Shape, keyword: str, name: str) -> Walk:
    allowed = [shape.additional or shape.additional_shape is not None for shape in (original, update)]
    before, after = original.additional_shape, update.additional_shape
    if allowed[0] != allowed[1]:
        return [(f"{name}_ADDED" if allowed[1] else f"{name}_REMOVED", (keyword,))]
    if before is not None and after is not None:
        return below((keyword,), (yield before, after))
    if before is None and after is None:
        return []
    return [(f"{name}_NARROWED" if before is None else f"{name}_EXTENDED", (keyword,))]


def _unevaluated(original: Shape, update: Shape, keyword: str, name: str) -> Walk:
    before, after = original.unevaluated, update.unevaluated
    if before is None and after is None:
        return []
    refused = [shape is not None and shape.form == "false" for shape in (before, after)]
    if refused[0] != refused[1]:
        return [(f"{name}_ADDED" if refused[0] else f"{name}_REMOVED", (keyword,))]
    if before is None or (after is not None and before.is_empty and not after.is_empty):
        return [(f"{name}_NARROWED", (keyword,))]
    if after is None or (after.is_empty and not before.is_empty):
        return [(f"{name}_EXTENDED", (keyword,))]
    return below((keyword,), (yield before, after))


def _item_removed(before: Shape, update: Shape) -> Walk:
    if is_open(update):
        return [("ITEM_REMOVED_FROM_OPEN_CONTENT_MODEL", ())]
    covering = _covering(update, None)
    if covering is None:
        closed = "ITEM_WITH_FALSE_REMOVED" if before.form == "false" else "ITEM_REMOVED"
        return [(f"{closed}_FROM_CLOSED_CONTENT_MODEL", ())]
    found = yield before, covering
    covered = "IS_COVERED" if is_compatible(found) else "NOT_COVERED"
    return [*found, (f"ITEM_REMOVED_{covered}_BY_PARTIALLY_OPEN_CONTENT_MODEL", ())]


def _item_added(original: Shape, after: Shape) -> Walk:
    if is_open(original):
        kind = "ITEM_WITH_EMPTY_SCHEMA_ADDED" if after.is_empty else "ITEM_ADDED"
        return [(f"{kind}_TO_OPEN_CONTENT_MODEL", ())]
    covering = _covering(original, None)
    if covering is None:
        return [("ITEM_ADDED_TO_CLOSED_CONTENT_MODEL", ())]
    found = yield covering, after
    covered = "IS_COVERED" if is_compatible(found) else "NOT_COVERED"
    return [*found, (f"ITEM_ADDED_{covered}_BY_PARTIALLY_OPEN_CONTENT_MODEL", ())]


def _widened(original: Shape, update: Shape) -> bool:
    single_before, single_after = len(original.branches) == 1, len(update.branches) == 1
    return (
        update.criterion == "anyOf"
        or (single_before and (single_after or update.criterion == "oneOf"))
        or (single_after and original.criterion == "allOf")
    )


def _without_twins(before: list[Shape], after: list[Shape]) -> tuple[list[Shape], list[Shape], int]:
    """The branches that have no twin on the other side, and how many have one: with many branches, most do."""

    def signatures(shapes: list[Shape]) -> set[object]:
        return {shape.signature for shape in shapes if isinstance(shape.signature, str) and "$ref" not in shape.signature}

    twins = signatures(before) & signatures(after)
    return (
        [shape for shape in before if shape.signature not in twins],
        [shape for shape in after if shape.signature not in twins],
        len(twins),
    )
