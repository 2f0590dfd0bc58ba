"""Compares two shapes by Confluent's rules; the walk keeps its own stack and a budget, so that it always ends."""

from __future__ import annotations

from collections.abc import Generator

from eventide.registry.compatibility.jsonschema import containers, scalars
from eventide.registry.compatibility.jsonschema.changes import Change, bounded, is_compatible
from eventide.registry.compatibility.jsonschema.shape import ABSENT, Shape
from eventide.registry.compatibility.jsonschema.walk import Walk

MAX_PAIRS = 100_000
"""Pairs of schemas looked at in one comparison before it is given up."""

_Key = tuple[int, int]


class TooComplex(Exception):
    """The two schemas have more pairs of inner schemas than a comparison may look at."""


def differences(
    original: Shape, update: Shape, forgiven: frozenset[str] = frozenset(), shared: list[int] | None = None
) -> list[Change]:
    """Every change from the original to the update, compatible or not; those of a `forgiven` kind are left out.

    `shared` is what is left of the pairs that several comparisons may look at together.

    """
    most = MAX_PAIRS if shared is None else min(MAX_PAIRS, shared[0])
    budget = [most]
    try:
        return _differences(original, update, budget, forgiven)
    finally:
        if shared is not None:
            shared[0] -= most - budget[0]


def _differences(original: Shape, update: Shape, budget: list[int], forgiven: frozenset[str]) -> list[Change]:
    """The same within a budget.

    A pair that is met again inside itself counts as compatible; if it then turns out not to be, the whole comparison
    is repeated with that knowledge, until nothing new is learned.
    """
    known: dict[_Key, list[Change]] = {}
    while True:
        memo, found, assumed = _run(original, update, known, budget, forgiven)
        refused = {key: changes for key, changes in memo.items() if not is_compatible(changes)}
        if not assumed or refused.keys() == known.keys():
            return found
        known = refused


def _run(
    original: Shape, update: Shape, known: dict[_Key, list[Change]], budget: list[int], forgiven: frozenset[str]
) -> tuple[dict[_Key, list[Change]], list[Change], bool]:
    memo: dict[_Key, list[Change]] = {}
    open_pairs: set[_Key] = set()
    assumed = False
    stack: list[tuple[_Key, Walk]] = []
    answer: list[Change] | None = None
    asked: tuple[Shape, Shape] | int | None = (original, update)
    while True:
        if isinstance(asked, int):
            _spend(budget, asked)
            answer, asked = [], None
        elif asked is not None:
            left, right = asked[0].resolved(), asked[1].resolved()
            key = (id(left), id(right))
            answer, asked = memo.get(key), None
            if answer is None and key in open_pairs:
                answer = known.get(key)
                if answer is None:
                    answer, assumed = [], True
            if answer is None:
                _spend(budget, 1)
                open_pairs.add(key)
                stack.append((key, _compare(left, right)))
        if not stack:
            return memo, answer or [], assumed
        key, walk = stack[-1]
        try:
            asked = next(walk) if answer is None else walk.send(answer)
        except StopIteration as done:
            stack.pop()
            open_pairs.discard(key)
            answer = memo[key] = bounded([change for change in done.value if change[0] not in forgiven])


def _spend(budget: list[int], amount: int) -> None:
    budget[0] -= amount
    if budget[0] < 0:
        raise TooComplex


def _compare(original: Shape, update: Shape) -> Walk:
    if original.form != "combined" and update.form == "combined":
        found = yield from _into_combined(original, update)
        if found is not None:
            return found
    elif original.form == "combined" and update.form != "combined":
        found = yield from _out_of_combined(original, update)
        if found is not None:
            return found
    if original.form != update.form:
        if original.form == "false" or update.is_empty:
            return []
        if original.facts.get("connect.type") == update.facts.get("connect.type") == "bytes":
            return []
        return [("TYPE_CHANGED", ())]
    changes = _annotations(original, update)
    if original.form == "combined":
        changes += yield from containers.combinations(original, update)
    elif original.form == "object":
        changes += yield from containers.objects(original, update)
    elif original.form == "array":
        changes += yield from containers.arrays(original, update)
    elif original.form == "not" and original.inner is not None and update.inner is not None:
        inner = yield update.inner, original.inner
        changes.append(("NOT_TYPE_NARROWED" if is_compatible(inner) else "NOT_TYPE_EXTENDED", ("not",)))
    else:
        changes += scalars.scalars(original, update)
    return changes


def _into_combined(original: Shape, update: Shape) -> Generator[tuple[Shape, Shape], list[Change], list[Change] | None]:
    single = len(update.branches) == 1
    if not single and update.criterion == "allOf":
        return None
    for branch in update.branches:
        found = yield original, branch
        if is_compatible(found):
            return found if single else [*found, ("SUM_TYPE_EXTENDED", ())]
    return None


def _out_of_combined(original: Shape, update: Shape) -> Generator[tuple[Shape, Shape], list[Change], list[Change] | None]:
    single = len(original.branches) == 1
    if not single and original.criterion != "allOf":
        return None
    for branch in original.branches:
        found = yield branch, update
        if is_compatible(found):
            return found if single else [*found, ("PRODUCT_TYPE_NARROWED", ())]
    return None


def _annotations(original: Shape, update: Shape) -> list[Change]:
    changes: list[Change] = []
    if original.id != update.id:
        changes.append(("ID_CHANGED", ()))
    if original.title != update.title:
        changes.append(("TITLE_CHANGED", ()))
    if original.description != update.description:
        changes.append(("DESCRIPTION_CHANGED", ()))
    if (original.default is ABSENT) != (update.default is ABSENT) or original.default != update.default:
        changes.append(("DEFAULT_CHANGED", ()))
    return changes


__all__ = ["TooComplex", "differences"]
