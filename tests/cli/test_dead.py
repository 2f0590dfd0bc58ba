"""`eventide dead`: records that could not be read, by reason and lane, with their bytes; hostile ones do nothing."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from asked import shown
from click.testing import CliRunner
from stated import defined, ran

from eventide.cli import main


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three rows a day and more ahead of their arrival, by a lane whose name is hostile."""
    made = defined(tmp_path_factory.mktemp("dead"))
    ran(made, [{"a": [0, 60], "b\x1b[2J": [0, 300_000, 300_001, 300_002]}], [1000])
    return made


def facts(place: object, *more: str) -> Any:
    return json.loads(CliRunner().invoke(main.main, ["dead", str(place), "--json", *more]).stdout)


def test_reasons_and_lanes_are_counted(file: Path) -> None:
    found = facts(file)
    assert (found["dead"], found["in"], sum(one["rows"] for one in found["reasons"])) == (3, 6, 3)
    assert found["lanes"] == [{"source": "rows", "lane": "b\x1b[2J", "rows": 3}] and len(found["rows"]) == 3
    assert len(facts(file, "--sample", "2")["rows"]) == 2
    said = shown("dead", str(file))
    assert "3 of 6 rows" in said and "\x1b" not in said


def test_they_are_exported_with_their_bytes(file: Path, tmp_path: Path) -> None:
    for form in ("parquet", "json"):
        to = tmp_path / f"dead.{form}"
        assert CliRunner().invoke(main.main, ["dead", str(file), "--export", str(to)]).exit_code == 0
    bytes_of, texts = pl.read_parquet(tmp_path / "dead.parquet")["raw"], pl.read_ndjson(tmp_path / "dead.json")["raw"]
    assert [None if raw is None else base64.b64encode(raw).decode() for raw in bytes_of] == texts.to_list()
