"""A plan's mappings as migration rules of the subject, so that Confluent's clients can read either shape."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from eventide.migration.plan.jsonata_text import PRELUDE, jsonata, spelled
from eventide.migration.plan.plan import Plan

Rule = dict[str, Any]


def expand_rules(plan: Plan, name: str) -> list[Rule]:
    """For the expanded version: records from before it get the new shape. A value that is there already stands."""
    made = {p: jsonata(sql, p, plan.leaves) for m in plan.mappings for p, sql in m.forward.items() if p in m.new}
    return [_rule(f"{name}.expand.up", "UPGRADE", _with(made, _kept_tops(plan, plan.new)), plan)] if made else []


def contract_rules(plan: Plan, name: str) -> list[Rule]:
    """For the contracted version: records before it lose the old shape, and readers before it are given it back.

    Both change nothing in a record that is so already, because later versions of the subject inherit the rules.
    """
    made = {p: jsonata(sql, p, plan.leaves) for m in plan.mappings for p, sql in m.backward.items() if p in m.old}
    rules = [_rule(f"{name}.contract.up", "UPGRADE", _without(plan.drops), plan)]
    if made:
        rules.append(_rule(f"{name}.contract.down", "DOWNGRADE", _with(made, _kept_tops(plan, plan.old)), plan))
    return rules


def _rule(name: str, mode: str, body: str, plan: Plan) -> Rule:
    what = "; ".join(str(m) for m in plan.mappings)
    return {"name": name, "doc": what, "kind": "TRANSFORM", "mode": mode, "type": "JSONATA", "expr": f"({PRELUDE}{body})"}


def _kept_tops(plan: Plan, paths: Sequence[str]) -> Callable[[str], bool]:
    """Does a group hold anything beside these leaves, so that it is there in every record?"""
    added = {a.path for a in plan.additions} if set(paths) == set(plan.new) else set(plan.drops)
    return lambda top: top not in added


def _with(made: dict[str, str], is_kept: Callable[[str], bool]) -> str:
    """The record with leaves computed where it has none."""
    tops: dict[str, dict[str, str]] = {}
    for path, text in made.items():
        tops.setdefault(path.partition(".")[0], {})[path] = text
    parts = []
    for top, leaves in tops.items():
        if list(leaves) == [top]:
            value = f"$n($exists($v({spelled(top)})) ? {spelled(top)} : {leaves[top]})"
        else:
            group = _group(top, leaves)
            some = " or ".join(f"$exists({text})" for text in leaves.values())
            inside = f"$merge([{spelled(top)}, {_group(top, leaves, keep=True)}])" if is_kept(top) else spelled(top)
            value = f"$n($exists($v({spelled(top)})) ? {inside} : ({some}) ? {group})"
        parts.append(f'"{top}": {value}')
    return f"$merge([$, {{{', '.join(parts)}}}])"


def _group(prefix: str, leaves: dict[str, str], *, keep: bool = False) -> str:
    """An object with these leaves below a path, nested as their paths are."""
    inner: dict[str, dict[str, str]] = {}
    for path, text in leaves.items():
        inner.setdefault(path[len(prefix) + 1 :].partition(".")[0], {})[path] = text
    parts = []
    for name, below in inner.items():
        path = f"{prefix}.{name}"
        own = f"$exists($v({spelled(path)})) ? {spelled(path)} : " if keep else ""
        parts.append(f'"{name}": ' + (f"$n({own}{below[path]})" if list(below) == [path] else _group(path, below, keep=keep)))
    return f"{{{', '.join(parts)}}}"


def _without(paths: Iterable[str], at: str = "$") -> str:
    """The record without these fields, however deep they are."""
    here, deeper = [], dict[str, list[str]]()
    for path in paths:
        top, _, rest = path.partition(".")
        if rest:
            deeper.setdefault(top, []).append(rest)
        else:
            here.append(top)
    kept = " and ".join(f'$k != "{name}"' for name in here)
    text = f"$sift({at}, function($x, $k){{ {kept} }})" if here else at
    inner = []
    for top, below in deeper.items():
        path = spelled(top) if at == "$" else f"{at}.{spelled(top)}"
        inner.append(f'"{top}": $n($exists($v({path})) ? {_without(below, path)})')
    return f"$merge([{', '.join((text, *(f'{{{each}}}' for each in inner)))}])"
