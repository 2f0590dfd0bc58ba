"""Where what is needed to tell of a run is not installed: said before Spark is started, with what to install."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.cli.stated import defined

import eventide as ev
from eventide.cli.following import EXPORTERS
from eventide.cli.main import main
from eventide.errors import DefinitionError


def test_without_the_api_a_program_is_told_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    with pytest.raises(DefinitionError, match=r"eventide\[opentelemetry\]"):
        ev.opentelemetry()


def test_without_the_exporter_the_command_line_is_told_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in EXPORTERS:
        monkeypatch.setitem(sys.modules, module, None)
    asked = CliRunner().invoke(main, ["run", str(defined(tmp_path)), "--otel"])
    assert asked.exit_code == 2 and "eventide[opentelemetry]" in " ".join(asked.output.split())
