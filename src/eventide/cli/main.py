"""The command `eventide`: a group to which each noun adds its own commands."""

from __future__ import annotations

import click

from eventide import __version__
from eventide.cli.demo import demo
from eventide.cli.lateness import lateness
from eventide.cli.migrate import migrate
from eventide.cli.reconcile import reconcile
from eventide.cli.registry import registry
from eventide.cli.run import run
from eventide.cli.tune import tune


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="eventide")
def main() -> None:
    """Exact late-data semantics on Spark Structured Streaming."""


main.add_command(demo)
main.add_command(lateness)
main.add_command(reconcile)
main.add_command(migrate)
main.add_command(registry)
main.add_command(run)
main.add_command(tune)
