"""`eventide completion`: the script for each shell, and what a real bash is told by it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest
from asked import shown
from click.testing import CliRunner

from eventide.cli import main


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_is_given_a_script_that_asks_the_command(shell: str) -> None:
    assert f"_EVENTIDE_COMPLETE={shell}_complete" in shown("completion", shell)


def test_another_shell_is_refused_with_those_that_are_known() -> None:
    result = CliRunner().invoke(main.main, ["completion", "tcsh"])
    assert result.exit_code == 2 and "bash" in result.output


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash here")
def test_commands_and_options_are_completed() -> None:
    def asked(words: str, at: int) -> str:
        env = {**os.environ, "_EVENTIDE_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(at)}
        code = "from eventide.cli.main import main; main(prog_name='eventide')"
        return subprocess.run(
            [sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=60, check=True
        ).stdout

    assert {"plain,watermark", "plain,windows", "plain,why"} >= {*asked("eventide w", 1).split()} and "plain,why" in asked(
        "eventide w", 1
    )
    assert "plain,--report" in asked("eventide verify --rep", 2)
