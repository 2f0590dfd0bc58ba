"""SIGKILL before and after every write of every command: the state is that of before or of after, and the command can be repeated."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from eventide.migration.plan.policy import Policy
from eventide.migration.rollout.consumer import Shape
from eventide.migration.rollout.phase import Phase
from tests.migration.desk import CREATED_AT, RENAME, USER_ID, Desk, record

QUICK = Policy(hold_dual_write=0, drift_free=0, retention=0, backfill=True)

STEPS = {
    "plan": lambda r: r.plan("users", record(USER_ID, CREATED_AT), said=RENAME, policy=QUICK, name="m"),
    "confirm": lambda r: r.confirm("m"),
    "expand": lambda r: r.go("m", Phase.EXPAND),
    "backfilled": lambda r: r.backfilled("m", {"rows": 4}),
    "dual_write": lambda r: r.go("m", Phase.DUAL_WRITE),
    "drift": lambda r: r.report_drift("m", "p", 1, {"agree": 3, "differ": 0}, [{"kind": "differ"}]),
    "migrate": lambda r: r.go("m", Phase.MIGRATE),
    "declare": lambda r: r.declare("m", "billing", "", shape=Shape.EITHER),
    "selected": lambda r: r.selected("users", "billing", "", ["created_at"], None),
    "contract_ready": lambda r: r.go("m", Phase.CONTRACT_READY),
    "back": lambda r: r.go("m", Phase.EXPAND, withdraw=True),
    "contracted": lambda r: r.go("m", Phase.CONTRACTED, confirmation="m"),
}
ORDER = [step for step in STEPS if step != "back"]


def writes(statement: str) -> bool:
    return not statement.lstrip().upper().startswith("SELECT")


def state(desk: Desk) -> dict[str, list]:
    """Everything that is stored, but for when."""
    tables = ("migrations", "migration_consumers", "migration_drift", "migration_examples", "selections", "versions", "schemas")
    with desk.store.read() as session:
        rows = {name: sorted(map(tuple, session._run(f"SELECT * FROM {name}", ()))) for name in tables}
        rows["audit"] = [(line["action"], line["detail"]) for line in session.audit(limit=10_000)]
    return rows


def upto(desk: Desk, step: str) -> None:
    from tests.migration.desk import SIGNUP_DATE

    desk.register("users", record(USER_ID, SIGNUP_DATE))
    before = ORDER[: ORDER.index("contract_ready") + 1] if step == "back" else ORDER[: ORDER.index(step)]
    for each in before:
        desk.now += 1
        desk.do(STEPS[each])
    desk.now += 1


def main(path: str, step: str, now: int, kill_at: int) -> None:
    """Run one command and die at the n-th moment around a write; exits 0 if there were fewer."""
    desk = Desk(Path(path))
    desk.now = now
    seen = 0

    def dying(run):
        def work(statement, values):
            nonlocal seen
            if not writes(statement):
                return run(statement, values)
            seen += 1
            if seen == kill_at:
                os.kill(os.getpid(), 9)
            found = run(statement, values)
            seen += 1
            if seen == kill_at:
                os.kill(os.getpid(), 9)
            return found

        return work

    with desk.store.write() as session:
        session._run = dying(session._run)
        from eventide.migration.rollout.rollout import Author, Rollout

        STEPS[step](Rollout(desk.catalog(session), Author("ada", "test", "because")))
        seen += 1
        if seen == kill_at:
            os.kill(os.getpid(), 9)  # all is written, nothing is committed
    seen += 1
    if seen == kill_at:
        os.kill(os.getpid(), 9)  # committed, and nobody was told


def forked(path: Path, step: str, now: int, kill_at: int) -> int:
    """The command in a process of its own; gives its exit status, -9 if it was killed."""
    child = os.fork()
    if child == 0:
        try:
            main(str(path), step, now, kill_at)
        except BaseException:
            os._exit(3)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.parametrize("step", list(STEPS))
def test_a_command_killed_anywhere_is_done_or_not_done_and_can_be_repeated(step, swift_path):
    tmp_path = swift_path

    def copy(name: object) -> Path:
        return Path(shutil.copytree(tmp_path / "before", tmp_path / str(name)))

    (tmp_path / "before").mkdir()
    first = Desk(tmp_path / "before")
    upto(first, step)
    now, before = first.now, state(first)
    first.store.close()

    done = Desk(copy("after"))
    done.now = now
    done.do(STEPS[step])
    after = state(done)
    done.store.close()
    assert after != before

    most = 2 * _statements(copy("count"), step, now) + 3
    points = range(1, most + 1)
    for point in points:
        copy(point)
    exits = [forked(tmp_path / str(point), step, now, point) for point in points]
    assert exits == [-9] * (most - 1) + [0]

    outcomes = set()
    for point in points:
        desk = Desk(tmp_path / str(point))
        desk.now = now
        found = state(desk)
        assert found in (before, after), f"killed at {point}"
        outcomes.add("after" if found == after else "before")
        desk.do(STEPS[step])
        assert state(desk) == after, f"repeated after {point}"
        desk.do(STEPS[step])
        assert state(desk) == after, f"repeated twice after {point}"
        desk.store.close()
    assert outcomes == {"before", "after"}


def _statements(path: Path, step: str, now: int) -> int:
    desk = Desk(path)
    desk.now = now
    count = 0

    def counting(run):
        def work(statement, values):
            nonlocal count
            count += writes(statement)
            return run(statement, values)

        return work

    with desk.store.write() as session:
        session._run = counting(session._run)
        from eventide.migration.rollout.rollout import Author, Rollout

        STEPS[step](Rollout(desk.catalog(session), Author("ada", "test", "because")))
    desk.store.close()
    return count
