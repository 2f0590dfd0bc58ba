"""A fault put where it belongs: into the code of a loaded function, or into a module as it is imported."""

from __future__ import annotations

import ast
import importlib.util
import inspect
import sys
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

from mutants import SRC, Mutant, tree


def module_name(path: Path) -> str:
    """The name by which a module is imported."""
    return "eventide." + ".".join(path.relative_to(SRC).with_suffix("").parts)


def put_in(mutant: Mutant) -> bool:
    """Give the function the code with the fault; False where only a fresh import would do."""
    module = sys.modules[module_name(SRC / mutant.module)]
    function = _function(module, mutant.function)
    if function is None or mutant.function in _called_at_import(mutant.module):
        return False
    code = _code(compile(tree(mutant), str(SRC / mutant.module), "exec"), mutant.function)
    if code is None or code.co_freevars != function.__code__.co_freevars:
        return False
    defaults = _defaults(mutant)
    function.__code__ = code
    return defaults == ast.dump(_definition(ast.parse((SRC / mutant.module).read_text()), mutant.function).args)


def _function(module: Any, name: str) -> FunctionType | None:
    found: Any = module
    for part in name.split(".") if name else ():
        found = inspect.getattr_static(found, part, None)
    found = getattr(found, "fget", None) or getattr(found, "__func__", found)
    return found if isinstance(found, FunctionType) else None


def _code(code: CodeType, name: str) -> CodeType | None:
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            if inner.co_qualname == name:
                return inner
            if name.startswith(f"{inner.co_qualname}."):
                return _code(inner, name)
    return None


def _defaults(mutant: Mutant) -> str:
    return ast.dump(_definition(tree(mutant), mutant.function).args)


def _definition(module: ast.AST, name: str) -> ast.FunctionDef:
    node: Any = module
    for part in name.split("."):
        node = next(n for n in node.body if isinstance(n, ast.FunctionDef | ast.ClassDef) and n.name == part)
    return node


def _called_at_import(module: str) -> set[str]:
    body = ast.parse((SRC / module).read_text()).body
    outside = [node for node in body if not isinstance(node, ast.FunctionDef | ast.ClassDef)]
    calls = [n.func for node in outside for n in ast.walk(node) if isinstance(n, ast.Call)]
    return {call.id for call in calls if isinstance(call, ast.Name)}


class Faulty:
    """Finds the module with the fault, and no other."""

    def __init__(self, mutant: Mutant) -> None:
        self.mutant, self.name = mutant, module_name(SRC / mutant.module)

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name != self.name:
            return None
        return importlib.util.spec_from_file_location(name, SRC / self.mutant.module, loader=self)

    def create_module(self, spec: Any) -> None:
        return None

    def exec_module(self, module: Any) -> None:
        exec(compile(tree(self.mutant), str(SRC / self.mutant.module), "exec"), module.__dict__)
