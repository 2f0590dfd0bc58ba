"""Of all that start on one state, one holds it, wherever the state is; who lives keeps it, and who died gives it up after its time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from eventide.state import lease
from eventide.state.journal import LocalFiles
from eventide.state.lease import Lease, StateInUse
from eventide.state.records import record_files
from eventide.storage.objects import ObjectFiles

HERE = Path(__file__).parent
ROUNDS = int(os.environ.get("EVENTIDE_ROUNDS", "40"))


@pytest.fixture(params=["local", "objects"])
def files(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    return LocalFiles(str(tmp_path)) if request.param == "local" else ObjectFiles(request.getfixturevalue("lake"))


@pytest.fixture
def machines(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """From now on, whoever asks is on the machine that was named last; leases beat quickly, and last for longer than a busy machine is held up."""
    monkeypatch.setattr(lease, "BEAT_EVERY", 0.05)
    monkeypatch.setattr(lease, "EXPIRES_AFTER", 60)
    taken: list[Lease] = []

    def on(machine: str) -> None:
        monkeypatch.setattr(lease, "_machine", lambda: machine)

    on("one")
    on.taken = taken  # type: ignore[attr-defined]
    yield on
    for held in taken:
        held._over.set()


class HeldUp:
    """Files of a starter that is held up before it writes its first record; meanwhile other things happen."""

    def __init__(self, files: Any, meanwhile: Any) -> None:
        self.files, self.meanwhile = files, meanwhile

    def __getattr__(self, name: str) -> Any:
        return getattr(self.files, name)

    def create(self, path: str, body: bytes) -> bool:
        self.meanwhile()
        return self.files.create(path, body)  # type: ignore[no-any-return]


def beaten(held: Lease, times: int = 3) -> None:
    first = held.beat
    while held.beat < first + times:
        time.sleep(0.01)


def dies(held: Lease) -> None:
    with held._writing:  # not in the middle of a beat
        held._over.set()


def test_a_starter_that_was_held_up_while_another_took_the_state_loses(files: Any, machines: Any) -> None:
    def another_starts() -> None:
        machines.taken.append(Lease.take(files, "here"))
        beaten(machines.taken[0])

    with pytest.raises(StateInUse, match="taken by another run at this moment"):
        Lease.take(HeldUp(files, another_starts), "here")
    machines.taken[0].check()


def test_a_starter_that_was_held_up_while_two_held_the_state_loses(files: Any, machines: Any) -> None:
    def others_come_and_go() -> None:
        first = Lease.take(files, "here")
        beaten(first)
        first.release()
        machines.taken.append(Lease.take(files, "here"))
        beaten(machines.taken[0])

    with pytest.raises(StateInUse, match="taken by another run at this moment"):
        Lease.take(HeldUp(files, others_come_and_go), "here")
    machines.taken[0].check()
    assert all(name.startswith("00000002-") for name in files.names("lease"))


def test_a_lease_leaves_its_first_record_and_its_newest(files: Any, machines: Any) -> None:
    held = Lease.take(files, "here")
    beaten(held)
    held.release()
    assert files.names("lease") == ["00000001-00000000.json", f"00000001-{held.beat:08d}.json"]


@pytest.mark.parametrize("hours", [-5, 5])
def test_a_run_whose_clock_is_wrong_keeps_its_lease_as_long_as_it_lives(
    files: Any, machines: Any, monkeypatch: pytest.MonkeyPatch, hours: int
) -> None:
    body = Lease._body

    def wrong(held: Lease, **more: Any) -> bytes:
        facts = {"machine": "one", "renewed": time.time() + hours * 3600}
        return json.dumps({**json.loads(body(held, **more)), **facts}).encode()

    monkeypatch.setattr(Lease, "_body", wrong)
    machines.taken.append(Lease.take(files, "here"))
    machines("two")
    watch = lease._within
    with monkeypatch.context() as patient, pytest.raises(StateInUse, match="in use by process"):
        patient.setattr(lease, "_within", lambda seconds, happens: watch(600 * seconds, happens))  # it ends with the next beat
        Lease.take(files, "here")
    dies(machines.taken[0])
    machines.taken.append(Lease.take(files, "here"))


def test_a_run_that_died_on_another_machine_gives_its_lease_up_after_its_time(
    files: Any, machines: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    died = Lease.take(files, "here")
    dies(died)
    machines("two")
    with pytest.raises(StateInUse, match="in use by process"):
        Lease.take(files, "here")
    monkeypatch.setattr(lease, "EXPIRES_AFTER", 0)  # its time has passed
    machines.taken.append(Lease.take(files, "here"))
    with pytest.raises(StateInUse, match="another run took over"):
        died.check()


def test_two_machines_of_one_name_do_not_take_each_other_for_dead(files: Any, machines: Any) -> None:
    """A process number means nothing on another machine, or in another container, although both are called the same."""
    machines.taken.append(Lease.take(files, "here"))
    machines("another of the same name")
    with pytest.raises(StateInUse, match="in use by process"):
        Lease.take(files, "here")


def test_a_run_that_died_on_this_machine_gives_its_lease_up_at_once(files: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    program = "import os, sys; from eventide.state.lease import Lease; from eventide.state.records import record_files as f"
    root = getattr(files, "root", "")
    subprocess.run([sys.executable, "-c", f"{program}; Lease.take(f({str(root)!r}), 'here'); os._exit(9)"], check=False)
    held = Lease.take(files, "here")
    assert held.number == 2
    held.release()


class Down:
    """Files of a place that does not answer to some requests, until it is up again."""

    def __init__(self, files: Any, *requests: str) -> None:
        self.files, self.requests = files, set(requests)

    def __getattr__(self, name: str) -> Any:
        return self._fails if name in self.requests else getattr(self.files, name)

    def _fails(self, *asked: Any) -> Any:
        raise OSError("the store does not answer")


@pytest.mark.parametrize("request_", ["create", "delete"])
def test_a_lease_that_could_not_be_released_can_be_released_again(files: Any, machines: Any, request_: str) -> None:
    held = Lease.take(down := Down(files), "here")
    beaten(held)
    down.requests.add(request_)
    with pytest.raises(OSError, match="does not answer"):
        held.release()
    down.requests.clear()
    held.release()
    assert json.loads(files.read(f"lease/{files.names('lease')[-1]}"))["released"]


def test_a_lease_that_could_not_be_released_keeps_nobody_of_its_own_process_out(files: Any, machines: Any) -> None:
    held = Lease.take(down := Down(files), "here")
    with pytest.raises(StateInUse, match=f"in use by process {os.getpid()}"):
        Lease.take(files, "here")
    down.requests.add("create")
    with pytest.raises(OSError, match="does not answer"):
        held.release()
    machines.taken.append(Lease.take(files, "here"))
    assert machines.taken[0].number == 2


def test_a_lease_that_could_not_be_released_is_released_once_its_place_answers_again(files: Any, machines: Any) -> None:
    """Other processes do not know that the run is over, until a record says so."""
    held = Lease.take(down := Down(files), "here")
    down.requests.add("create")
    with pytest.raises(OSError, match="does not answer"):
        held.release()
    down.requests.clear()
    assert held._over.wait(20)
    assert json.loads(files.read(f"lease/{files.names('lease')[-1]}"))["released"]


@pytest.mark.parametrize("request_", ["names", "delete"])
def test_a_starter_that_fails_after_its_first_record_keeps_nobody_out(files: Any, machines: Any, request_: str) -> None:
    Lease.take(files, "here").release()
    down = Down(files)
    with pytest.raises(OSError, match="does not answer"):
        Lease.take(HeldUp(down, lambda: down.requests.add(request_)), "here")
    assert json.loads(files.read(f"lease/{files.names('lease')[-1]}"))["released"]
    machines.taken.append(Lease.take(files, "here"))
    assert machines.taken[0].number == 3


def test_a_starter_whose_first_record_came_through_although_it_failed_keeps_nobody_out(files: Any, machines: Any) -> None:
    class Torn(HeldUp):
        def create(self, path: str, body: bytes) -> bool:
            self.files.create(path, body)
            raise OSError("the answer was lost")

    with pytest.raises(OSError, match="the answer was lost"):
        Lease.take(Torn(files, None), "here")
    machines.taken.append(Lease.take(files, "here"))
    assert machines.taken[0].number == 2


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="without /proc nothing tells a zombie from the living")
def test_a_run_that_was_killed_and_that_nobody_waited_for_is_dead(tmp_path: Path) -> None:
    """Its number and its start are there as long as its parent does not ask how it ended: under some container's first process, for ever."""
    program = "import time; from eventide.state.lease import Lease; from eventide.state.records import record_files as f"
    said = f"{program}; Lease.take(f({str(tmp_path)!r}), 'here'); print('held', flush=True); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", said], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None and holder.stdout.readline() == "held\n"
        with pytest.raises(StateInUse, match=f"in use by process {holder.pid}"):
            Lease.take(LocalFiles(str(tmp_path)), "here")
        holder.kill()
        os.waitid(os.P_PID, holder.pid, os.WEXITED | os.WNOWAIT)  # it has ended, and stays a zombie
        held = Lease.take(LocalFiles(str(tmp_path)), "here")
    assert held.number == 2
    held.release()


class Racer:
    def __init__(self, machine: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(HERE / "lease_racer.py"), machine], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )  # fmt: skip

    def say(self, *words: object) -> None:
        print(*words, file=self.process.stdin)

    def answer(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()


@pytest.mark.parametrize("kind", ["local", "objects"])
def test_of_starters_that_race_one_wins(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    root = str(tmp_path) if kind == "local" else request.getfixturevalue("lake")
    racers = [Racer(f"machine {number}") for number in range(3)]
    won = [0] * len(racers)
    try:
        for number in range(ROUNDS):
            moment = time.time() + (2 if number == 0 else 0.05)  # the first time they start Python
            for racer in racers:
                racer.say("take", root, moment)
            answers = [racer.answer() for racer in racers]
            assert sorted(answers) == ["lost", "lost", "won"], f"round {number}"
            won = [n + (answer == "won") for n, answer in zip(won, answers, strict=True)]
            for racer in racers:
                racer.say("release", root, 0)
                assert racer.answer() == "free"
    finally:
        for racer in racers:
            racer.process.kill()
    assert max(int(name[:8]) for name in record_files(root).names("lease")) == ROUNDS
    print(f"\n{ROUNDS} rounds, won by {won}")
