"""Every phase forward, every rollback, every refusal: the rollout without a service, at times of the test's choosing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from eventide.migration.faults import PlanRefused
from eventide.migration.plan.policy import DAY, HOUR, Policy
from eventide.migration.rollout.consumer import Shape
from eventide.migration.rollout.machine import Outcome
from eventide.migration.rollout.phase import Phase
from eventide.registry.faults import Fault
from tests.migration.desk import CREATED_AT, FARE, RENAME, SIGNUP_DATE, USER_ID, Desk, field_names, record

QUICK = Policy(hold_dual_write=0, drift_free=0, retention=0)
CLEAN = {"agree": 10}


def go(desk: Desk, to: str, **more):
    return desk.do(lambda r: r.go("m", Phase(to), **more))


def refused(desk: Desk, to: str, **more) -> str:
    with pytest.raises(Fault) as error:
        go(desk, to, **more)
    assert error.value.status == 409
    return error.value.message


def drift(desk: Desk, batch: int, **counts) -> bool:
    return desk.do(lambda r: r.report_drift("m", "pipeline", batch, counts or CLEAN, []))


def declare(desk: Desk, name: str, shape: str, **more):
    return desk.do(lambda r: r.declare("m", name, "", shape=Shape(shape), **more))


def reads(desk: Desk, name: str, *paths: str) -> None:
    desk.do(lambda r: r.selected("users", name, "", paths, None))


def to_dual_write(desk: Desk, policy: Policy = QUICK) -> None:
    desk.planned(policy=policy)
    go(desk, "expand")
    go(desk, "dual_write")


def to_migrate(desk: Desk, policy: Policy = QUICK) -> None:
    to_dual_write(desk, policy)
    drift(desk, 1)
    go(desk, "migrate")


def test_every_phase_forward(desk):
    to_migrate(desk)
    declare(desk, "billing", "old")
    assert "billing (reads the old shape)" in refused(desk, "contract_ready")
    declare(desk, "billing", "new")
    assert "not seen doing so since" in refused(desk, "contract_ready")
    desk.now += 1
    reads(desk, "billing", "created_at")
    go(desk, "contract_ready")
    assert "cannot be undone" in refused(desk, "contracted")
    go(desk, "contracted", confirmation="m")
    assert field_names(desk.latest("users")) == ["user_id", "created_at"]
    moves = [line["detail"]["to"] for line in desk.audit() if line["action"] == "move_migration"]
    assert moves == ["expand", "dual_write", "migrate", "contract_ready", "contracted"]
    assert all((line["who"], line["reason"]) == ("ada", "because") for line in desk.audit() if "migration" in line["action"])


def test_expanding_registers_both_shapes_and_guards_them(desk):
    desk.planned()
    with pytest.raises(Fault, match="drops signup_date, the old shape of migration 'm', which is in plan"):
        desk.register("users", record(USER_ID, {**CREATED_AT, "type": ["null", "long"], "default": None}))
    go(desk, "expand")
    assert field_names(desk.latest("users")) == ["user_id", "signup_date", "created_at"]
    both = desk.latest("users")["fields"]
    with pytest.raises(Fault, match="drops signup_date"):
        desk.register("users", record(both[0], both[2]))
    with pytest.raises(Fault, match="drops created_at, the new shape"):
        desk.register("users", record(both[0], both[1], {"name": "z", "type": "int", "default": 0}))
    with pytest.raises(Fault, match="Only additions are accepted"):
        desk.register("users", record(both[1], both[2]))
    desk.register("users", record(*both, {"name": "z", "type": "int", "default": 0}))
    go(desk, "aborted")
    desk.register("users", record(USER_ID))


def test_a_version_of_an_open_migration_cannot_be_deleted(desk):
    from eventide.registry.deletion import delete_subject, delete_version

    desk.planned()
    go(desk, "expand")
    for remove in (
        lambda catalog: delete_version(catalog, "users", 1, permanent=False),
        lambda catalog: delete_version(catalog, "users", 2, permanent=False),
        lambda catalog: delete_subject(catalog, "users", permanent=False),
    ):
        with pytest.raises(Fault, match="belongs to migration 'm', which is in expand"), desk.store.write() as session:
            remove(desk.catalog(session))


def test_an_expanded_schema_that_the_level_refuses_stays_a_plan(desk):
    desk.planned()
    with desk.store.write() as session:
        session.put_config("users", {"compatibilityLevel": "FORWARD_TRANSITIVE"})
    go(desk, "expand")  # additions pass every level
    go(desk, "dual_write")
    drift(desk, 1)
    go(desk, "migrate")
    assert "the contracted schema does not pass" in refused(desk, "contract_ready")


def test_a_guess_must_be_accepted_in_so_many_words(desk):
    desk.register("users", record(USER_ID, SIGNUP_DATE))
    desk.do(lambda r: r.plan("users", record(USER_ID, CREATED_AT), said=replace(RENAME, renames={}), policy=QUICK, name="m"))
    assert "the plan is not confirmed; its expressions for rename signup_date -> created_at are a guess" in refused(
        desk, "expand"
    )
    with pytest.raises(Fault, match="--accept-guesses"):
        desk.do(lambda r: r.confirm("m"))
    desk.do(lambda r: r.confirm("m", accept_guesses=True))
    go(desk, "expand")


@pytest.mark.parametrize("far", ["expand", "dual_write", "migrate", "contract_ready"])
@pytest.mark.parametrize("back", ["plan", "expand", "dual_write", "migrate"])
def test_every_rollback_and_forward_again(desk, far, back):
    order = ["plan", "expand", "dual_write", "migrate", "contract_ready"]
    desk.planned(policy=QUICK)
    for step in order[1 : order.index(far) + 1]:
        if step == "migrate":
            drift(desk, 1)
        go(desk, step)
    if order.index(back) >= order.index(far):
        return
    assert go(desk, back).outcome is Outcome.MOVES
    assert "signup_date" in field_names(desk.latest("users"))
    desk.now += 1
    for batch, step in enumerate(order[order.index(back) + 1 :], start=2):
        if step == "migrate":
            drift(desk, batch)
        go(desk, step)
    go(desk, "contracted", confirmation="m")


def test_a_rollback_waits_for_consumers_that_read_only_the_new_shape(desk):
    to_migrate(desk)
    declare(desk, "billing", "new")
    declare(desk, "growth", "either")
    for target in ("expand", "plan", "aborted"):
        assert "1 consumer read only the new shape: billing" in refused(desk, target)
    go(desk, "dual_write")
    declare(desk, "billing", "old")
    go(desk, "aborted")
    assert "is aborted and stays so" in refused(desk, "plan")


def test_withdrawing_the_expanded_version_brings_the_old_one_back(desk):
    desk.planned()
    go(desk, "expand")
    go(desk, "plan", withdraw=True)
    assert field_names(desk.latest("users")) == ["user_id", "signup_date"]
    go(desk, "expand")
    assert field_names(desk.latest("users")) == ["user_id", "signup_date", "created_at"]


def test_skipping_a_phase_is_refused_with_the_next_one(desk):
    desk.planned()
    assert "from plan the next phase is expand, not contracted: `eventide migrate advance m --to expand`" in refused(
        desk, "contracted"
    )


def test_going_where_it_is_already_changes_nothing(desk):
    to_migrate(desk)
    before = (desk.do(lambda r: r.find("m")), len(desk.audit()))
    desk.now += HOUR
    assert go(desk, "migrate").outcome is Outcome.ALREADY
    desk.do(lambda r: r.confirm("m"))
    declare(desk, "billing", "old")
    desk.now += 1
    declare(desk, "billing", "old")
    assert not drift(desk, 1)
    assert (desk.do(lambda r: r.find("m")), len(desk.audit())) == (before[0], before[1] + 1)


def test_the_holds_are_held(desk):
    to_dual_write(desk, Policy(hold_expand=0, hold_dual_write=DAY, drift_free=HOUR, retention=2 * DAY))
    drift(desk, 1)
    go(desk, "migrate")
    message = refused(desk, "contract_ready")
    assert "0 seconds of 1 days" in message and "clean for 0 seconds of 1 hours" in message and "kept until" in message
    desk.now += 2 * DAY
    drift(desk, 2)
    go(desk, "contract_ready")


def test_drift_within_the_budget_lets_consumers_move_but_not_the_old_shape_go(desk):
    to_dual_write(desk, replace(QUICK, budget=0.01, drift_free=HOUR))
    drift(desk, 1, agree=98, differ=2)
    assert "2 of 100 events drift (old only 0, new only 0, differ 2); the budget is 1.0000%" in refused(desk, "migrate")
    drift(desk, 2, agree=900)
    go(desk, "migrate")
    assert "last drift at" in refused(desk, "contract_ready")
    desk.now += HOUR
    assert "Keep the drift check running" in refused(desk, "contract_ready")  # nobody has looked since
    drift(desk, 3, agree=1)
    go(desk, "contract_ready")


def test_a_batch_is_counted_once_and_a_new_dual_write_counts_anew(desk):
    to_dual_write(desk)
    assert drift(desk, 7, agree=5, differ=1)
    assert not drift(desk, 7, agree=5, differ=1)
    assert not drift(desk, 6, agree=5)
    counts = desk.do(lambda r: r.tables.drift("m"))[0]
    assert (counts.checked, counts.differ) == (6, 1)
    go(desk, "expand")
    go(desk, "dual_write")
    assert desk.do(lambda r: r.tables.drift("m"))[0].checked == 0


def test_events_from_before_the_dual_write_that_are_read_late_are_no_drift(desk):
    to_dual_write(desk)
    counts = {"agree": 3, "old_only": 4}
    desk.do(lambda r: r.report_drift("m", "p", 1, counts, [{"kind": "old_only"}], until=desk.now - 1))
    found = desk.do(lambda r: (r.tables.drift("m")[0], r.tables.examples("m")))
    assert (found[0].checked, found[0].drifted, found[1]) == (3, 0, [])
    desk.do(lambda r: r.report_drift("m", "p", 2, counts, [{"kind": "old_only"}], until=desk.now))
    assert desk.do(lambda r: r.tables.drift("m"))[0].old_only == 4


def test_records_of_the_old_shape_within_retention_hold_the_contract(desk):
    to_migrate(desk, replace(QUICK, retention=DAY))
    assert "records in the old shape are kept until" in refused(desk, "contract_ready")
    desk.do(lambda r: r.report_drift("m", "scan", 1, {"agree": 5, "old_only": 1}, [], everything=True))
    assert "drift" in refused(desk, "contract_ready")
    desk.now += 1
    desk.do(lambda r: r.report_drift("m", "scan", 2, {"agree": 5}, [], everything=True))
    go(desk, "contract_ready")


def test_an_upcaster_or_time_opens_the_retention_gate(desk):
    to_migrate(desk, replace(QUICK, retention=None))
    assert "kept for ever" in refused(desk, "contract_ready")
    desk.do(lambda r: r.edit("m", {}, {}, {"upcaster": True}))
    go(desk, "contract_ready")


def test_a_decoded_old_record_after_retention_shuts_the_gate_again(desk):
    to_migrate(desk, replace(QUICK, retention=HOUR, idle_after=HOUR))
    old_id = desk.do(lambda r: r.find("m")).old_ids[0]
    desk.now += 2 * HOUR
    desk.usage("replayer", old_id)
    desk.do(lambda r: r.declare("m", "replayer", "", shape=Shape.EITHER))
    desk.now += 1
    desk.usage("replayer", old_id)
    drift(desk, 2)
    assert "yet a record in the old shape was decoded" in refused(desk, "contract_ready")


def test_backfill_is_waited_for_where_the_plan_asks_for_it(desk):
    desk.planned(policy=replace(QUICK, backfill=True))
    go(desk, "expand")
    assert "history has not been filled yet" in refused(desk, "dual_write")
    desk.do(lambda r: r.backfilled("m", {"rows": 3}))
    go(desk, "dual_write")


def test_versions_with_the_new_shape_are_not_taken_for_old_ones_when_it_expands_again(desk):
    desk.planned()
    go(desk, "expand")
    both = desk.latest("users")["fields"]
    newer = desk.register("users", record(*both, {"name": "z", "type": "int", "default": 0}))
    go(desk, "plan")
    go(desk, "expand")
    assert desk.do(lambda r: r.find("m")).old_ids == (1,) and newer not in desk.do(lambda r: r.find("m")).old_ids


def test_a_span_needs_a_unit():
    assert Policy.given({"retention": "2 days", "hold_expand": 0}).retention == 2 * DAY
    with pytest.raises(PlanRefused, match="retention is 7; give it as text with a unit"):
        Policy.given({"retention": 7})


def test_two_migrations_of_one_subject_do_not_disturb_each_other(desk):
    desk.register("users", record(USER_ID, SIGNUP_DATE, FARE))
    amount = {"name": "amount", "type": "long"}
    desk.do(lambda r: r.plan("users", record(USER_ID, CREATED_AT, FARE), said=RENAME, policy=QUICK, name="m"))
    desk.do(lambda r: r.confirm("m"))
    go(desk, "expand")
    said = replace(RENAME, renames={"fare_cents": "amount"})
    desk.do(lambda r: r.plan("users", record(USER_ID, SIGNUP_DATE, amount), said=said, policy=QUICK, name="n"))
    desk.do(lambda r: r.confirm("n"))
    desk.do(lambda r: r.go("n", Phase.EXPAND))
    assert field_names(desk.latest("users")) == ["user_id", "signup_date", "fare_cents", "created_at", "amount"]
    go(desk, "dual_write")
    drift(desk, 1)
    go(desk, "migrate")
    go(desk, "contract_ready")
    go(desk, "contracted", confirmation="m")
    assert field_names(desk.latest("users")) == ["user_id", "fare_cents", "created_at", "amount"]


def test_migrations_over_the_same_field_conflict(desk):
    desk.planned()
    said = replace(RENAME, renames={"signup_date": "joined"})
    joined = {"name": "joined", "type": {"type": "int", "logicalType": "date"}}
    desk.now += 1
    desk.do(lambda r: r.plan("users", record(USER_ID, joined), said=said, policy=QUICK, name="n"))
    desk.do(lambda r: r.confirm("n"))
    assert desk.do(lambda r: r.judge("m", Phase.EXPAND)).outcome is Outcome.MOVES  # the first does not wait for the second
    with pytest.raises(Fault, match=r"conflicts with m \(in plan, over signup_date\)"):
        desk.do(lambda r: r.go("n", Phase.EXPAND))
    go(desk, "aborted")
    desk.do(lambda r: r.go("n", Phase.EXPAND))
