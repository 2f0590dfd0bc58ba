"""`eventide late`: the rows that were refused and kept, against the rows that were written late; listed, sampled, exported."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from asked import refused, shown
from click.testing import CliRunner
from stated import at, defined, ran

from eventide.cli import main

LATE = list(range(1, 40))


def facts(place: object, *more: str) -> Any:
    return json.loads(CliRunner().invoke(main.main, ["late", str(place), "--json", *more]).stdout)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """W is at 3,000 s when 39 rows of the first minute come: too late for `quick`, which drops them, and for `patient`, which keeps them."""
    made = defined(tmp_path_factory.mktemp("late"))
    ran(made, [{"a": [0, 3000], "b": [0, 3000]}, {"a": [3001, *LATE]}], [4000, 4100])
    return made


def test_counts_are_those_of_the_rows(file: Path) -> None:
    quick, patient = facts(file)["outputs"]
    assert (quick["refused"], quick["kept"], patient["refused"], patient["kept"]) == (39, 0, 39, 39)
    assert patient["lanes"] == [{"source": "rows", "lane": "a", "rows": 39}]
    assert patient["causes"] == {"behind its own lane": 39, "its lane had been idle": 0}
    said = shown("late", str(file.parent / "state"))
    assert "Kept by patient" in said and "rows/a" in said and "behind its own lane" in said


def test_rows_are_listed_and_sampled_the_same_again(file: Path) -> None:
    assert len(facts(file, "--limit", "5")["outputs"][1]["rows"]) == 5
    some = [facts(file, "--sample", "7")["outputs"][1]["rows"] for _ in range(2)]
    assert some[0] == some[1] and len({row["_offset"] for row in some[0]}) == 7
    every = facts(file, "--limit", "100")["outputs"][1]["rows"]
    assert [row["_event_time"] for row in every] == [
        pl.Series([at(second)]).cast(pl.Datetime("us", "UTC")).item().isoformat() for second in LATE
    ]


@pytest.mark.parametrize("form", ["parquet", "csv", "json"])
def test_all_are_exported_once_and_nothing_is_replaced(file: Path, tmp_path: Path, form: str) -> None:
    to = tmp_path / f"late.{form}"
    done = CliRunner().invoke(main.main, ["late", str(file), "--output", "patient", "--export", str(to), "--json"])
    assert done.exit_code == 0 and "39 rows" in done.stderr, done.output
    read = {"parquet": pl.read_parquet, "csv": pl.read_csv, "json": pl.read_ndjson}[form](to)
    assert len(read) == 39 and sorted(read["paise"]) == list(range(1, 40)) and [p.name for p in tmp_path.iterdir()] == [to.name]
    assert "is not replaced" in refused("late", str(file), "--output", "patient", "--export", str(to))


def test_what_cannot_be_asked_is_said(file: Path, tmp_path: Path) -> None:
    assert "must end with one of" in refused("late", str(file), "--export", str(tmp_path / "x.xlsx"))
    assert "no output has kept a row" in refused("late", str(file), "--output", "quick", "--export", str(tmp_path / "x.csv"))
    assert "has no output 'nobody'" in refused("late", str(file), "--output", "nobody")
