"""Small faults, one at a time, in the syntax tree of a module: what a hasty hand would get wrong.

Left out: annotations, docstrings, texts, what an error says, assertions (that two things are as long is one), decorators.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

SRC = Path(__file__).resolve().parents[2] / "src/eventide"
BATCH = (
    "microbatch", "bucket_task", "lane_task", "conservation", "stages", "stage_task", "join_task", "pairs", "join_conservation",
)  # fmt: skip
MODULES = sorted(
    path
    for path in (
        *SRC.glob("kernel/*.py"),
        *SRC.glob("model/*.py"),
        *(SRC / f"engine/batch/{name}.py" for name in BATCH),
        SRC / "state/ledger.py",
    )
    if path.name != "__init__.py"
)

EDGE = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt}
FLIP = {
    ast.Lt: ast.GtE, ast.LtE: ast.Gt, ast.Gt: ast.LtE, ast.GtE: ast.Lt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
SIGN = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd}
NAMES = {
    "min": "max", "max": "min", "min_horizontal": "max_horizontal", "max_horizontal": "min_horizontal",
    "cum_max": "cum_min", "any": "all", "all": "any", "first": "last", "last": "first",
}  # fmt: skip


@dataclass(frozen=True)
class Mutant:
    """One fault: in which module and function, and what stands there instead of what."""

    module: str
    function: str
    """The qualified name; empty at the level of the module or a class."""
    line: int
    what: str
    number: int
    """Its place among the faults of the module; `tree` makes it."""

    @property
    def name(self) -> str:
        """What the list of equivalent faults calls it: it stays the same when lines move."""
        return f"{self.module} {self.function or '-'}: {self.what}"


def mutants(path: Path) -> list[Mutant]:
    """All faults of a module."""
    found = list(_Walk(path).sites())
    seen: Counter[tuple[str, str]] = Counter()
    named = []
    for number, (function, line, what, _) in enumerate(found):
        seen[function, what] += 1
        times = seen[function, what]
        named.append(Mutant(_short(path), function, line, what if times == 1 else f"{what} #{times}", number))
    return named


def tree(mutant: Mutant) -> ast.Module:
    """The module with the fault in it."""
    walk = _Walk(SRC / mutant.module)
    for number, (_, _, _, apply) in enumerate(walk.sites()):
        if number == mutant.number:
            apply()
            return ast.fix_missing_locations(walk.module)
    raise LookupError(mutant.name)


def _short(path: Path) -> str:
    return path.relative_to(SRC).as_posix()


Site = tuple[str, int, str, Callable[[], None]]


class _Walk:
    def __init__(self, path: Path) -> None:
        self.module = ast.parse(path.read_text(), str(path))

    def sites(self) -> Iterator[Site]:
        yield from self._body(self.module, "", "")

    def _body(self, node: ast.AST, prefix: str, function: str) -> Iterator[Site]:
        for field, value in ast.iter_fields(node):
            children = value if isinstance(value, list) else [value]
            for index, child in enumerate(children):
                if not isinstance(child, ast.AST) or _left_out(node, field, child):
                    continue
                here, inside = prefix, function
                if isinstance(child, ast.FunctionDef):
                    inside = function or prefix + child.name
                elif isinstance(child, ast.ClassDef):
                    here = f"{prefix}{child.name}."
                if isinstance(value, list):
                    yield from ((inside, *site) for site in _removals(value, index, nested=_nested(node)))
                yield from ((inside, *site) for site in _changes(child, node))
                if not isinstance(child, ast.Raise):
                    yield from self._body(child, here, inside)


def _left_out(node: ast.AST, field: str, child: ast.AST) -> bool:
    if field in ("annotation", "returns", "decorator_list", "type_params") or isinstance(child, ast.Assert | ast.JoinedStr):
        return True
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "isinstance" and field == "args":
        return True  # a union of types
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "zip" and field == "keywords":
        return True
    if isinstance(child, ast.If) and isinstance(child.test, ast.Name) and child.test.id == "TYPE_CHECKING":
        return True
    return isinstance(child, ast.Assign) and isinstance(node, ast.Module) and _is_alias(child.value)


def _is_alias(value: ast.expr) -> bool:
    """A name for a union of types."""
    if isinstance(value, ast.BinOp) and isinstance(value.op, ast.BitOr):
        return all(_is_alias(side) or isinstance(side, ast.Name | ast.Constant) for side in (value.left, value.right))
    return False


def _nested(node: ast.AST) -> bool:
    return not isinstance(node, ast.FunctionDef | ast.Module | ast.ClassDef)


def _removals(body: list[ast.AST], index: int, *, nested: bool) -> Iterator[tuple[int, str, Callable[[], None]]]:
    """A statement that is gone, where the code would go on without it."""
    child = body[index]
    if isinstance(child, ast.Expr):
        goes = isinstance(child.value, ast.Call | ast.Yield | ast.YieldFrom | ast.IfExp)
    elif isinstance(child, ast.Assign):
        goes = any(isinstance(target, ast.Attribute | ast.Subscript) for target in child.targets)
    else:
        goes = isinstance(child, ast.AugAssign | ast.Delete | ast.Continue | ast.Break | ast.Raise)
        goes = goes or (nested and isinstance(child, ast.Return))
    if goes:
        text = ast.unparse(child).splitlines()[0]
        shown = "raise" if isinstance(child, ast.Raise) else text
        yield child.lineno, f"without {shown}", lambda: body.__setitem__(index, ast.copy_location(ast.Pass(), child))


def _changes(node: ast.AST, parent: ast.AST) -> Iterator[tuple[int, str, Callable[[], None]]]:
    if isinstance(node, ast.Compare):
        for index, op in enumerate(node.ops):
            for kinds in (EDGE, FLIP):
                if type(op) in kinds:
                    yield _swap(node, node.ops, index, kinds[type(op)]())
    elif isinstance(node, ast.BinOp | ast.AugAssign) and type(node.op) in SIGN and not _of_text(node):
        yield _set(node, node, "op", SIGN[type(node.op)]())
    elif isinstance(node, ast.BoolOp):
        yield _set(node, node, "op", ast.Or() if isinstance(node.op, ast.And) else ast.And())
    elif isinstance(node, ast.Constant) and isinstance(node.value, int) and isinstance(parent, ast.Dict):
        yield _set(node, node, "value", node.value + 1)
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield _set(parent, node, "value", not node.value)
    elif isinstance(node, ast.Constant) and isinstance(node.value, int):
        yield _set(parent, node, "value", node.value + 1)
    elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in NAMES:
        yield _set(parent, node, "id", NAMES[node.id])
    elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load) and node.attr in NAMES:
        yield _set(node, node, "attr", NAMES[node.attr])
    for field in ("test", "operand", "value", "left", "right"):
        child = getattr(node, field, None)
        if isinstance(child, ast.UnaryOp):
            yield _set(node, node, field, child.operand)
    for several in ("args", "values", "comparators", "elts", "ifs"):
        children = getattr(node, several, None)
        for index, child in enumerate(children if isinstance(children, list) else []):
            if isinstance(child, ast.UnaryOp):
                yield _swap(node, children, index, child.operand)


def _of_text(node: ast.BinOp | ast.AugAssign) -> bool:
    sides = (node.left, node.right) if isinstance(node, ast.BinOp) else (node.value,)
    return any(isinstance(s, ast.JoinedStr) or (isinstance(s, ast.Constant) and isinstance(s.value, str)) for s in sides)


def _set(shown: ast.AST, node: ast.AST, field: str, value: object) -> tuple[int, str, Callable[[], None]]:
    return _described(
        shown, node, lambda: setattr(node, field, value), lambda old: setattr(node, field, old), getattr(node, field)
    )


def _swap(node: ast.AST, where: list[object], index: int, value: object) -> tuple[int, str, Callable[[], None]]:
    return _described(
        node, node, lambda: where.__setitem__(index, value), lambda old: where.__setitem__(index, old), where[index]
    )


def _described(
    shown: ast.AST, node: ast.AST, apply: Callable[[], None], undo: Callable[[object], None], old: object
) -> tuple[int, str, Callable[[], None]]:
    """The fault in words: the expression before and after."""
    before = _text(shown)
    apply()
    after = _text(shown)
    undo(old)
    return getattr(node, "lineno", getattr(shown, "lineno", 0)), f"{before} -> {after}", apply


def _text(node: ast.AST) -> str:
    if isinstance(node, ast.stmt | ast.expr):
        lines = ast.unparse(node).splitlines()
        return lines[0] if len(lines) == 1 else f"{lines[0]} …"
    return ast.unparse(node) if isinstance(node, ast.keyword | ast.comprehension | ast.arguments) else type(node).__name__
