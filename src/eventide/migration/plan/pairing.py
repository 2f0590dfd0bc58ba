"""Which old leaves became which new ones: what was said first, then names, then what is left over."""

from __future__ import annotations

from collections.abc import Mapping as Map
from dataclasses import dataclass, field
from difflib import SequenceMatcher

from eventide.migration.plan.expression import paths_in
from eventide.migration.plan.mapping import Change, Mapping
from eventide.migration.plan.shape import Leaf
from eventide.migration.plan.shape.leaf import NUMBERS

Leaves = Map[str, Leaf]
_SQL = {
    "int": "INT", "long": "BIGINT", "float": "FLOAT", "double": "DOUBLE", "string": "STRING", "boolean": "BOOLEAN",
    "date": "DATE", "timestamp": "TIMESTAMP",
}  # fmt: skip
_WIDENS = {("date", "timestamp"), ("int", "long"), ("int", "double"), ("long", "double"), ("float", "double")}


@dataclass(frozen=True, slots=True)
class Said:
    """What somebody said about a change: renames, changes of meaning, names for what keeps its name, expressions."""

    renames: Map[str, str] = field(default_factory=dict)
    meaning: Map[str, str] = field(default_factory=dict)
    names: Map[str, str] = field(default_factory=dict)
    forward: Map[str, str] = field(default_factory=dict)
    backward: Map[str, str] = field(default_factory=dict)


def converted(source: Leaf, target: Leaf) -> str:
    """The value of one leaf in the type of another.

    >>> converted(Leaf("signup_date", "date", None), Leaf("created_at", "timestamp", None))
    'CAST(signup_date AS TIMESTAMP)'
    """
    if source.type == target.type or target.type not in _SQL:
        return source.path
    return f"CAST({source.path} AS {_SQL[target.type]})"


def pair(old: Leaves, new: Leaves, said: Said) -> list[Mapping]:
    """Mappings that use up every old leaf; a new leaf may be left over, as a plain addition."""
    left, free = dict(old), dict(new)
    mappings = _by_word(left, free, said)
    mappings += _by_name(left, free)
    mappings += _by_numbers(left, free)
    mappings += _by_likeness(left, free)
    mappings += [Mapping(Change.DROP, (path,), (), certain=False, why="nothing new resembles it") for path in left]
    return mappings


def one_to_one(source: Leaf, target: Leaf, change: Change, *, certain: bool, why: str) -> Mapping:
    """A single leaf that becomes a single other one."""
    forward, backward = {target.path: converted(source, target)}, {source.path: converted(target, source)}
    return Mapping(change, (source.path,), (target.path,), forward, backward, certain, why)


def _kind(source: Leaf, target: Leaf) -> Change:
    depth = target.path.count(".") - source.path.count(".")
    return Change.NEST if depth > 0 else Change.FLATTEN if depth < 0 else Change.RENAME


def _by_word(left: dict[str, Leaf], free: dict[str, Leaf], said: Said) -> list[Mapping]:
    """What was said outright: renames, expressions, and aliases in the schema."""
    mappings: list[Mapping] = []
    for old, new in said.renames.items():
        if old in left and new in free:
            source, target = left.pop(old), free.pop(new)
            mappings.append(one_to_one(source, target, _kind(source, target), certain=True, why="given"))
    for origins, targets in _components(left, free, said):
        sources = [left.pop(path) for path in origins]
        leaves = [free.pop(path) for path in targets]
        deeper = max(leaf.path.count(".") for leaf in leaves) - max(leaf.path.count(".") for leaf in sources)
        change = Change.NEST if deeper > 0 else Change.FLATTEN if deeper < 0 else Change.RENAME
        forward = {p: said.forward[p] for p in targets if p in said.forward}
        backward = {p: said.backward[p] for p in origins if p in said.backward}
        whole = len(forward) == len(targets) and len(backward) == len(origins)
        if len(sources) == len(leaves) == 1:
            proposal = one_to_one(sources[0], leaves[0], change, certain=whole, why="given")
            forward, backward = {**proposal.forward, **forward}, {**proposal.backward, **backward}
        why = "given" if whole else "one direction was given, the other is a proposal"
        mappings.append(Mapping(change, tuple(origins), tuple(targets), forward, backward, whole, why))
    for leaf in list(free.values()):
        aliased = next((f"{leaf.parent}.{a}".lstrip(".") for a in leaf.aliases), None)
        if aliased in left:
            source = left.pop(aliased)
            del free[leaf.path]
            mappings.append(one_to_one(source, leaf, _kind(source, leaf), certain=True, why="the schema names it as an alias"))
    return mappings


def _components(left: Leaves, free: Leaves, said: Said) -> list[tuple[list[str], list[str]]]:
    """Old and new leaves that the given expressions tie together."""
    ties = [({p for p in paths_in(sql) if p in left}, {new}) for new, sql in said.forward.items() if new in free]
    ties += [({old}, {p for p in paths_in(sql) if p in free}) for old, sql in said.backward.items() if old in left]
    groups: list[tuple[set[str], set[str]]] = []
    for olds, news in ties:
        touching = [g for g in groups if g[0] & olds or g[1] & news]
        groups = [g for g in groups if g not in touching]
        groups.append((olds.union(*(g[0] for g in touching)), news.union(*(g[1] for g in touching))))
    return [([p for p in left if p in o], [p for p in free if p in n]) for o, n in groups if o and n]


def _by_name(left: dict[str, Leaf], free: dict[str, Leaf]) -> list[Mapping]:
    """`city` or `address_city` became `address.city`, or the other way round; only where one fits alone."""
    mappings = []
    for source in list(left.values()):
        fits = [t for t in free.values() if _same_name(source.path, t.path)]
        if len(fits) == 1:
            target = free.pop(fits[0].path)
            del left[source.path]
            same = source.type == target.type or (source.type, target.type) in _WIDENS
            mappings.append(one_to_one(source, target, _kind(source, target), certain=same, why="the names agree"))
    return mappings


def _same_name(one: str, other: str) -> bool:
    if ("." in one) == ("." in other):
        return False
    nested, flat = (one, other) if "." in one else (other, one)
    return flat in (nested.rpartition(".")[2], nested.replace(".", "_"))


def _by_numbers(left: dict[str, Leaf], free: dict[str, Leaf]) -> list[Mapping]:
    """One number became a group of numbers (or the other way round): most likely it is their sum."""
    for whole, parts, change in ((left, free, Change.NEST), (free, left, Change.FLATTEN)):
        groups: dict[str, list[Leaf]] = {}
        for leaf in parts.values():
            if "." in leaf.path and leaf.type in NUMBERS:
                groups.setdefault(leaf.parent, []).append(leaf)
        numbers = [leaf for leaf in whole.values() if leaf.type in NUMBERS and "." not in leaf.path]
        if len(numbers) != 1 or len(groups) != 1:
            continue
        one, many = numbers[0], next(iter(groups.values()))
        if len(many) < 2:
            continue
        total = " + ".join(leaf.path for leaf in many)
        split = {leaf.path: one.path if i == 0 else "0" for i, leaf in enumerate(many)}
        del whole[one.path]
        for leaf in many:
            del parts[leaf.path]
        paths, why = tuple(leaf.path for leaf in many), "one number and a group of numbers: taken as their sum"
        if change is Change.NEST:
            return [Mapping(change, (one.path,), paths, split, {one.path: total}, False, why)]
        return [Mapping(change, paths, (one.path,), {one.path: total}, split, False, why)]
    return []


def _by_likeness(left: dict[str, Leaf], free: dict[str, Leaf]) -> list[Mapping]:
    """What is left over, the best match first; always a guess."""
    mappings = []
    while left and free:
        score, old, new = max((_likeness(s, t), s.path, t.path) for s in left.values() for t in free.values())
        if score < 0.4 and (len(left) > 1 or len(free) > 1):
            break
        source, target = left.pop(old), free.pop(new)
        change = _kind(source, target)
        why = f"the best match among what is left ({score:.0%} alike)"
        mappings.append(one_to_one(source, target, change, certain=False, why=why))
    return mappings


def _likeness(source: Leaf, target: Leaf) -> float:
    names = SequenceMatcher(None, source.name.lower(), target.name.lower()).ratio()
    alike = 1.0 if source.type == target.type else 0.7 if (source.type, target.type) in _WIDENS else 0.0
    return 0.6 * names + 0.4 * alike
