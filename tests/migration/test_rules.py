"""Migration rules in JSONata: those of the subject are run, and ours are written so that Confluent's clients can run them."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime

import polars as pl
import pytest

from eventide.migration import MigrationClient, RuleChain, RuleFailed, upcast
from eventide.migration.faults import PlanRefused
from eventide.migration.plan.jsonata_text import PRELUDE, jsonata
from eventide.migration.plan.pairing import Said
from eventide.migration.plan.planning import propose
from eventide.migration.plan.policy import Policy
from eventide.migration.plan.rule_set import contract_rules, expand_rules
from eventide.migration.plan.shape import Leaf
from eventide.registry.client import RegistryClient
from tests.migration.desk import CREATED_AT, FARE, PRICING, SIGNUP_DATE, USER_ID, record
from tests.migration.test_service import QUICK

STATE = {"name": "state", "type": "string", "default": ""}
STATUS = {"name": "status", "type": "string", "default": ""}
UP = '$merge([$sift($, function($v, $k) {$k != "state"}), {"status": state}])'
DOWN = '$merge([$sift($, function($v, $k) {$k != "status"}), {"state": status}])'


def rule(name: str, mode: str, expr: str, **more) -> dict:
    return {"name": name, "kind": "TRANSFORM", "mode": mode, "type": "JSONATA", "expr": expr, **more}


def evaluate(sql: str, row: dict, leaves: dict | None = None):
    expr = f'({PRELUDE}{{"x": $n({jsonata(sql, "x", leaves or {})})}})'
    return RuleChain((rule("t", "UPGRADE", expr),))(row)["x"]


INT, TEXT = Leaf("a", "long", "long"), Leaf("s", "string", "string")


@pytest.mark.parametrize(
    ("sql", "row", "answer"),
    [
        ("a + b * 2", {"a": 1, "b": 3}, 7),
        ("a + b", {"a": 1, "b": None}, None),
        ("a + b", {"a": 1}, None),
        ("COALESCE(a, b, 0)", {"a": None, "b": 5}, 5),
        ("COALESCE(a, 0) - p.tax", {"p": {"tax": 4}}, -4),
        ("a / 4", {"a": 10}, 2.5),
        ("-a", {"a": 3}, -3),
        ("CAST(s AS BIGINT)", {"s": "42"}, 42),
        ("CAST(s AS BIGINT)", {"s": "-4.9"}, -4),
        ("CAST(s AS BIGINT)", {"s": "many"}, None),
        ("TRY_CAST(s AS DOUBLE)", {"s": "1.5"}, 1.5),
        ("CAST(a AS STRING)", {"a": 7}, "7"),
        ("CAST(a AS STRING)", {"a": None}, None),
        ("CASE WHEN a > 2 THEN 'big' WHEN a IS NULL THEN 'none' ELSE 'small' END", {"a": 3}, "big"),
        ("CASE WHEN a > 2 THEN 'big' WHEN a IS NULL THEN 'none' ELSE 'small' END", {"a": None}, "none"),
        ("CASE s WHEN 'x' THEN 1 ELSE 2 END", {"s": "x"}, 1),
        ("CASE WHEN a <> 2 AND NOT s = 'y' THEN 1 END", {"a": 3, "s": "x"}, 1),
        ("CASE WHEN a <> 2 THEN 1 END", {"a": None}, None),
        ("SUBSTR(s, 2, 3)", {"s": "abcdef"}, "bcd"),
        ("CONCAT(s, '-', t)", {"s": "a", "t": "b"}, "a-b"),
        ("s || t", {"s": "a", "t": None}, None),
        ("UPPER(TRIM(s))", {"s": " a "}, "A"),
        ("'it''s'", {}, "it's"),
    ],
)
def test_an_expression_says_the_same_in_jsonata(sql, row, answer):
    assert evaluate(sql, row, {"a": INT, "s": TEXT}) == answer


@pytest.mark.parametrize(
    "sql", ["CAST(d AS STRING)", "HASH(a)", "CAST(a AS DATE)", "a IS TRUE", "SUBSTR(s, a)", "CAST(a AS BOOLEAN)"]
)
def test_what_has_no_one_answer_in_jsonata_is_refused(sql):
    with pytest.raises(PlanRefused, match="cannot be written as a migration rule"):
        jsonata(sql, "x", {"a": INT, "s": TEXT, "d": Leaf("d", "double", "double")})


def test_a_plan_with_rules_is_refused_where_an_expression_cannot_be_one():
    said = Said(forward={"b": "CAST(a AS STRING)"}, backward={"a": "CAST(b AS DOUBLE)"})
    fields = [{"name": "a", "type": "double"}], [{"name": "b", "type": "string"}]
    current, wanted_text = (record(USER_ID, *f) for f in fields)
    propose("AVRO", current, wanted_text, said=said)
    with pytest.raises(PlanRefused, match="leave the setting `rules` off"):
        propose("AVRO", current, wanted_text, said=said, policy=Policy(rules=True))


def test_our_rules_go_from_before_the_migration_to_after_it_and_back():
    plan = propose("AVRO", record(USER_ID, FARE), record(USER_ID, PRICING))
    up = RuleChain((*expand_rules(plan, "m"), contract_rules(plan, "m")[0]))
    down = RuleChain((contract_rules(plan, "m")[1],))
    old, new = {"user_id": 1, "fare_cents": 900}, {"user_id": 1, "pricing": {"base": 900, "surge": 0, "tax": 0}}
    assert up(old) == new
    for row in (old, {"user_id": 1, "fare_cents": None}):
        assert up(row) == upcast(row, plan)
    assert down(new)["fare_cents"] == 900
    # Later versions inherit the rules: a second time changes nothing.
    assert RuleChain((*up.rules, *up.rules))(old) == new
    own = {"user_id": 1, "fare_cents": 970, "pricing": {"base": 900, "surge": 0, "tax": 70}}
    assert RuleChain(tuple(expand_rules(plan, "m")))(own) == own


def test_our_rules_reach_into_a_group_that_stays():
    def address(*names):
        inner = {"type": "record", "name": "Address", "fields": [{"name": n, "type": "string"} for n in names]}
        return {"name": "address", "type": inner}

    plan = propose("AVRO", record(USER_ID, address("street", "zip")), record(USER_ID, address("street", "postcode")))
    up = RuleChain((*expand_rules(plan, "m"), contract_rules(plan, "m")[0]))
    assert up({"user_id": 1, "address": {"street": "a", "zip": "1"}}) == {
        "user_id": 1,
        "address": {"street": "a", "postcode": "1"},
    }
    down = RuleChain((contract_rules(plan, "m")[1],))
    assert down({"user_id": 1, "address": {"street": "a", "postcode": "1"}})["address"]["zip"] == "1"


def test_dates_and_moments_keep_their_types():
    plan = propose(
        "AVRO", record(USER_ID, SIGNUP_DATE), record(USER_ID, CREATED_AT), said=Said(renames={"signup_date": "created_at"})
    )
    rules = (*expand_rules(plan, "m"), contract_rules(plan, "m")[0])
    chain = RuleChain(rules, plan.leaves, plan.leaves)
    made = chain({"user_id": 1, "signup_date": date(2025, 9, 14)})
    assert made == {"user_id": 1, "created_at": datetime(2025, 9, 14, tzinfo=UTC)}
    frame = chain(pl.DataFrame({"user_id": [1, 2], "signup_date": [date(2025, 9, 14), None]}))
    assert frame.columns == ["user_id", "created_at"] and frame["created_at"].to_list() == [made["created_at"], None]


@pytest.fixture
def ruled(client):
    """A subject whose second version says how the first becomes it."""
    client.call("PUT", "/config/rides-value", {"compatibility": "NONE"})
    client.register("rides-value", record(USER_ID, STATE))
    body = {
        "schema": record(USER_ID, STATUS),
        "ruleSet": {"migrationRules": [rule("u", "UPGRADE", UP), rule("d", "DOWNGRADE", DOWN)]},
    }
    client.call("POST", "/subjects/rides-value/versions", body)
    return MigrationClient(client)


def test_the_rules_of_a_subject_are_run_by_upcast(ruled):
    up, down = ruled.rules("rides-value", writer=1), ruled.rules("rides-value", writer=2, reader=1)
    assert upcast([{"user_id": 1, "state": "new"}], up) == [{"user_id": 1, "status": "new"}]
    assert upcast({"user_id": 1, "status": "new"}, down) == {"user_id": 1, "state": "new"}
    assert upcast(pl.DataFrame({"user_id": [1], "state": ["a"]}), up).to_dicts() == [{"user_id": 1, "status": "a"}]
    assert ruled.rules("rides-value", writer=2).rules == ()
    with pytest.raises(ValueError, match="the rules lead to one version"):
        upcast([], up, to="old")


def test_a_rule_that_fails_or_that_cannot_be_run_is_named(ruled):
    with pytest.raises(RuleFailed, match=r"Rule 'bad' failed on record 1"):
        RuleChain((rule("bad", "UPGRADE", '{"x": $number(s)}'),))([{"s": "1"}, {"s": "x"}])
    forgiving = rule("bad", "UPGRADE", '{"x": $number(s)}', onFailure="NONE")
    assert RuleChain((forgiving,))([{"s": "x"}]) == [{"s": "x"}]
    with pytest.raises(RuleFailed, match="a record is an object"):
        RuleChain((rule("bad", "UPGRADE", "1"),))({"s": "1"})


def test_a_rule_cannot_hold_a_reader_up_for_ever():
    for expr in ('( $f := function($x){ $f($x + 1) }; {"x": $f(1)} )', '{"x": $contains(s, /^(x+x+)+y$/)}'):
        chain = RuleChain((rule("loop", "UPGRADE", expr, onFailure="NONE"),))
        assert chain({"s": "x" * 40}) in ({"s": "x" * 40}, {"x": False})


def test_confluents_own_client_reads_either_shape_by_our_rules(shell, client, tmp_path):
    from confluent_kafka.schema_registry import SchemaRegistryClient
    from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
    from confluent_kafka.schema_registry.rules.jsonata.jsonata_executor import JsonataExecutor
    from confluent_kafka.serialization import MessageField, SerializationContext

    JsonataExecutor.register()
    theirs = SchemaRegistryClient({"url": shell.url})
    context = SerializationContext("rides", MessageField.VALUE)

    def written(text: str, value: dict) -> bytes:
        return AvroSerializer(SchemaRegistryClient({"url": shell.url}), text)(value, context)

    old, new = record(USER_ID, FARE), record(USER_ID, PRICING)
    before = written(old, {"user_id": 1, "fare_cents": 900})
    (tmp_path / "new.avsc").write_text(new)
    shell("plan", "rides-value", str(tmp_path / "new.avsc"), "--name", "signup", "--set", "rules=true", *QUICK)
    shell("confirm", "signup", "--accept-guesses")
    shell("advance", "signup", "--to", "expand")
    both = client.latest("rides-value").text
    shell("advance", "signup", "--to", "dual_write")
    client.call("POST", "/eventide/v1/migrations/signup/drift", {"source": "p", "batch": 1, "agree": 1})
    for to in ("migrate", "contract_ready"):
        shell("advance", "signup", "--to", to)
    shell("contract", "signup", "--confirm", "signup")
    assert both != client.latest("rides-value").text
    latest = AvroDeserializer(theirs, conf={"use.latest.version": True})
    assert latest(before, context) == {"user_id": 1, "pricing": {"base": 900, "surge": 0, "tax": 0}}
    # And ours do the same with what is written there.
    with RegistryClient(shell.url) as ours:
        chain = MigrationClient(ours).rules("rides-value", writer=1)
    assert upcast({"user_id": 1, "fare_cents": 900}, chain) == latest(before, context)
    assert json.loads(both)["fields"][1]["name"] == "fare_cents"
