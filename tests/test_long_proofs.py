"""Every long proof is run by a make target, every target by `make soak`, and each stands in the page of proofs."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
MAKEFILE = (ROOT / "Makefile").read_text()
TARGETS = set(re.findall(r"^(soak-\w+):", MAKEFILE, re.MULTILINE))


def test_every_file_with_a_long_proof_is_run_by_a_target() -> None:
    recipes = "\n".join(re.findall(r"^\t.*(?:\\\n.*)*", MAKEFILE, re.MULTILINE))
    run = {path for path in re.findall(r"tests/[\w/.]+", recipes) if path != "tests/faults/hunt.py"}
    marked = [
        path for path in ROOT.glob("tests/**/*.py") if "mark.soak" in path.read_text() and path.name != Path(__file__).name
    ]
    names = [str(path.relative_to(ROOT)) for path in marked]
    assert len(names) > 15
    assert [name for name in names if not any(name == path or name.startswith(f"{path}/") for path in run)] == []


def test_every_target_is_part_of_make_soak() -> None:
    (listed,) = re.findall(r"^SOAKS := (.*)$", MAKEFILE, re.MULTILINE)
    assert set(listed.split()) == TARGETS and len(TARGETS) > 15


def test_the_page_of_proofs_names_every_target_and_no_other() -> None:
    page = (ROOT / "docs" / "proofs.md").read_text()
    assert set(re.findall(r"make (soak-\w+)", page)) == TARGETS


def test_the_tests_that_the_page_of_proofs_names_are_there() -> None:
    named = re.findall(r"`(tests/[\w/.*]+)`", (ROOT / "docs" / "proofs.md").read_text())
    assert len(named) > 10
    assert [name for name in named if not list(ROOT.glob(name))] == []
