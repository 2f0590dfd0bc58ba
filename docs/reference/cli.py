"""The page of every command: made from the commands themselves when the site is built."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator

import click
from reference.docstring import prose

from eventide.cli.main import COMMANDS, main

BEGINNING = """# Command line

Every command with its options, made from the commands when these pages are built; `eventide COMMAND --help` says the same. [Asking a pipeline](../operating.md) shows what they answer. Exit codes: 0 as it should be,
1 a finding, 2 the question is wrong, 3 the place does not answer now.
"""


def page() -> str:
    """The whole page."""
    lines = [BEGINNING, "| command | |", "|---|---|"]
    lines += [f"| [`eventide {name}`](#eventide-{name}) | {prose(told)} |" for name, told in COMMANDS.items()]
    lines.append("")
    for context in commands(click.Context(main, info_name="eventide", **main.context_settings)):
        lines += described(context)
    return "\n".join(lines)


def commands(context: click.Context) -> Iterator[click.Context]:
    """A command and all below it, each as it is called."""
    yield context
    if isinstance(context.command, click.Group):
        for name in context.command.list_commands(context):
            command = context.command.get_command(context, name)
            if command is not None and not command.hidden:
                yield from commands(click.Context(command, info_name=name, parent=context))


def described(context: click.Context) -> list[str]:
    """One command: what it does, how it is called, its options."""
    path, command = context.command_path, context.command
    deep = "##" if path.count(" ") < 2 else "###"
    usage = " ".join([path, *command.collect_usage_pieces(context)])
    told = [prose(line) for line in inspect.cleandoc(command.help or "").splitlines()]
    options = [one.get_help_record(context) for one in command.get_params(context) if isinstance(one, click.Option)]
    rows = [f"| `{_cell(one[0])}` | {prose(_cell(one[1]))} |" for one in options if one is not None]
    return [
        f"{deep} {path} {{#{path.replace(' ', '-')}}}",
        "",
        *told,
        "",
        f"    {usage}",
        "",
        "| option | |",
        "|---|---|",
        *rows,
        "",
    ]


def _cell(text: str) -> str:
    return re.sub(r"\s+", " ", text).replace("|", r"\|")
