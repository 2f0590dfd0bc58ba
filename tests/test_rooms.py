"""The rooms of the house: what CONTRIBUTING says of them is what import-linter holds them to, and nothing lies outside."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]


def contracts() -> list[dict[str, Any]]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]


def rooms() -> list[list[str]]:
    [layers] = [contract["layers"] for contract in contracts() if contract.get("containers") == ["eventide"]]
    return [sorted(layer.split(" | ")) for layer in layers]


def test_the_table_of_rooms_is_the_contract() -> None:
    table = (ROOT / "CONTRIBUTING.md").read_text().partition("## Where things live")[2].partition("\n## ")[0]
    told = [re.findall(r"`(\w+)(?:/|\.py)`", line.split("|")[1]) for line in table.splitlines() if line.startswith("| `")]
    assert [sorted(names) for names in told] == rooms()


def test_every_module_has_its_place_in_it() -> None:
    found = {path.stem for path in (ROOT / "src/eventide").iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    assert found - {"__init__"} == {name for layer in rooms() for name in layer}


def test_no_wall_has_a_hole() -> None:
    assert [contract["name"] for contract in contracts() if "ignore_imports" in contract] == []
