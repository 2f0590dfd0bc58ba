"""`eventide migrate`: breaking schema changes without a flag day, from the plan to the contract."""

from __future__ import annotations

import click

from eventide.cli.migrate import check, consumers, data, phases


@click.group()
def migrate() -> None:
    """Expand, write both shapes, move the consumers, contract: a breaking change without a flag day."""


for _commands in (phases, consumers, check, data):
    for _command in vars(_commands).values():
        if isinstance(_command, click.Command):
            migrate.add_command(_command)
