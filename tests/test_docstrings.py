"""Docstring examples are run, in every module, and every public method says what it does."""

from __future__ import annotations

import doctest
import importlib
import inspect
import pkgutil

import pytest

import eventide

MODULES = [module.name for module in pkgutil.walk_packages(eventide.__path__, "eventide.")]


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_in_the_docstrings_print_what_they_say(name: str) -> None:
    assert doctest.testmod(importlib.import_module(name)).failed == 0


def test_there_are_examples_to_run() -> None:
    finder = doctest.DocTestFinder()
    examples = [test for name in MODULES for test in finder.find(importlib.import_module(name)) if test.examples]
    assert len(examples) >= 90


def test_every_public_method_says_what_it_does_here_or_where_it_is_declared() -> None:
    silent = []
    for module in map(importlib.import_module, MODULES):
        for name, kind in inspect.getmembers(module, inspect.isclass):
            if kind.__module__ != module.__name__ or name.startswith("_"):
                continue
            for method, value in vars(kind).items():
                is_method = isinstance(value, property | classmethod | staticmethod) or (
                    inspect.isfunction(value) and value.__qualname__ == f"{name}.{method}"
                )
                if is_method and not method.startswith("_") and not inspect.getdoc(getattr(kind, method)):
                    silent.append(f"{module.__name__}.{name}.{method}")
    assert silent == []
