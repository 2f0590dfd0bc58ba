"""Dead letters that are mended and read again: each once, as an event that arrives then, whoever mends how often and whatever dies meanwhile."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from pyspark.sql import types
from tests.engine.crash_driver import Here, batch_of

import eventide as ev
from eventide.cli.main import main
from eventide.engine import mending
from eventide.engine.mending import FILE, Letter, MendRefused
from eventide.engine.run import Run
from eventide.engine.trial import tried
from eventide.errors import DefinitionError
from eventide.model.event import Event
from eventide.model.reference import Reference
from eventide.state.state import State

START = 1_790_000_000
SECOND = 1_000_000
SCHEMA = "ts timestamp, bank string, paise bigint"
FILE_TEXT = """
import sys; sys.path.insert(0, {here!r})
from tests.engine.test_mending import defined
from pathlib import Path
pipeline = defined(Path({root!r}))
"""


@pytest.fixture(autouse=True)
def without_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only Spark's JVM reads DDL."""
    kinds = types.StructType().add("ts", "timestamp").add("bank", "string").add("paise", "long")
    monkeypatch.setattr("eventide.engine.feeds.files.parse_ddl", {SCHEMA: kinds}.__getitem__)


def defined(root: Path, **more: Any) -> ev.Pipeline:
    (root / "landing").mkdir(exist_ok=True)
    pay = ev.files("pay", str(root / "landing"), format="json", schema=SCHEMA, event_time="ts", watermark=ev.bounded("0 s"))
    again = ev.mended("again", str(root / "mended"), schema=SCHEMA, event_time="ts")
    minutes = ev.merge(pay, again).window(ev.tumbling("1 minute"), by="bank").agg(total=ev.sum("paise"), n=ev.count())
    late = ev.accumulate("5 minutes", refused=ev.divert())
    return ev.Pipeline("p", minutes.to("totals", late=late), state=str(root / "state"), buckets=1, **more)


def at(second: float) -> int:
    return int((START + second) * SECOND)


def record(second: float, paise: int) -> dict[str, Any]:
    return {"ts": datetime.fromtimestamp(START + second, UTC).isoformat(), "bank": "a", "paise": paise}


class World:
    """A landing directory, a run without Spark, and its clock."""

    def __init__(self, root: Path, **more: Any) -> None:
        self.root, self.pipeline, self.number = root, defined(root, **more), -1
        self.read: set[str] = set()
        self.clock = 0
        self.run = Run(self.pipeline, Here(), str(root / "state"), clock=lambda: at(self.clock))  # type: ignore[arg-type]

    def land(self, name: str, lines: list[str], arrived: int) -> None:
        path = self.root / "landing" / name
        path.write_text("".join(f"{line}\n" for line in lines))
        os.utime(path, (START + arrived,) * 2)

    def arrive(self, second: int) -> None:
        """Mended files come at an instant of the test's own."""
        for path in (self.root / "mended").glob("*.json"):
            if str(path) not in self.read:
                os.utime(path, (START + second,) * 2)

    def batch(self, clock: int) -> Run:
        """The run reads what there is to be read."""
        self.clock = clock
        if self.number < 0:
            self.run.open()
        paths = [*(self.root / "landing").glob("*.json"), *(self.root / "mended").glob("*.json")]
        new = sorted((p.stat().st_mtime_ns // 1000, str(p)) for p in paths if str(p) not in self.read)
        self.number += 1
        self.run.batch(batch_of(self.pipeline, [(path, when) for when, path in new]), self.number)  # type: ignore[arg-type]
        self.read |= {path for _, path in new}
        return self.run

    def dead(self) -> None:
        """Two rows and a broken one for each of two lanes' worth of offsets: 3 are dead, at offsets 1, 3 and 4."""
        self.land("0.json", [json.dumps(record(1, 10)), "paise=20 at 2", json.dumps(record(3, 30)), "paise=40 at 4", "lost"], 5)
        self.batch(10)

    @property
    def totals(self) -> dict[str, tuple[int, int]]:
        """By window, what stands."""
        rows: dict[str, tuple[int, int]] = {}
        state = State.of(self.pipeline)
        for batch in state.store.batches(state.panes("totals")):
            for row in batch.to_pylist():
                rows[f"{row['window_start'].timestamp() - START:.0f}"] = (row["total"], row["n"])
        return rows


def fix(letter: Letter) -> Mapping[str, Any] | None:
    if not letter.raw or b"paise=" not in letter.raw:
        return None
    paise, second = letter.raw.decode().removeprefix("paise=").split(" at ")
    return record(int(second), int(paise))


def test_a_mended_letter_is_an_event_that_arrives_then(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.dead()
    done = world.pipeline.mend(fix, "again")
    assert (done.letters, done.mended, done.before, done.left) == (3, 2, 0, 1) and len(done.files) == 1
    world.arrive(12)
    world.land("1.json", [json.dumps(record(130, 1))], 135)
    ledger = world.batch(140).ledger
    assert (ledger.rows["in"], ledger.rows["dead"]) == (8, 3), (
        "a letter stays one that was dead, and comes once more as an event"
    )
    assert ledger.outputs["totals"]["rows_on_time"] == 5
    assert world.totals["-20"] == (100, 4), "the window was open still: 10 + 20 + 30 + 40"


def test_answers_are_those_of_events_in_order_of_arrival(tmp_path: Path) -> None:
    """By the reference: mended before their window closes, after it, and after it is gone; W never moves for them."""
    world = World(tmp_path)
    world.land("0.json", [json.dumps(record(1, 10)), "paise=20 at 2", "paise=40 at 65", json.dumps(record(66, 5))], 70)
    world.batch(80)
    assert world.pipeline.mend(lambda letter: fix(letter) if letter.offset == 1 else None, "again").mended == 1
    world.arrive(81)
    world.batch(90)
    world.land("1.json", [json.dumps(record(600, 7))], 600)
    world.batch(610)
    assert world.pipeline.mend(fix, "again").mended == 1
    world.arrive(620)
    run = world.batch(630)
    sources = tuple(replace(one, lanes=("0",)) for one in world.pipeline.plan().sources)
    reference = Reference(replace(world.pipeline.plan(), sources=sources))
    rows = [
        (70, 0, 0, record(1, 10), 1, None), (70, 0, 1, {}, None, "broken"), (70, 0, 2, {}, None, "broken"), (70, 0, 3, record(66, 5), 66, None),
        (81, 1, 0, record(2, 20), 2, None), (600, 0, 4, record(600, 7), 600, None), (620, 1, 1, record(65, 40), 65, None),
    ]  # fmt: skip
    for arrived, source, offset, row, second, dead in rows:
        time = None if second is None else at(second)
        reference.event(Event(at(arrived), time, ("a",), row, source, "0", offset, dead=dead))
    expected = {f"{pane.window[0] // SECOND - START}": (pane.values["total"], pane.values["n"]) for pane in reference.panes}
    assert world.totals == expected and run.ledger.frontier.watermark == reference.state.frontier.watermark == at(600)
    [worst] = reference.state.worst
    assert {str(verdict): number for verdict, number in worst.items()} == {"on_time": 3, "admitted": 1, "refused": 1}
    assert {name: run.ledger.outputs["totals"][f"rows_{name}"] for name in ("on_time", "admitted", "refused")} == {
        "on_time": 3,
        "admitted": 1,
        "refused": 1,
    }, (run.ledger.outputs, run.ledger.rows, run.ledger.frontier)


def test_who_mends_again_mends_none_twice(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.dead()
    assert world.pipeline.mend(lambda letter: fix(letter) if letter.offset == 1 else None, "again").mended == 1
    second = world.pipeline.mend(fix, "again")
    assert (second.mended, second.before, second.left) == (1, 1, 1)
    third = world.pipeline.mend(lambda letter: record(9, 9), "again")
    assert (third.mended, third.before, third.left) == (1, 2, 0)
    none = world.pipeline.mend(fix, "again")
    assert (none.mended, none.before, none.files) == (0, 3, ())
    places = [
        json.loads(line)["_mended"] for path in (tmp_path / "mended").glob("*.json") for line in path.read_text().splitlines()
    ]
    assert sorted(places) == [["pay", "0", 1], ["pay", "0", 3], ["pay", "0", 4]]


def test_of_two_that_mend_at_once_one_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(tmp_path)
    world.dead()

    def meanwhile(letter: Letter) -> Mapping[str, Any] | None:
        if letter.offset == 1:
            assert world.pipeline.mend(fix, "again").mended == 2
        return fix(letter)

    with pytest.raises(MendRefused, match="somebody else mends at the same time"):
        world.pipeline.mend(meanwhile, "again")
    assert world.pipeline.mend(fix, "again").mended == 0


def test_one_that_is_killed_between_its_files_goes_on_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(tmp_path)
    world.dead()
    monkeypatch.setattr(mending, "MOST", 1)

    def dies(letter: Letter) -> Mapping[str, Any] | None:
        if letter.offset == 3:
            raise KeyboardInterrupt
        return fix(letter)

    with pytest.raises(KeyboardInterrupt):
        world.pipeline.mend(dies, "again")
    after = world.pipeline.mend(fix, "again")
    assert (after.mended, after.before) == (1, 1)
    assert sorted(path.name for path in (tmp_path / "mended").glob("*.json")) == [f"generation-0-00000{n}.json" for n in (1, 2)]
    world.arrive(12)
    assert world.batch(20).ledger.rows["in"] == 7


def test_what_a_mended_record_does_not_fit_is_dead_again_and_may_be_mended_again(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.dead()
    world.pipeline.mend(lambda letter: {"ts": "yesterday", "paise": "many"}, "again")
    world.arrive(12)
    assert world.batch(20).ledger.rows["dead"] == 6
    again = world.pipeline.mend(lambda letter: record(5, 1) if letter.source == "again" else None, "again")
    assert (again.mended, again.before) == (3, 3)
    world.arrive(21)
    assert world.batch(30).ledger.rows["in"] == 5 + 3 + 3


def test_letters_of_another_generation_are_not_read_again(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.dead()
    world.pipeline.mend(fix, "again")
    world.run.close()
    later = defined(tmp_path, generation=1)
    (tmp_path / "state").rename(tmp_path / "aside")
    run = Run(later, Here(), str(tmp_path / "state"), clock=lambda: at(50))  # type: ignore[arg-type]
    with pytest.raises(
        MendRefused, match=r"mended for generation 0, and this is generation 1.*mv .*mended .*mended\.generation-0"
    ):
        run.open()
    (tmp_path / "mended").rename(tmp_path / "mended.generation-0")
    run = Run(later, Here(), str(tmp_path / "state"), clock=lambda: at(50))  # type: ignore[arg-type]
    run.open()
    run.close()


BAD: list[tuple[Any, str]] = [
    (lambda letter: [1], "Give a dict of columns"),
    (lambda letter: {"_mended": 1}, "Give a dict of columns"),
    (lambda letter: {"ts": datetime(2026, 1, 1)}, "has no zone"),  # noqa: DTZ001
    (lambda letter: {"paise": float("nan")}, "cannot be written as JSON"),
    (lambda letter: {"paise": object()}, "use texts, numbers"),
    (lambda letter: 1 / 0, "ZeroDivisionError"),
]


@pytest.mark.parametrize(("change", "told"), BAD, ids=range(len(BAD)))
def test_a_function_that_mends_wrongly_is_told_which_letter_and_nothing_is_written(
    tmp_path: Path, change: Any, told: str
) -> None:
    world = World(tmp_path)
    world.dead()
    with pytest.raises(MendRefused, match=f"the dead letter at pay/0, offset 1 .*{told}"):
        world.pipeline.mend(change, "again")
    assert not [path for path in os.listdir(tmp_path / "mended") if FILE.fullmatch(path)]


def test_without_a_source_for_them_what_to_do_is_said(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.dead()
    with pytest.raises(DefinitionError, match="no source 'pay' that mended letters could come back by; it has again"):
        world.pipeline.mend(fix, "pay")
    assert tried(defined(tmp_path)).refused is None


def test_the_command_mends_and_says_what_came_of_it(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.dead()
    (tmp_path / "pipe.py").write_text(FILE_TEXT.format(here=str(Path(__file__).parents[2]), root=str(tmp_path)))
    (tmp_path / "mend.py").write_text(
        "def mend(letter):\n    return {'ts': '2026-09-21T14:13:29Z', 'bank': 'a', 'paise': 1} if letter.raw == b'lost' else None\n"
    )
    (tmp_path / "not.py").write_text("mend = 1\n")

    def asked(*words: str) -> Any:
        return CliRunner().invoke(main, ["dead", str(tmp_path / "pipe.py"), *words])

    said = asked("--mend", str(tmp_path / "mend.py"), "--into", "again")
    assert said.exit_code == 0 and "1 of 3 dead letters mended, and on their way by 'again'; 2 left as they are" in said.output
    found = json.loads(asked("--mend", str(tmp_path / "mend.py"), "--into", "again", "--json").stdout)
    assert (found["mended"], found["before"], found["left"], found["files"]) == (0, 1, 2, [])
    assert asked("--mend", str(tmp_path / "mend.py")).exit_code == 2
    assert "no function mend(letter)" in asked("--mend", str(tmp_path / "not.py"), "--into", "again").output
    refused = CliRunner().invoke(
        main, ["dead", str(tmp_path / "state"), "--mend", str(tmp_path / "mend.py"), "--into", "again"]
    )
    assert refused.exit_code == 2 and "needs the pipeline's FILE" in refused.output
