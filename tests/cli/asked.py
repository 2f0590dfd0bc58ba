"""The command asked as a user asks it, and pipelines in files to ask it about."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner

from eventide.cli import main


def shown(*arguments: str) -> str:
    result = CliRunner().invoke(main.main, list(arguments), env={"COLUMNS": "80"})
    assert result.exit_code == 0, result.output
    return result.output


PIPELINE = """
import eventide as ev

rows = ev.files("rows", {path!r}, schema="ts timestamp, bank string, paise bigint", event_time="ts", watermark=ev.bounded("5 s"){more})
minutes = rows.window(ev.tumbling("1 minute"), by="bank").agg(total={total})
pipeline = ev.Pipeline("p", minutes.to("out", late=ev.drop()), state={state!r})
"""


def written(root: Path, text: str | None = None, **given: str) -> str:
    facts = {"path": str(root / "landing"), "state": str(root / "state"), "total": 'ev.sum("paise")', "more": "", **given}
    (root / "pipe.py").write_text(text if text is not None else PIPELINE.format(**facts))
    return str(root / "pipe.py")


def refused(*arguments: str) -> str:
    """What a command says that ends with exit code 2: one paragraph."""
    result = CliRunner().invoke(main.main, list(arguments))
    assert result.exit_code == 2, result.output
    assert "Traceback" not in result.output and isinstance(result.exception, SystemExit)
    errors = [line for line in result.output.splitlines() if line.startswith("Error: ")]
    assert len(errors) == 1 and result.output.rstrip().endswith(errors[0])
    return errors[0]
