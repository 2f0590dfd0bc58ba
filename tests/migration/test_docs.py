"""The terminal session of docs/migrations.md, pasted into a shell: every command runs, and says what the page says."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "migrations.md"
PROMPT, MORE = "    $ ", "    > "


def session() -> tuple[list[str], list[str]]:
    """The commands of the first part of the page, and the lines that it says they print."""
    commands, printed = [], []
    part = PAGE.read_text().split("## The worked rename, in a terminal")[1].split("\n## ")[0]
    for line in part.splitlines():
        if line.startswith(PROMPT):
            commands.append(line.removeprefix(PROMPT))
        elif line.startswith(MORE):
            commands[-1] += "\n" + line.removeprefix(MORE)
        elif line.startswith("    ") and commands:
            printed.append(line.removeprefix("    "))
    return commands, printed


@pytest.fixture
def port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def test_the_worked_rename_can_be_pasted_into_a_terminal(tmp_path, port):
    commands, printed = session()
    assert len(commands) > 20 and len(printed) > 15
    start = f"eventide() {{ '{sys.executable}' -c 'from eventide.cli.main import main; main(prog_name=\"eventide\")' \"$@\"; }}"
    script = "\n".join(["set -em", "exec 2>&1", "trap 'kill $(jobs -p) 2>/dev/null || true' EXIT", start, *commands])
    own = {**os.environ, "HOME": str(tmp_path), "EVENTIDE_REGISTRY_URL": f"http://127.0.0.1:{port}"}
    ran = subprocess.run(
        ["bash", "-c", script.replace("8081", str(port))],
        cwd=tmp_path, env=own, capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout + ran.stderr
    said = ran.stdout.splitlines()
    for line in printed:
        place = next((i for i, found in enumerate(said) if found.startswith(line)), None)
        assert place is not None, f"{line!r} does not come, or not in this place, in:\n{ran.stdout}"
        said = said[place + 1 :]
