"""Words and deeds of consumers: who blocks the contract, and why."""

from __future__ import annotations

import pytest

from eventide.migration.plan.plan import Plan
from eventide.migration.plan.policy import DAY, HOUR, Policy
from eventide.migration.rollout.consumer import Consumer, Seen, Shape, State, standing
from eventide.migration.rollout.facts import Facts
from eventide.migration.rollout.gathering import standings
from eventide.migration.rollout.migration import Migration
from eventide.migration.rollout.timeline import estimate
from eventide.registry.faults import Fault
from tests.migration.test_phases import QUICK, declare, go, reads, refused, to_migrate

POLICY = Policy(idle_after=10, expire_after=None)


@pytest.mark.parametrize(
    ("consumer", "seen", "state", "blocks"),
    [
        (Consumer("c", shape=Shape.OLD, declared_at=95), Seen(), State.WAITING, True),
        (Consumer("c", shape=Shape.OLD, declared_at=50), Seen(), State.STALE, True),
        (Consumer("c", shape=Shape.NEW, declared_at=95), Seen(), State.UNCONFIRMED, True),
        (Consumer("c", shape=Shape.NEW, declared_at=95), Seen(94, None, 94), State.UNCONFIRMED, True),
        (Consumer("c", shape=Shape.NEW, declared_at=95), Seen(97, None, 97), State.MOVED, False),
        (Consumer("c", shape=Shape.NEW, declared_at=95), Seen(97, 97, 97), State.CONTRADICTED, True),
        (Consumer("c", shape=Shape.NEW, declared_at=95), Seen(95, 95, None), State.CONTRADICTED, True),
        (Consumer("c", shape=Shape.EITHER, declared_at=95), Seen(97, 97, None), State.MOVED, False),
        (Consumer("c", shape=Shape.OLD, declared_at=1, exempt_until=200, exempted_at=90), Seen(80, 80), State.EXEMPT, False),
        (
            Consumer("c", shape=Shape.OLD, declared_at=1, exempt_until=200, exempted_at=90),
            Seen(92, 92),
            State.CONTRADICTED,
            True,
        ),
        (Consumer("c", shape=Shape.OLD, declared_at=95, exempt_until=99, exempted_at=90), Seen(96, None), State.WAITING, True),
        (Consumer("c", shape=Shape.OLD, declared_at=1, expired_at=90), Seen(80, 80), State.EXPIRED, False),
        (Consumer("c", shape=Shape.OLD, declared_at=1, expired_at=90), Seen(95, 95), State.WAITING, True),
    ],
)
def test_where_words_and_deeds_differ_the_deeds_count(consumer, seen, state, blocks):
    judged = standing(consumer, seen, 100, POLICY)
    assert (judged.state, judged.blocks) == (state, blocks), judged.why


def test_a_consumer_that_was_silent_for_long_enough_expires_by_itself():
    policy = Policy(idle_after=10, expire_after=50)
    assert standing(Consumer("c", declared_at=60), Seen(), 100, policy).state is State.STALE
    assert standing(Consumer("c", declared_at=60), Seen(), 110, policy).state is State.EXPIRED


def test_a_reader_that_nobody_declared_blocks(desk):
    to_migrate(desk)
    desk.now += 1
    desk.usage("nightly-report", desk.do(lambda r: r.find("m")).expanded_id)
    assert "nightly-report (nobody declared it" in refused(desk, "contract_ready")
    declare(desk, "nightly-report", "new")
    desk.now += 1
    desk.usage("nightly-report", desk.do(lambda r: r.find("m")).expanded_id)
    go(desk, "contract_ready")


def test_one_that_says_its_columns_is_not_confirmed_by_decoding_alone(desk):
    to_migrate(desk)
    declare(desk, "billing", "new")
    desk.now += 1
    reads(desk, "billing", "user_id")
    desk.usage("billing", desk.do(lambda r: r.find("m")).expanded_id)
    assert "not seen doing so since" in refused(desk, "contract_ready")
    reads(desk, "billing", "created_at")
    go(desk, "contract_ready")


def test_select_star_reads_the_old_shape(desk):
    to_migrate(desk)
    declare(desk, "billing", "new")
    desk.now += 1
    reads(desk, "billing", "*")
    assert "but read the old shape" in refused(desk, "contract_ready")


def test_a_consumer_that_went_back_blocks_a_migration_that_was_ready(desk):
    to_migrate(desk)
    declare(desk, "billing", "new")
    desk.now += 1
    reads(desk, "billing", "created_at")
    go(desk, "contract_ready")
    desk.now += 1
    reads(desk, "billing", "signup_date")
    assert "but read the old shape" in refused(desk, "contracted", confirmation="m")
    desk.now += 1
    declare(desk, "billing", "new")  # said again, so it counts again; and must be seen again
    assert "not seen doing so since" in refused(desk, "contracted", confirmation="m")
    desk.now += 1
    reads(desk, "billing", "created_at")
    go(desk, "contracted", confirmation="m")


def test_the_new_shape_cannot_be_declared_before_it_is_there_but_the_adapter_can(desk):
    desk.planned(policy=QUICK)
    with pytest.raises(Fault, match="not every event has the new shape yet"):
        declare(desk, "billing", "new")
    declare(desk, "billing", "either")
    declare(desk, "growth", "old")


def test_exemptions_need_a_reason_and_an_end(desk):
    to_migrate(desk)
    declare(desk, "legacy", "old")
    with pytest.raises(Fault, match="needs a reason"):
        desk.do(lambda r: r.exempt("m", "legacy", "", until=desk.now + HOUR, reason=" "))
    with pytest.raises(Fault, match="must end in the future, and 1970"):
        desk.do(lambda r: r.exempt("m", "legacy", "", until=desk.now, reason="x"))
    desk.do(lambda r: r.exempt("m", "legacy", "", until=desk.now + HOUR, reason="reads a copy"))
    go(desk, "contract_ready")
    desk.now += 2 * HOUR
    assert "legacy (reads the old shape" in refused(desk, "contracted", confirmation="m")


def test_one_that_was_just_seen_is_not_gone(desk):
    to_migrate(desk)
    declare(desk, "legacy", "old")
    reads(desk, "legacy", "signup_date")
    with pytest.raises(Fault, match="so it is not gone"):
        desk.do(lambda r: r.expire("m", "legacy", ""))
    desk.now += 15 * DAY
    desk.do(lambda r: r.report_drift("m", "pipeline", 2, {"agree": 1}, []))
    assert "not seen for 15 days" in refused(desk, "contract_ready")
    desk.do(lambda r: r.expire("m", "legacy", ""))
    go(desk, "contract_ready")
    desk.now += 1
    reads(desk, "legacy", "signup_date")
    assert "legacy" in refused(desk, "contracted", confirmation="m")


def test_a_reader_that_nobody_declared_is_expired_with_a_reason_and_counts_again_once_it_is_seen(desk):
    to_migrate(desk)
    reads(desk, "notebook", "signup_date")
    assert "notebook (nobody declared it" in refused(desk, "contract_ready")
    desk.now += HOUR
    with pytest.raises(Fault, match=r"notebook was seen 1 hours ago, so it is not gone\..*--because"):
        desk.do(lambda r: r.expire("m", "notebook", ""))
    desk.do(lambda r: r.expire("m", "notebook", "", reason="a question asked once"))
    (found,) = desk.do(lambda r: standings(r.catalog, r.find("m")))
    assert (found.state, found.blocks) == (State.EXPIRED, False) and "a question asked once" in found.why
    assert [x["detail"]["expire_reason"] for x in desk.audit() if x["action"] == "expire_consumer"] == ["a question asked once"]
    go(desk, "contract_ready")
    desk.now += 1
    reads(desk, "notebook", "signup_date")
    assert "notebook" in refused(desk, "contracted", confirmation="m")
    declare(desk, "notebook", "old", owner="ada")
    (found,) = desk.do(lambda r: standings(r.catalog, r.find("m")))
    assert (found.state, found.consumer.declared_at) == (State.WAITING, desk.now)


def test_one_that_was_seen_lately_is_expired_only_with_a_reason(desk):
    to_migrate(desk)
    declare(desk, "legacy", "old")
    reads(desk, "legacy", "signup_date")
    desk.now += 1
    desk.do(lambda r: r.expire("m", "legacy", "", reason="switched off today"))
    go(desk, "contract_ready")


def test_one_that_was_neither_declared_nor_seen_cannot_be_expired(desk):
    to_migrate(desk)
    with pytest.raises(Fault, match="'ghost' in '' was neither declared nor seen"):
        desk.do(lambda r: r.expire("m", "ghost", "", reason="x"))


def migration(**more) -> Migration:
    return Migration(
        "m", "s", Plan("AVRO", (), (), (), policy=Policy(hold_dual_write=0, drift_free=0, upcaster=True)), 0, **more
    )


def judged(*consumers):
    return tuple(standing(c, s, 100 * DAY, Policy(idle_after=1000 * DAY)) for c, s in consumers)


def test_the_estimate_goes_by_the_pace_of_those_that_moved():
    moved = [(Consumer(f"a{i}", shape=Shape.NEW, declared_at=95 * DAY), Seen(99 * DAY, None, 99 * DAY)) for i in range(10)]
    waiting = [(Consumer(f"b{i}", declared_at=95 * DAY), Seen()) for i in range(33)]
    found = estimate(migration(both_since=90 * DAY), Facts(standings=judged(*moved, *waiting)), 100 * DAY)
    assert found.likely == 100 * DAY + 33 * DAY  # ten in ten days
    assert "33 of 43 consumers have not moved" in found.basis


def test_the_estimate_doubles_what_the_slowest_expects():
    waiting = [(Consumer(f"b{i}", declared_at=95 * DAY, expected_by=(100 + i) * DAY), Seen()) for i in range(8)]
    found = estimate(migration(both_since=90 * DAY), Facts(standings=judged(*waiting)), 100 * DAY)
    assert (found.earliest, found.likely) == (107 * DAY, 114 * DAY)


def test_the_estimate_does_not_pretend_to_know():
    found = estimate(
        migration(both_since=90 * DAY), Facts(standings=judged((Consumer("b", declared_at=95 * DAY), Seen()))), 100 * DAY
    )
    assert found.likely is None and "none has moved yet" in found.basis
