"""State directories as older runs left them: the present format is gone on with, an older one is refused with the command, which works."""

from __future__ import annotations

import json
import os
import shutil
import socket
import time
from dataclasses import fields
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from crash_driver import Listed
from listening import Listener
from record_state import FILES, ROOT, START, land, move, opened, pipeline

import eventide as ev
from eventide.engine.batch.beginning import Beginning
from eventide.engine.changes import DefinitionChanged, digest
from eventide.engine.restart import start_over
from eventide.kernel.scan import LaneCarry
from eventide.sinks.base import Delivery
from eventide.state.journal import READ, VERSION, Journal, LocalFiles
from eventide.state.lease import StateInUse, _start_time
from eventide.state.ledger import Ledger
from eventide.state.store import Part, PartKind

RECORDED = Path(__file__).parent / "recorded"
TOTALS = {(0, "x"): 73, (10, "x"): 2, (10, "y"): 4, (20, "y"): 16}
"""By the start of the window, of those that have closed; the row that came late for the first is in it."""
TWENTIES = {(0, "x"): 75, (0, "y"): 4}


def copied(number: int, root: Path) -> Path:
    """A recording at another place, with the digest by which its begun batch knows its definition there."""
    shutil.copytree(RECORDED / f"format-{number}", root, dirs_exist_ok=True)
    move(root / "state", ROOT, str(root))
    journal = Journal(LocalFiles(str(root / "state")))
    facts, begun = journal.definition(), journal.begun(1)
    assert facts is not None and begun is not None
    move(root / "state", begun.get("definition", "none was noted"), digest(facts))
    land(root)
    return root


def totals(heard: Listener) -> dict[tuple[int, str | None], int]:
    return {(start // 1_000_000 - START, bank): total for (start, _, bank), (_, total) in heard.table().items()}


def contents(root: Path) -> dict[str, bytes]:
    return {str(p.relative_to(root)): p.read_bytes() for p in sorted(root.rglob("*")) if p.is_file()}


def told(root: Path, heard: Listener) -> None:
    """What the sinks had been told when the recording ended, by its own panes."""
    for file in sorted((root / "state/panes/totals").rglob("*.parquet"), key=lambda p: p.parent.name):
        heard(pq.ParquetFile(file).read(), Delivery("recorded", "totals", 0, 0))
    assert totals(heard) == TOTALS, "the batch that it died in was delivered"


def caught_up(root: Path, heard: Listener, **more: Any) -> Listener:
    run = opened(pipeline(root, ev.function(heard, keyed=True), **more), 50)
    landed = land(root)
    run.batch(Listed(landed[2:] if run.ledger.batch == 0 else landed), run.ledger.batch + 1)
    run.close()
    return heard


def test_there_is_a_recording_of_every_format() -> None:
    assert sorted(path.name for path in RECORDED.iterdir()) == [f"format-{n}" for n in range(1, VERSION + 1)]


@pytest.mark.parametrize("number", READ)
def test_a_format_that_is_read_is_gone_on_with(tmp_path: Path, number: int) -> None:
    root, heard = copied(number, tmp_path), Listener()
    told(root, heard)
    assert totals(caught_up(root, heard)) == TOTALS
    ledger = Journal(LocalFiles(str(root / "state"))).ledger()
    assert ledger is not None and ledger.rows["in"] == sum(len(rows) for _, rows in FILES) and ledger.batch == 1


def test_a_field_that_is_new_in_the_journal_has_been_thought_about() -> None:
    """An Eventide before it passes over what it does not know: where it would answer otherwise then, the format takes the next number."""
    journal = Journal(LocalFiles(str(RECORDED / f"format-{VERSION}/state")))
    last, begun = journal.last(), journal.begun(1)
    assert last is not None and begun is not None, "record it again: python tests/engine/record_state.py"
    noted = last["ledger"]
    for what, record in [(Part, noted["parts"][0]), (LaneCarry, noted["carries"][0][-1])]:
        assert record.keys() == {field.name for field in fields(what)}, what
    assert noted.keys() == Ledger().to_json().keys() and begun.keys() == Beginning(0, 0, "").to_json().keys()
    kinds = {"partial", "rows", "firsts", "kept", "book", "sessions", "side", "clock", "standing"}
    assert {str(kind) for kind in PartKind} == kinds, "of format 3"


def test_an_older_format_is_refused_with_the_command_and_nothing_is_touched(tmp_path: Path) -> None:
    root = copied(1, tmp_path)
    before = contents(root)
    with pytest.raises(DefinitionChanged, match=r"format 1, of an earlier Eventide.*Nothing was changed.*--start-over"):
        opened(pipeline(root, None), 50)
    assert contents(root) == before


def test_a_state_that_an_earlier_eventide_is_at_work_on_is_not_moved_away(tmp_path: Path) -> None:
    root, other = copied(1, tmp_path), os.getppid()  # any process that lives and is not this one
    me = {
        "holder": "x",
        "pid": other,
        "start": _start_time(other),
        "host": socket.gethostname(),
        "renewed": time.time(),
    }
    (root / "state/lease.json").write_text(json.dumps(me))
    with pytest.raises(StateInUse, match=f"in use by process {other}"):
        start_over(pipeline(root, None))
    assert (root / "state/journal").exists()
    (root / "state/lease.json").write_text(json.dumps({**me, "start": "long ago"}))
    assert start_over(pipeline(root, None))[1] is not None


@pytest.mark.parametrize("number", range(1, VERSION + 1))
@pytest.mark.parametrize("window", [ev.tumbling("10 s"), ev.tumbling("20 s")], ids=["the same windows", "others"])
def test_the_command_works_on_every_format(tmp_path: Path, number: int, window: Any) -> None:
    """Also for a sink that cannot be asked, of all that the recorded run had told it, the batch included that it died in."""
    root, heard = copied(number, tmp_path), Listener()
    told(root, heard)
    _, aside = start_over(pipeline(root, ev.function(heard, keyed=True), window))
    assert aside == root / "state.generation-0"
    assert Journal(LocalFiles(str(root / "state"))).definition() is None
    caught_up(root, heard, window=window)
    facts = Journal(LocalFiles(str(root / "state"))).definition()
    assert facts is not None and facts["generation"] == 1
    assert totals(heard) == (TOTALS if window == ev.tumbling("10 s") else TWENTIES)
