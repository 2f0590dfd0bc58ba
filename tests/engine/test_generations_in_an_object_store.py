"""Generations of a state in an object store: one that was moved aside by hand is found beside it, as on a disk."""

from __future__ import annotations

from pathlib import Path

import pytest
from crash_driver import Here, Listed
from feeding import SECOND
from test_generations_of_a_run import Generations, seconds

import eventide as ev
from eventide.engine.restart import CannotStartOver, start_over
from eventide.engine.run import Run
from eventide.state.generations import note_waiting, of_states, states_aside
from eventide.storage.objects import ObjectFiles


class InStore(Generations):
    """The first generation on a disk, moved aside into a store; the next ones there."""

    place = ""

    def pipeline(self, **_: object) -> ev.Pipeline:
        made = super().pipeline()
        state = self.place or made.state
        return ev.Pipeline(made.name, *made.outputs, state=state, buckets=2)

    def go_on(self, lake: str) -> Run:
        self.place = f"{lake}/state"
        self.run = Run(self.pipeline(), Here(), self.place, clock=lambda: self.now)
        self.run.open()
        return self.run

    def read(self) -> None:
        self.now += SECOND
        files = sorted((self.root / "in").rglob("*.parquet"))
        self.run.batch(Listed([(str(p), p.stat().st_mtime_ns // 1000) for p in files]), self.run.ledger.batch + 1)


def moved(state: Path, to: str) -> None:
    store = ObjectFiles(to)
    for path in state.rglob("*"):
        if path.is_file():
            store.write(str(path.relative_to(state)), path.read_bytes())


@pytest.fixture
def live(lake: str, tmp_path: Path) -> InStore:
    feeding = InStore(tmp_path)
    feeding.land("a", *seconds(1, 2, 12, 23, 24, 31))
    feeding.open()
    feeding.caught_up()
    feeding.run.close()
    moved(tmp_path / "state", f"{lake}/state.generation-0")
    return feeding


def test_what_was_lost_to_retention_is_seen_beside_a_state_in_a_store(live: InStore, lake: str) -> None:
    (file,) = (live.root / "in/a").iterdir()
    file.unlink()
    live.land("a", *seconds(41, 52))
    run = live.go_on(lake)
    assert run.generation == 1 and run.definition["lost"] == {"payments": ["a"]}
    run.close()


def test_sinks_that_cannot_be_asked_get_their_retracts_from_a_state_in_a_store(live: InStore, lake: str) -> None:
    told = set(live.heard.totals())
    live.window = ev.tumbling("20 s")
    live.land("a", *seconds(45))
    live.go_on(lake)
    live.read()
    assert {*live.heard.retracted} >= told and live.rows_in() == 6
    live.run.close()


def test_a_generation_that_waited_in_a_store_is_not_taken_again(live: InStore, lake: str) -> None:
    live.window = ev.tumbling("20 s")
    for generation in (1, 2):
        run = live.go_on(lake)
        assert run.generation == generation and run.deliverer.outlets["out"].withheld
        run.close()
        ObjectFiles(f"{lake}/state").delete_directory("")


def test_states_beside_one_in_a_store_are_known_by_their_names_only(lake: str) -> None:
    store, state = ObjectFiles(lake), f"{lake}/state/"
    for name in ("state", "state.generation-2", "state.generation-10", "state.generation-x", "states.generation-7"):
        store.write(f"{name}/journal/x", b"")
    assert states_aside(state) == [(2, f"{lake}/state.generation-2"), (10, f"{lake}/state.generation-10")]
    note_waiting(state, 12)
    assert of_states(ObjectFiles(state), state) == 12
    assert states_aside("s3://bucket") == [], "nothing lies beside a whole bucket"


def test_a_state_in_a_store_is_not_moved_and_the_place_to_move_it_to_is_named(live: InStore, lake: str) -> None:
    live.place = f"{lake}/state"
    with pytest.raises(CannotStartOver, match=rf"{lake}/state to {lake}/state\.generation-N.*without --start-over"):
        start_over(live.pipeline())
