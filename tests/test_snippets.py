"""What the pages show is run: the tutorial and the page on testing as they stand, the definitions of the others, and orchestrators' files by Python's own parser."""

from __future__ import annotations

import ast
import json
import re
import runpy
import sqlite3
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import click
import pytest

import eventide as ev
from tests.registry.conftest import InThread

ROOT = Path(__file__).parents[1]
PAGES = sorted((ROOT / "docs").glob("*.md"))


def snippets(page: str) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", (ROOT / "docs" / page).read_text(), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_snippet_is_python(page: Path) -> None:
    for snippet in snippets(page.name):
        ast.parse(snippet)


def test_the_tutorial_ends_as_it_says(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    make, upi = snippets("tutorial.md")
    for name, text in (("make_events.py", make), ("upi.py", upi)):
        Path(name).write_text(text)
    runpy.run_path("make_events.py")
    command = [
        sys.executable,
        "-c",
        "from eventide.cli.main import main; main()",
        "run",
        "upi.py",
        "--until-caught-up",
        "--drain",
    ]
    said = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True).stdout
    page = (ROOT / "docs" / "tutorial.md").read_text()
    for line in re.findall(r"^    (  (?:wall|totals)  .*✓)$", page, re.MULTILINE):
        assert line in said
    (asked,) = re.findall(r'^    sqlite3 upi\.db "(.*?)"$', page, re.MULTILINE | re.DOTALL)
    with sqlite3.connect("upi.db") as base:
        found = ["|".join(map(str, row)) for row in base.execute(asked)]
    assert found == re.findall(r"^    (2026-.*)$", page, re.MULTILINE) and len(found) == 3


def test_the_page_on_testing_passes_its_own_test(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    Path("test_upi.py").write_text(snippets("testing.md")[0])
    runpy.run_path("test_upi.py")["test_a_late_payment_is_in_the_totals_and_not_on_the_wall"]()


def test_the_migrated_job_is_a_pipeline_that_says_what_it_does() -> None:
    made: dict[str, Any] = {}
    exec(compile(snippets("from-withwatermark.md")[1], "from-withwatermark.md", "exec"), made)
    assert "tumbling 1 minute by bank" in made["pipeline"].explain()


def source(name: str, columns: str) -> Any:
    return ev.files(name, f"{name}/", schema=f"at timestamp, {columns}", event_time="at", watermark=ev.bounded("30 seconds"))


def test_the_definitions_of_the_guide_can_be_written_as_they_stand() -> None:
    made: dict[str, Any] = {
        "ev": ev,
        "passes": source("passes", "object string, metres double"),
        "sensors": source("sensors", "sensor string, object string, metres double").dedupe("object", within="1 minute"),
        "orders": source("orders", "order_id string, rupees bigint"),
        "payments": source("payments", "order_id string, bank string"),
        "bids": source("bids", "item string, city string, price bigint"),
    }
    found = snippets("guide.md")
    assert len(found) == 4
    for snippet in found:
        exec(compile(snippet, "guide.md", "exec"), made)
    assert [made[name].window.size for name in ("per_minute", "busiest")] == [60_000_000, 3_600_000_000]
    assert made["paid"].how == "left" and made["alerts"].view.steps


def test_the_sources_and_sinks_of_their_pages_can_be_written_as_they_stand() -> None:
    import pyarrow as pa

    from eventide import sinks

    acme = ModuleType("acme")
    panes = [{"window_id": "1", "op": "+I", "sequence": 0, "generation": 0, "n": 3}]
    messages = [SimpleNamespace(value=lambda body=body: json.dumps(body)) for body in panes]
    made: dict[str, Any] = {"ev": ev, "sinks": sinks, "consumer": messages}
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "acme", acme)
        for page, number in (("sources.md", 1), ("sinks.md", 5)):
            found = snippets(page)
            assert len(found) == number
            for snippet in found:
                exec(compile(snippet, page, "exec"), made)
    assert made["Acme"]().type_of(pa.list_(pa.int64())) == "VARIANT"
    assert [row["n"] for row in made["table"]] == [3]


def test_the_lines_of_the_registrys_page_are_run(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "registry.md").read_text().partition("## From Python")[2].partition("\n## ")[0]
    lines = "\n".join(line[4:] for line in page.splitlines() if line.startswith("    "))
    running = InThread(f"sqlite:///{tmp_path}/registry.db")
    text = json.dumps({"type": "record", "name": "Order", "fields": [{"name": "id", "type": "string"}]})
    try:
        made: dict[str, Any] = {"schema_text": text, "my_schema_text": text}
        assert "http://127.0.0.1:8081" in lines
        exec(compile(lines.replace("http://127.0.0.1:8081", running.url), "registry.md", "exec"), made)
        assert made["record"] == {"id": "a-1"} and made["client"].report_usage("prod") == 0
    finally:
        running.stop()


def test_from_nothing_to_a_pipeline_that_could_run_here(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "operating.md").read_text().partition("## From nothing")[2].partition("\n## ")[0]
    commands = [line[4:] for line in page.splitlines() if line.startswith("    ")]
    assert commands[0] == "eventide init payments" and len(commands) == 4
    program = "from eventide.cli.main import main; main()"
    script = "\n".join(["set -e", f"eventide() {{ '{sys.executable}' -c '{program}' \"$@\"; }}", *commands])
    said = subprocess.run(["bash", "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert said.returncode == 0, said.stdout + said.stderr
    assert "✗" not in said.stdout and "ok: " in said.stdout


@pytest.mark.parametrize("name", ["airflow_dag", "dagster_job"])
def test_the_files_of_orchestrators_are_python_and_call_commands_that_there_are(name: str) -> None:
    from eventide.cli.main import main

    text = (ROOT / "examples" / "orchestration" / f"{name}.py").read_text()
    ast.parse(text)
    called = set(re.findall(r"eventide (\w+) ", text)) | set(re.findall(r'run\(context, "(\w+)"', text))
    assert called and called <= set(main.list_commands(click.Context(main)))


def test_every_public_name_stands_in_the_pages() -> None:
    pages = " ".join(page.read_text() for page in PAGES)
    from eventide.pipeline import Pipeline

    verbs = [name for name in vars(Pipeline) if not name.startswith("_")]
    names = [*ev.__all__, *(name for name in verbs if name not in ("with_generation", "packages"))]
    assert [name for name in names if not re.search(rf"\b{name}\b", pages)] == []


def test_every_page_is_in_the_sites_navigation_once() -> None:
    listed = re.findall(r"(?:: |- )([\w-]+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)
    assert sorted(listed) == sorted(page.name for page in PAGES)
