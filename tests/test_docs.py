"""The pages of the project: every link leads somewhere, and every decision is in the index under its own title."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
DECISIONS = sorted(page for page in (ROOT / "docs" / "adr").glob("*.md") if page.name != "README.md")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_to_a_page_leads_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)\s]+)\)", page.read_text())
    ours = [link.partition("#")[0] for link in links if "://" not in link and not link.startswith("#")]
    assert [link for link in ours if not (page.parent / link).exists()] == []


def test_every_decision_is_in_the_index_once_under_its_number_and_title() -> None:
    index = (ROOT / "docs" / "adr" / "README.md").read_text()
    listed = re.findall(r"^\| (\d+) \| \[(.+)\]\((.+)\) \|", index, re.MULTILINE)
    titled = [re.match(r"# (\d+)\. (.+)", page.read_text()) for page in DECISIONS]
    assert all(titled) and len(DECISIONS) > 10
    wanted = [(found[1], found[2], page.name) for found, page in zip(titled, DECISIONS, strict=True) if found]
    assert sorted(listed) == sorted(wanted)
    assert all(name.startswith(f"{int(number):04}-") for number, _, name in wanted)
