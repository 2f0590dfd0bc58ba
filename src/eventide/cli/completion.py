"""`eventide completion bash|zsh|fish`: what a shell needs to complete commands, options and files."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from eventide.cli.faults import Refused

SHELLS = ("bash", "zsh", "fish")
VARIABLE = "_EVENTIDE_COMPLETE"
"""By it the shell asks the command for what may follow."""


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: str) -> None:
    """Print the completion script for a SHELL.

    bash: eval "$(eventide completion bash)" in ~/.bashrc. zsh: the same in ~/.zshrc. fish: eventide completion fish | source
    """
    from eventide.cli.main import main

    made = get_completion_class(shell)
    assert made is not None, "click knows these shells"
    try:
        click.echo(made(main, {}, "eventide", VARIABLE).source())
    except (OSError, RuntimeError) as error:  # it asks bash for its version
        raise Refused(
            f"{shell} cannot be asked for its version: {error}. It must be installed here to be completed for."
        ) from error
