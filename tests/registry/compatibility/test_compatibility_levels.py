"""The seven levels, and the bounds that no schema can break."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from eventide.registry.compatibility import LEVELS, InvalidSchema, check, check_level, conflict, parse


def record(*fields: str, **defaults: int) -> Any:
    made: list[dict[str, Any]] = [{"name": name, "type": "int"} for name in fields]
    made += [{"name": name, "type": "int", "default": value} for name, value in defaults.items()]
    return parse("AVRO", json.dumps({"type": "record", "name": "R", "fields": made}))


@pytest.mark.parametrize(
    ("level", "allowed"),
    [
        ("NONE", True),
        ("BACKWARD", False),
        ("BACKWARD_TRANSITIVE", False),
        ("FORWARD", True),
        ("FORWARD_TRANSITIVE", True),
        ("FULL", False),
        ("FULL_TRANSITIVE", False),
    ],
)
def test_a_field_without_default_may_be_written_but_not_read(level: str, allowed: bool) -> None:
    assert level in LEVELS
    assert (check_level(level, record("a", "b"), [record("a")]) == []) == allowed


def test_only_transitive_levels_look_behind_the_latest() -> None:
    old = [record(), record(a=0)]
    assert check_level("BACKWARD", record("a"), old) == []
    where, reasons = conflict("BACKWARD_TRANSITIVE", record("a"), old)
    assert where is old[0] and [reason.kind for reason in reasons] == ["READER_FIELD_MISSING_DEFAULT_VALUE"]


def test_full_says_first_what_the_old_schema_cannot_read() -> None:
    assert [reason.reader for reason in check_level("FULL", record("a", "b"), [record("a", "c")])] == ["old", "new"]


def test_another_kind_of_schema_is_never_compatible() -> None:
    reasons = check_level("FULL", parse("JSON", "{}"), [record()])
    assert [reason.verbose for reason in reasons] == ["Incompatible because of different schema type"]


def test_unknown_levels_and_kinds_are_refused() -> None:
    with pytest.raises(ValueError, match="SIDEWAYS"):
        check_level("SIDEWAYS", record(), [])
    with pytest.raises(InvalidSchema, match=r"^Invalid schema type THRIFT$"):
        parse("THRIFT", "")


def chain(length: int, last: str) -> str:
    """A record that leads to a record that leads to ... as many as are given, without nesting in the text."""
    types: list[Any] = [{"type": "record", "name": "R0", "fields": [{"name": "v", "type": last}]}]
    for index in range(1, length):
        fields = [{"name": "a", "type": f"R{index - 1}"}, {"name": "b", "type": f"R{index - 1}"}]
        types.append({"type": "record", "name": f"R{index}", "fields": fields})
    return json.dumps(types)


def tangle(length: int, last: str) -> str:
    definitions: dict[str, Any] = {"d0": {"type": last}}
    for index in range(1, length):
        ref = {"$ref": f"#/definitions/d{index - 1}"}
        definitions[f"d{index}"] = {"type": "object", "properties": {"a": ref, "b": ref}}
    return json.dumps({"definitions": definitions, "$ref": f"#/definitions/d{length - 1}"})


def messages(length: int, last: str) -> str:
    text = f'syntax = "proto3"; message M0 {{ {last} v = 1; }}'
    return text + "".join(f" message M{i} {{ M{i - 1} a = 1; M{i - 1} b = 2; }}" for i in range(1, length))


@pytest.mark.parametrize(
    ("kind", "old", "new"),
    [
        ("AVRO", chain(300, "string"), chain(300, "int")),
        ("JSON", tangle(300, "string"), tangle(300, "integer")),
        ("PROTOBUF", messages(300, "string"), messages(300, "int32")),
    ],
)
def test_types_used_twice_by_types_used_twice_take_no_exponential_time(kind: str, old: str, new: str) -> None:
    started = time.process_time()
    reasons = check(parse(kind, new), parse(kind, old))
    assert 1 <= len(reasons) <= 500
    assert time.process_time() - started < 5


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("AVRO", "[" * 100_000),
        ("AVRO", '{"type":"array","items":' * 5_000 + '"int"' + "}" * 5_000),
        ("AVRO", '"int"' + " " * 10 + "]" * 10),
        ("JSON", '{"not":' * 50_000 + "{}" + "}" * 50_000),
        ("PROTOBUF", "message M {" * 20_000 + "}" * 20_000),
        ("PROTOBUF", "option a = " + "{b:" * 20_000),
    ],
)
def test_deep_nesting_is_refused_in_words(kind: str, text: str) -> None:
    started = time.process_time()
    with pytest.raises(InvalidSchema):
        parse(kind, text)
    assert time.process_time() - started < 5


def test_nesting_that_anyone_would_write_is_fine() -> None:
    deep = '{"type":"array","items":' * 200 + '"int"' + "}" * 200
    assert check(parse("AVRO", deep), parse("AVRO", deep)) == []
    nested = '{"type":"object","properties":{"a":' * 60 + "{}" + "}}" * 60
    assert check(parse("JSON", nested), parse("JSON", nested)) == []


def test_huge_unions_are_compared_in_bounded_time() -> None:
    branches = [{"type": "record", "name": f"R{i}", "fields": [{"name": "a", "type": "int"}]} for i in range(300)]
    one, other = (parse("AVRO", json.dumps(given)) for given in (branches, branches[::-1]))
    alternatives = [{"type": "object", "properties": {f"p{i}": {"type": "integer"}}} for i in range(1_000)]
    left, right = (parse("JSON", json.dumps({"oneOf": given})) for given in (alternatives, alternatives[1:]))
    started = time.process_time()
    assert check(one, other) == []
    assert [reason.kind for reason in check(right, left)] == ["SUM_TYPE_NARROWED"]
    assert time.process_time() - started < 10


def test_a_pattern_that_blows_up_does_not_hold_the_comparison() -> None:
    name = "a" * 40 + "!"
    old = {"type": "object", "patternProperties": {"^(a+)+$": {"type": "string"}}, "additionalProperties": False}
    new = {**old, "properties": {name: {"type": "string"}}}
    started = time.process_time()
    assert check(parse("JSON", json.dumps(new)), parse("JSON", json.dumps(old))) == []
    assert time.process_time() - started < 2


def test_a_thousand_versions_are_checked_in_a_blink() -> None:
    def version(extra: int) -> Any:
        fields: list[dict[str, Any]] = [{"name": f"f{i}", "type": "long", "default": 0} for i in range(20)]
        fields += [{"name": f"x{i}", "type": ["null", "string"], "default": None} for i in range(extra)]
        return parse("AVRO", json.dumps({"type": "record", "name": "R", "fields": fields}))

    versions = [version(i % 20) for i in range(1_000)]
    started = time.process_time()
    assert check_level("BACKWARD_TRANSITIVE", version(21), versions) == []
    assert time.process_time() - started < 0.5  # about 10 ms where nothing else runs
