"""The command `eventide`: a group to which each noun adds its own commands, each imported when it is called."""

from __future__ import annotations

from importlib import import_module

import click

from eventide import __version__
from eventide.cli.faults import telling, warning_once

COMMANDS = {
    "completion": "Print what a shell needs to complete commands.",
    "dashboard": "One page about pipelines, from their states.",
    "dead": "Show the records that could not be read, and why.",
    "demo": "An hour of payments with late data through a real pipeline.",
    "doctor": "Look whether a pipeline could run here.",
    "init": "Write a pipeline file to start from.",
    "late": "Show the rows that came too late and were kept.",
    "lateness": "Show what a pipeline has measured of its lateness.",
    "migrate": "A breaking change of a schema without a flag day.",
    "plan": "Say what a changed definition would do to its state.",
    "reconcile": "Close the books of an output, and explain every difference.",
    "registry": "Serve schemas, and look after them.",
    "run": "Run the pipeline that a file defines.",
    "state": "Say what a state keeps, and who holds it.",
    "tune": "Measure what waiting for late rows buys.",
    "validate": "Say what a file defines, and whether its state would take it.",
    "verify": "Prove by the archive that results are what they must be.",
    "watermark": "Say where the watermark stands, and which lane holds it.",
    "why": "Say why a row was taken or refused, or what a window says.",
    "windows": "Say which windows a state holds, and what they take.",
}
"""What each command is for; its module has its name."""


class Commands(click.Group):
    """Commands that cost nothing until one of them is asked for."""

    def list_commands(self, context: click.Context) -> list[str]:
        return sorted(COMMANDS)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        """The command itself, imported now."""
        if name not in COMMANDS:
            return None
        with telling():
            command: click.Command = getattr(import_module(f"eventide.cli.{name}"), name)
            return command

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def invoke(self, context: click.Context) -> object:
        """Run the command; what stops it is told in a paragraph, and Ctrl-C is no news to who typed it."""
        try:
            with warning_once(), telling():
                return super().invoke(context)
        except KeyboardInterrupt:
            raise click.exceptions.Exit(130) from None


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="eventide")
def main() -> None:
    """Exact late-data semantics on Spark Structured Streaming."""
