"""`eventide migrate`: breaking schema changes without a flag day, from the plan to the contract."""

from __future__ import annotations

import click

from eventide.cli import migrate_check, migrate_consumers, migrate_data, migrate_phases


@click.group()
def migrate() -> None:
    """Expand, write both shapes, move the consumers, contract: a breaking change without a flag day."""


for _commands in (migrate_phases, migrate_consumers, migrate_check, migrate_data):
    for _command in vars(_commands).values():
        if isinstance(_command, click.Command):
            migrate.add_command(_command)
