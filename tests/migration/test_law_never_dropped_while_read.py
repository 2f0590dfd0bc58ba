"""Whatever is done in whatever order: the old shape is never dropped while a consumer reads it, and what is repeated changes nothing.

The test keeps its own books: who said what last, who was last seen reading what, who was excused when. They are kept in another way
than the machine keeps its own, so that both would have to be wrong in the same way.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from eventide.migration.plan.policy import Policy
from eventide.migration.rollout.consumer import Shape
from eventide.migration.rollout.machine import Outcome
from eventide.migration.rollout.phase import Phase
from eventide.registry.faults import Fault
from tests.migration.desk import CREATED_AT, USER_ID, Desk, field_names, record
from tests.migration.test_crash import state

NAMES = st.sampled_from(["billing", "growth", "fraud"])
IDLE = 40
EDGES = {
    ("plan", "expand"), ("expand", "dual_write"), ("dual_write", "migrate"), ("migrate", "contract_ready"),
    ("contract_ready", "contracted"),
}  # fmt: skip
ORDER = ["plan", "expand", "dual_write", "migrate", "contract_ready"]


class Rolling(RuleBasedStateMachine):
    """Random commands, most of them at the wrong time."""

    @initialize(hold=st.sampled_from([0, 20]), retention=st.sampled_from([0, 30]))
    def plan(self, hold, retention):
        self.home = Path(tempfile.mkdtemp(dir="/dev/shm" if Path("/dev/shm").is_dir() else None))
        self.desk = Desk(self.home)
        policy = Policy(hold_dual_write=hold, drift_free=0, retention=retention, idle_after=IDLE)
        self.desk.planned(policy=policy)
        self.phase, self.batch = "plan", 0
        self.said: dict[str, tuple[str, int]] = {}
        self.reads: dict[str, list[int]] = {}
        self.excused: dict[str, list[tuple[str, int, int]]] = {}

    def teardown(self):
        if hasattr(self, "desk"):
            self.desk.store.close()
            shutil.rmtree(self.home)

    def attempt(self, work, *, moment: bool = False):
        """Do it, or hear a reason; nothing else may come of it. Done twice it is as if done once.

        `moment`: what is told is that something happened now, so that telling it later tells something else.
        """
        self.desk.now += 1
        before = state(self.desk)
        try:
            found = self.desk.do(work)
        except Fault as fault:
            assert fault.status in (409, 422) and len(fault.message) > 20
            assert state(self.desk) == before
            return None
        if not moment:
            after, now = state(self.desk), self.desk.now
            if not self.an_exemption_ends_at(now + 1):  # then there would be something new to say
                self.desk.now += 1
            self.desk.do(work)
            assert state(self.desk) == after
            self.desk.now = now
        return found

    def an_exemption_ends_at(self, now):
        return any(until == now for excuses in self.excused.values() for _, _, until in excuses)

    @rule(to=st.sampled_from(list(Phase)), sure=st.booleans(), seriously=st.integers(0, 9))
    def anywhere(self, to, sure, seriously):
        if to is not Phase.ABORTED or seriously == 0:  # an aborted migration has nothing more to tell
            self.go(to, sure)

    def go(self, to, sure):
        before = self.phase
        verdict = self.attempt(lambda r: r.go("m", to, confirmation="m" if sure else None))
        if verdict is None or verdict.outcome is Outcome.ALREADY:
            return
        self.phase = to.value
        back = to is Phase.ABORTED or (to.value in ORDER and ORDER.index(to.value) < ORDER.index(before))
        assert (before, to.value) in EDGES or back
        if to is Phase.CONTRACTED:
            self.check_contract(sure)

    @rule(withdraw=st.booleans())
    def go_back(self, withdraw):
        """One step back, so that every phase is left both ways."""
        if self.phase in ORDER[1:]:
            to = Phase(ORDER[ORDER.index(self.phase) - 1])
            if self.attempt(lambda r: r.go("m", to, withdraw=withdraw)) is not None:
                self.phase = to.value

    @rule()
    def next_phase(self):
        """The straight way, so that the far phases are reached often."""
        if self.phase in ORDER[:4]:
            if self.phase == "dual_write":
                self.drift(False)
            self.go(Phase(ORDER[ORDER.index(self.phase) + 1]), True)
        elif self.phase == "contract_ready":
            self.go(Phase.CONTRACTED, True)

    @rule(patience=st.sampled_from([1, 35]), willing=st.sets(NAMES))
    def straight_on(self, patience, willing):
        """All the way to the contract, with every gate open but the consumers': only they can be in the way."""
        for name in sorted(willing & {*self.said, *self.reads}):
            self.move(name)
        while self.phase in ORDER:
            before = self.phase
            self.desk.now += patience
            self.drift(False)
            self.scan_everything()
            self.next_phase()
            if self.phase == before:
                break

    def move(self, name):
        """A consumer as it should be: it says so, and is seen doing so."""
        self.declare(name, Shape.NEW)
        self.read(name, "created_at")

    def check_contract(self, sure):
        assert sure
        now = self.desk.now
        for name in {*self.said, *self.reads}:
            shape, since = self.said.get(name, ("old", 0))
            read = max(self.reads.get(name, [-1]))
            pardons = [(kind, at) for kind, at, until in self.excused.get(name, []) if now < until]
            if shape == "either":
                continue
            if shape == "new":
                assert read < since or any(read < at for _, at in pardons), (
                    f"{name} moved at {since} and read the old shape at {read}"
                )
            else:
                gone_quiet = name not in self.said and read + IDLE <= now
                assert gone_quiet or any(read < at for _, at in pardons), (
                    f"{name} reads the old shape, last at {read}, now {now}"
                )

    @rule(name=NAMES, shape=st.sampled_from(list(Shape)))
    def declare(self, name, shape):
        if self.attempt(lambda r: r.declare("m", name, "", shape=shape)) is not None:
            # Words count from when they are first said; after a read of the old shape they count from when they are said again.
            last_shape, since = self.said.get(name, ("", 0))
            repeated = last_shape == shape.value and (shape is not Shape.NEW or max(self.reads.get(name, [-1])) < since)
            self.said[name] = (shape.value, since if repeated else self.desk.now)

    @rule(name=NAMES, path=st.sampled_from(["signup_date", "created_at", "user_id", "*"]))
    def read(self, name, path):
        if self.phase == "contracted" and path != "created_at":
            return  # there is nothing left to read
        self.attempt(lambda r: r.selected("users", name, "", [path], None), moment=True)
        if path in ("signup_date", "*"):
            self.reads.setdefault(name, []).append(self.desk.now)

    @rule(name=NAMES, span=st.integers(2, 60))
    def exempt(self, name, span):
        until = self.desk.now + 1 + span
        if self.attempt(lambda r: r.exempt("m", name, "", until=until, reason="a copy")) is not None:
            mine = [e for e in self.excused.get(name, []) if e[0] != "exempt"]
            self.excused[name] = [*mine, ("exempt", self.desk.now, until)]

    @rule(name=NAMES)
    def expire(self, name):
        if self.attempt(lambda r: r.expire("m", name, "")) is not None:
            self.excused.setdefault(name, []).append(("expire", self.desk.now, 2**62))

    @rule(dirty=st.booleans())
    def drift(self, dirty):
        self.batch += 1
        self.attempt(lambda r: r.report_drift("m", "p", self.batch, {"agree": 9, "differ": int(dirty)}, []))

    @rule()
    def scan_everything(self):
        self.batch += 1
        self.attempt(lambda r: r.report_drift("m", "p", self.batch, {"agree": 9}, [], everything=True))

    @rule(span=st.integers(1, 50))
    def wait(self, span):
        self.desk.now += span

    @rule()
    def register_the_contracted_shape_by_accident(self):
        optional = {**CREATED_AT, "type": ["null", CREATED_AT["type"]], "default": None}
        try:
            self.desk.register("users", record(USER_ID, optional))
        except Fault as fault:
            assert "signup_date" in fault.message
            assert self.phase not in ("contracted", "aborted")
        else:
            assert self.phase in ("contracted", "aborted")

    @invariant()
    def the_old_shape_is_there_until_the_contract(self):
        if hasattr(self, "desk") and self.phase not in ("contracted", "aborted"):
            assert "signup_date" in field_names(self.desk.latest("users"))


TestRolling = Rolling.TestCase
TestRolling.settings = settings(max_examples=60, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck))
