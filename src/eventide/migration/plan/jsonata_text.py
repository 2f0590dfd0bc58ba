"""A mapping's SQL as JSONata, for the migration rules that Confluent's clients run."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from eventide.migration.faults import PlanRefused
from eventide.migration.plan.expression import with_paths
from eventide.migration.plan.shape import Leaf

PRELUDE = (
    "$v := function($x){ $x != null ? $x }; "  # a null as nothing: arithmetic with nothing gives nothing
    "$n := function($x){ $exists($x) ? $x : null }; "
    "$num := function($x){ $type($x) = 'number' ? $x : "
    "$type($x) = 'string' ? ($contains($x, /^-?[0-9]{1,300}([.][0-9]{1,300})?$/) ? $number($x)) }; "
    "$int := function($x){ ($y := $num($x); $exists($y) ? ($y >= 0 ? $floor($y) : $ceil($y))) }; "
)
"""What every rule begins with: SQL's null and SQL's casts, said in JSONata."""

_DAY = {"millis": 86_400_000, "micros": 86_400_000_000, "nanos": 86_400_000_000_000}
_SIGNS = {"Add": "+", "Sub": "-", "Mul": "*", "Div": "/", "Mod": "%", "LT": "<", "LTE": "<=", "GT": ">", "GTE": ">=",
          "And": "and", "Or": "or", "EQ": "="}  # fmt: skip
_CALLS = {"Upper": "$uppercase", "Lower": "$lowercase", "Trim": "$trim", "Abs": "$abs", "Floor": "$floor", "Ceil": "$ceil"}
_INTEGERS, _NUMBERS = ("INT", "BIGINT", "SMALLINT", "TINYINT"), ("DOUBLE", "FLOAT", "DECIMAL")
_TEXTS, _TIMES = ("TEXT", "VARCHAR", "STRING"), ("DATE", "TIMESTAMP")


def spelled(path: str) -> str:
    """A dotted path as JSONata has it.

    >>> spelled("pricing.base")
    '`pricing`.`base`'
    """
    return ".".join(f"`{part}`" for part in path.split("."))


def jsonata(sql: str, target: str, leaves: Mapping[str, Leaf]) -> str:
    """The expression for a target leaf; nothing (rather than null) where SQL gives null.

    >>> jsonata("COALESCE(base, 0) + tax", "fare", {})
    '(($exists($v(`base`)) ? $v(`base`) : 0) + $v(`tax`))'

    Raises:
        PlanRefused: it cannot be said in JSONata with the same answer.
    """
    try:
        import sqlglot
        from sqlglot.errors import SqlglotError
    except ImportError:
        raise PlanRefused("Writing migration rules needs more packages: pip install 'eventide[rules]'.") from None
    quoted = with_paths(sql, lambda path: '"' + path.replace('"', '""') + '"')
    try:
        tree: Any = sqlglot.parse_one(quoted)
    except SqlglotError as error:
        raise _refusal(sql, str(error).splitlines()[0]) from None
    return _Writer(sql, target, leaves).text(tree)


def _refusal(sql: str, why: str) -> PlanRefused:
    return PlanRefused(
        f"{sql!r} cannot be written as a migration rule in JSONata: {why}. Give another expression with --forward or --backward, or "
        "leave the setting `rules` off."
    )


class _Writer:
    def __init__(self, sql: str, target: str, leaves: Mapping[str, Leaf]) -> None:
        self._sql, self._target, self._leaves = sql, target, leaves

    def text(self, node: Any) -> str:
        name = type(node).__name__
        if name in _SIGNS:
            return f"({self.text(node.this)} {_SIGNS[name]} {self.text(node.expression)})"
        if name in _CALLS:
            return f"{_CALLS[name]}({self.text(node.this)})"
        write: Callable[[Any], str] | None = getattr(self, f"_{name.lower()}", None)
        if write is None:
            raise _refusal(self._sql, f"it has {node.sql()}, which rules cannot say")
        return write(node)

    def _column(self, node: Any) -> str:
        return f"$v({spelled(node.name)})"

    def _literal(self, node: Any) -> str:
        return json.dumps(node.this) if node.is_string else str(node.this)

    def _boolean(self, node: Any) -> str:
        return "true" if node.this else "false"

    def _null(self, node: Any) -> str:
        return "$v(null)"

    def _paren(self, node: Any) -> str:
        return self.text(node.this)

    def _neg(self, node: Any) -> str:
        return f"(0 - {self.text(node.this)})"

    def _not(self, node: Any) -> str:
        return f"$not({self.text(node.this)})"

    def _neq(self, node: Any) -> str:
        one, other = self.text(node.this), self.text(node.expression)
        return f"($exists({one}) and $exists({other}) and {one} != {other})"

    def _is(self, node: Any) -> str:
        if type(node.expression).__name__ != "Null":
            raise _refusal(self._sql, f"it has {node.sql()}; only IS NULL and IS NOT NULL can be said")
        return f"$not($exists({self.text(node.this)}))"

    def _coalesce(self, node: Any) -> str:
        found = self.text(node.expressions[-1]) if node.expressions else "$v(null)"
        for each in (*reversed(node.expressions[:-1]), node.this):
            one = self.text(each)
            found = f"($exists({one}) ? {one} : {found})"
        return found

    def _case(self, node: Any) -> str:
        default = node.args.get("default")
        found = self.text(default) if default is not None else "$v(null)"
        for branch in reversed(node.args["ifs"]):
            condition = self.text(branch.this)
            if node.this is not None:
                condition = f"{self.text(node.this)} = {condition}"
            found = f"({condition} ? {self.text(branch.args['true'])} : {found})"
        return found

    def _concat(self, node: Any) -> str:
        return "(" + " & ".join(self.text(each) for each in node.expressions) + ")"

    def _dpipe(self, node: Any) -> str:
        one, other = self.text(node.this), self.text(node.expression)
        return f"($exists({one}) and $exists({other}) ? {one} & {other})"

    def _substring(self, node: Any) -> str:
        start, length = node.args.get("start"), node.args.get("length")
        if start is None or not start.is_int or int(start.name) < 1:
            raise _refusal(self._sql, "SUBSTR must begin at a whole number, 1 or more")
        parts = [self.text(node.this), str(int(start.name) - 1), *([self.text(length)] if length is not None else [])]
        return f"$substring({', '.join(parts)})"

    def _cast(self, node: Any) -> str:
        kind = node.to.this.name
        if kind in _TIMES:
            return self._time(node.this, kind)
        value, source = self.text(node.this), self._type(node.this)
        if kind in _INTEGERS and source in ("int", "long", "float", "double", "string"):
            return f"$int({value})"
        if kind in _NUMBERS and source in ("int", "long", "float", "double", "string"):
            return f"$num({value})"
        if kind in _TEXTS and source in ("int", "long", "string"):
            return f"($exists({value}) ? $string({value}))"
        raise _refusal(self._sql, f"casting a {source or 'value of unknown type'} to {kind} has no one answer in JSONata")

    _trycast = _cast

    def _type(self, node: Any) -> str:
        leaf = self._leaves.get(node.name) if type(node).__name__ == "Column" else None
        if leaf is not None:
            return leaf.type
        return "double" if type(node).__name__ in ("Add", "Sub", "Mul", "Div", "Mod", "Paren", "Coalesce", "Neg") else ""

    def _time(self, node: Any, kind: str) -> str:
        """Dates and moments, between two leaves whose units are known: Avro counts them, JSON spells them out."""
        source, target = self._leaves.get(node.name), self._leaves.get(self._target)
        if source is None or target is None or {source.type, target.type} != {"date", "timestamp"}:
            raise _refusal(self._sql, f"a cast to {kind} can be said from a date to a timestamp or back, and no further")
        value = f"$v({spelled(source.path)})"
        counted = source.type == "date" and target.type == "timestamp"
        moment = target if counted else source
        if isinstance(moment.definition, dict) and "logicalType" in moment.definition:
            day = _DAY[moment.definition["logicalType"].rpartition("-")[2]]
            return f"({value} * {day})" if counted else f"$floor({value} / {day})"
        if counted:
            return f"($exists({value}) ? {value} & 'T00:00:00Z')"
        return f"($exists({value}) ? $fromMillis($toMillis({value}), '[Y0001]-[M01]-[D01]'))"
