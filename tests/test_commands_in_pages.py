"""Every `eventide …` that the pages and READMEs show is a command that there is, with options that it has."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from eventide.cli.main import main

ROOT = Path(__file__).parents[1]
PAGES = sorted(
    path
    for path in ROOT.glob("**/*.md")
    if not {".venv", "artifacts", "demo", "CHANGELOG.md"} & {*path.relative_to(ROOT).parts}
)
PAGES += sorted(ROOT.glob("monitoring/*.yml")) + sorted(ROOT.glob("examples/**/*.yaml"))
END = {"|", "||", "&&", "&", ";", "#", ">", "2>&1"}
PLACEHOLDER = re.compile(r"COMMAND|…|\.\.\.")


def shown(text: str) -> Iterator[str]:
    """The commands of a page: those on lines of their own, and those in running text."""
    joined = re.sub(r"\\\n\s*>?", " ", text)
    for line in joined.splitlines():
        if found := re.match(r"(?: {4,}|\t)(?:\$ )?(?:if |! )?(eventide .*)", line):
            yield found[1]
    yield from (found.replace("\n", " ") for found in re.findall(r"`(eventide [^`]+)`", joined))


def words(command: str) -> list[str]:
    """Up to where the shell takes over, or a comment begins."""
    cut = re.split(r"\s#\s|\s·\s", command)[0]
    lexed = shlex.shlex(cut, posix=True, punctuation_chars="|&;<>")
    lexed.whitespace_split, lexed.commenters = True, ""
    found: list[str] = []
    for word in lexed:
        if word in END:
            break
        found.append(word)
    return found


def options(command: click.Command) -> set[str]:
    own = {name for one in command.params for name in (*one.opts, *one.secondary_opts)}
    return own | {"--help", "-h", "--version"}


def unknown(said: list[str]) -> str | None:
    """What a command line says that there is not."""
    command: click.Command = main
    for place, word in enumerate(said[1:], 1):
        if not isinstance(command, click.Group):
            break
        if word.startswith("-"):
            return None if word in options(command) else word
        below = command.get_command(click.Context(command), word)
        if below is None:
            return None if PLACEHOLDER.search(word) else word
        command, rest = below, said[place + 1 :]
    else:
        return None
    asked = [word.partition("=")[0] for word in rest if re.match(r"--?[a-z]", word)]
    return next((word for word in asked if word not in options(command)), None)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_commands_of_a_page_are_commands_with_their_options(page: Path) -> None:
    assert {line: found for line in shown(page.read_text()) if (found := unknown(words(line))) is not None} == {}


def test_a_wrong_command_and_a_wrong_option_are_seen() -> None:
    assert unknown(words("eventide late upi.py --sample 20 --limits 3   # the oldest")) == "--limits"
    assert unknown(words("eventide migrate contracts pricing")) == "contracts"
    assert unknown(words("eventide late upi.py --export dead.json && eventide nothing")) is None


def test_there_are_commands_to_look_at() -> None:
    assert sum(len(list(shown(page.read_text()))) for page in PAGES) > 100
