"""The reference of the site: every public name and every command with its options stands there, as the code says it."""

from __future__ import annotations

import doctest
import inspect
import pkgutil
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

import click
import pytest

import eventide as ev
from eventide.cli.main import main

ROOT = Path(__file__).parents[1]
PACKAGES = ("eventide.sinks", "eventide.testing", "eventide.migration", "eventide.reconcile", "eventide.lateness")


@pytest.fixture(scope="module")
def made() -> Iterator[dict[str, ModuleType]]:
    """The modules that make the pages, as the site's builder imports them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "docs"))
        yield {name: import_module(f"reference.{name}") for name in ("api", "cli", "docstring")}


@pytest.fixture(scope="module")
def api(made: dict[str, ModuleType]) -> str:
    return str(made["api"].page())


@pytest.fixture(scope="module")
def cli(made: dict[str, ModuleType]) -> str:
    return str(made["cli"].page())


def headings(page: str) -> list[str]:
    return re.findall(r"^#{3,4} (\S+) \{#", page, re.MULTILINE)


def test_every_public_name_has_its_place_once(api: str) -> None:
    found = headings(api)
    assert [name for name in ev.__all__ if found.count(f"ev.{name}") != 1] == []
    own = {id(getattr(ev, name)) for name in ev.__all__}
    for package in map(import_module, PACKAGES):
        names = [name for name in package.__all__ if id(getattr(package, name)) not in own]
        assert [name for name in names if name not in found] == [], package.__name__


def test_every_package_that_says_what_it_offers_is_asked() -> None:
    walked = (module.name for module in pkgutil.iter_modules(ev.__path__, "eventide.") if module.ispkg)
    assert {name for name in walked if hasattr(import_module(name), "__all__")} == set(PACKAGES)


@pytest.mark.parametrize(
    "kind",
    [
        ev.Pipeline,
        import_module("eventide.definition.source").Source,
        import_module("eventide.definition.stream").Stream,
        import_module("eventide.definition.stream").Aggregation,
        import_module("eventide.engine.handle").Handle,
        import_module("eventide.testing").Answers,
    ],
)
def test_every_method_of_what_users_hold_has_its_place(kind: type, api: str) -> None:
    offered = {name for name, value in inspect.getmembers(kind, lambda v: inspect.isfunction(v) or isinstance(v, property))}
    wanted = {f"{kind.__name__}.{name}" for name in offered if not name.startswith("_")}
    assert wanted and wanted <= set(headings(api))


def test_what_the_pages_import_is_on_the_page(api: str) -> None:
    """But for the page on extending, which is about what lies below."""
    pages = [ROOT / "README.md", *(page for page in (ROOT / "docs").glob("*.md") if page.name != "extending.md")]
    pages += (ROOT / "examples").glob("*/*.py")
    imported = {
        name.strip()
        for page in pages
        for module, names in re.findall(r"^\s*from (eventide[\w.]*) import ([\w, ]+)$", page.read_text(), re.MULTILINE)
        for name in names.split(",")
        if module != "eventide"
    }
    assert len(imported) > 10
    found = {heading.removeprefix("ev.") for heading in headings(api)}
    assert imported - found == set()


def test_keywords_that_are_taken_together_are_told_one_by_one(api: str) -> None:
    assert "Unpack[" not in api
    assert "    state: str | None = …,\n" in api


def commands(command: click.Command, path: str) -> Iterator[tuple[str, click.Command]]:
    yield path, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            yield from commands(below, f"{path} {name}")


def test_every_command_and_every_option_has_its_place(cli: str) -> None:
    parts = {part.partition(" {#")[0]: part for part in re.split(r"^#{2,3} ", cli, flags=re.MULTILINE)[1:]}
    walked = dict(commands(main, "eventide"))
    assert set(parts) == set(walked) and len(walked) > 40
    for path, command in walked.items():
        for one in command.params:
            for name in (*one.opts, *one.secondary_opts) if isinstance(one, click.Option) else ():
                assert re.search(rf"`[^`]*{re.escape(name)}\b", parts[path]), (path, name)


def test_every_option_says_what_it_is_for() -> None:
    silent = [
        f"{path} {one.opts[0]}"
        for path, command in commands(main, "eventide")
        for one in command.params
        if isinstance(one, click.Option) and not one.help
    ]
    assert silent == []


def test_the_examples_of_what_makes_the_pages_print_what_they_say(made: dict[str, ModuleType]) -> None:
    assert sum(doctest.testmod(module).failed for module in made.values()) == 0
    assert sum(doctest.testmod(module).attempted for module in made.values()) >= 3
