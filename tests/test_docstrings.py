"""Docstring examples are run, in every module."""

from __future__ import annotations

import doctest
import importlib
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
