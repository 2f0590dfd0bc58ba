"""An import inside a function is there for time or for an extra, never because two modules need each other."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src"
FILES = {
    ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__"): path for path in SOURCE.rglob("*.py")
}


def named(node: ast.stmt) -> Iterator[str]:
    """The modules of this package that an import runs, apart from the packages that they are in."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names if alias.name in FILES)
    elif isinstance(node, ast.ImportFrom) and node.module in FILES:
        inner = [f"{node.module}.{alias.name}" for alias in node.names]
        yield from (name if name in FILES else node.module for name in inner)


def for_types(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


def imports(nodes: list[ast.stmt], within: bool = False) -> Iterator[tuple[str, bool]]:
    """What is imported for more than types, and whether only when a function is called."""
    for node in nodes:
        if for_types(node):
            continue
        yield from ((name, within) for name in named(node))
        inside = within or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        blocks = [getattr(node, block, []) for block in ("body", "orelse", "finalbody")]
        blocks += [handler.body for handler in getattr(node, "handlers", [])]
        for block in blocks:
            yield from imports(block, inside)


@cache
def found(module: str) -> frozenset[tuple[str, bool]]:
    return frozenset(imports(ast.parse(FILES[module].read_text()).body))


@cache
def leads_to(module: str) -> frozenset[str]:
    """Every module that this one imports, now or later, itself or through others; itself among them."""
    seen, waiting = set[str](), [module]
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            waiting += [other for other, _ in found(name)]
    return frozenset(seen)


def test_no_module_leads_back_to_itself() -> None:
    edges = [(module, other, late) for module in FILES for other, late in found(module)]
    assert sum(late for _, _, late in edges) > 50, (
        "so many are put off for time and extras: none found means that none was looked at"
    )
    assert [f"{module} -> {other}" for module, other, _ in edges if module in leads_to(other)] == []
