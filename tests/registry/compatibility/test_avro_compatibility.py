"""Avro: every pair of types, judged as Java's SchemaCompatibility judges it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from eventide.registry.compatibility import check, check_level, parse


def avro(schema: Any) -> Any:
    return parse("AVRO", json.dumps(schema), strict=False)


def record(*fields: Any, name: str = "R", **more: Any) -> dict[str, Any]:
    made = [{"name": field, "type": "int"} if isinstance(field, str) else field for field in fields]
    return {"type": "record", "name": name, "fields": made, **more}


def enum(*symbols: str, **more: Any) -> dict[str, Any]:
    return {"type": "enum", "name": "E", "symbols": list(symbols), **more}


def kinds(reader: Any, writer: Any) -> list[tuple[str, str]]:
    return [(reason.kind, reason.path) for reason in check(avro(reader), avro(writer))]


PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
WIDENINGS = {
    *(("long", "int"), ("float", "int"), ("float", "long"), ("double", "int"), ("double", "long")),
    *(("double", "float"), ("bytes", "string"), ("string", "bytes")),
}


@pytest.mark.parametrize("reader", PRIMITIVES)
@pytest.mark.parametrize("writer", PRIMITIVES)
def test_primitives_read_themselves_and_what_is_narrower(reader: str, writer: str) -> None:
    fine = reader == writer or (reader, writer) in WIDENINGS
    assert kinds(reader, writer) == ([] if fine else [("TYPE_MISMATCH", "/")])


@pytest.mark.parametrize(
    ("reader", "writer", "expected"),
    [
        (record("a"), record("a", "b"), []),
        (record("a", "b"), record("a"), [("READER_FIELD_MISSING_DEFAULT_VALUE", "/fields/1")]),
        (record("a", {"name": "b", "type": "int", "default": 0}), record("a"), []),
        (record({"name": "b", "type": "int", "aliases": ["a"]}), record("a"), []),
        (record({"name": "a", "type": "string"}), record("a"), [("TYPE_MISMATCH", "/fields/0/type")]),
        (record("a", name="Q"), record("a"), [("NAME_MISMATCH", "/name")]),
        (record("a", name="Q", aliases=["R"]), record("a"), []),
        (record(namespace="x"), record(namespace="y"), []),
        (enum("A", "B"), enum("A"), []),
        (enum("A"), enum("A", "C", "B"), [("MISSING_ENUM_SYMBOLS", "/symbols")]),
        (enum("A", default="A"), enum("A", "B"), []),
        (["null", "int"], "int", []),
        ("int", ["null", "int"], [("TYPE_MISMATCH", "/0")]),
        (["null", "string"], ["null", "int"], [("MISSING_UNION_BRANCH", "/1")]),
        (["null", "string"], "int", [("MISSING_UNION_BRANCH", "/")]),
        (["null", "long"], ["int", "null"], []),
        ({"type": "array", "items": "int"}, {"type": "array", "items": "long"}, [("TYPE_MISMATCH", "/items")]),
        ({"type": "map", "values": "int"}, {"type": "map", "values": "long"}, [("TYPE_MISMATCH", "/values")]),
        ({"type": "map", "values": "int"}, record("a"), [("TYPE_MISMATCH", "/")]),
        (
            {"type": "fixed", "name": "F", "size": 4},
            {"type": "fixed", "name": "F", "size": 8},
            [("FIXED_SIZE_MISMATCH", "/size")],
        ),
    ],
)
def test_rules_of_resolution(reader: Any, writer: Any, expected: list[tuple[str, str]]) -> None:
    assert kinds(reader, writer) == expected


def test_an_unqualified_alias_has_the_namespace_of_the_record_that_moved() -> None:
    """The fault of PyPI avro: it lets the alias stand for the old namespace too."""
    moved = record("a", name="New", namespace="new", aliases=["Old"])
    assert kinds(moved, record("a", name="Old", namespace="old")) == [("NAME_MISMATCH", "/name")]
    assert kinds(moved, record("a", name="Old", namespace="new")) == []
    assert kinds(dict(moved, aliases=["old.Old"]), record("a", name="Old", namespace="old")) == []


def test_a_field_that_stands_for_two_is_refused() -> None:
    reasons = check(avro(record({"name": "a", "type": "int", "aliases": ["b"]})), avro(record("a", "b")))
    assert [reason.kind for reason in reasons] == ["AMBIGUOUS_ALIAS"]
    assert reasons[0].verbose.startswith("Unexpected exception during compatibility check: ")


def test_the_line_is_the_one_that_confluent_prints() -> None:
    def order(kind: str, name: str = "id") -> Any:
        return avro({"type": "record", "name": "Order", "namespace": "shop", "fields": [{"name": name, "type": kind}]})

    assert [reason.verbose for reason in check(order("int"), order("string"))] == [
        "{errorType:'TYPE_MISMATCH', description:'The type (path '/fields/0/type') of a field in the new schema does "
        "not match with the old schema', additionalInfo:'reader type: INT not compatible with writer type: STRING'}"
    ]
    assert [reason.verbose for reason in check(order("long", "o"), order("int"))] == [
        "{errorType:'READER_FIELD_MISSING_DEFAULT_VALUE', description:'The field 'o' at path '/fields/0' in the new "
        "schema has no default value and is missing in the old schema', additionalInfo:'o'}"
    ]
    forward = check_level("FORWARD", order("string"), [order("int")])
    assert "in the old schema does not match with the new schema" in forward[0].verbose
    assert forward[0].reader == "old"
    assert "the reader (the old schema) expects int" in forward[0].message
    assert forward[0].fix


def test_recursive_types_come_to_an_end() -> None:
    def tree(kind: str) -> dict[str, Any]:
        return record({"name": "v", "type": kind}, {"name": "next", "type": ["null", "R"], "default": None})

    assert kinds(tree("long"), tree("int")) == []
    assert kinds(tree("int"), tree("long"))[0] == ("TYPE_MISMATCH", "/fields/0/type")


def test_agrees_with_java_on_the_tricky_pairs(cases: Any) -> None:
    wrong = [
        case["name"]
        for case in cases("avro_tricky_java_vs_python.json")
        if bool(kinds(case["reader"], case["writer"])) != (case["java_avro_1_12_2"] == "INCOMPATIBLE")
    ]
    assert wrong == []


def test_agrees_with_java_on_random_pairs(cases: Any) -> None:
    wrong = [
        index
        for index, case in enumerate(cases("avro_fuzz_java_oracle.json"))
        if bool(kinds(case["reader"], case["writer"])) == case["compatible"]
    ]
    assert wrong == []


def test_agrees_with_apicurio(cases: Any) -> None:
    for case in cases("apicurio/avro-compatibility-test-data.json")["tests"]:
        backward = not kinds(case["updated"], case["original"])
        forward = not kinds(case["original"], case["updated"])
        words = {(True, True): "both", (True, False): "backward", (False, True): "forward", (False, False): "none"}
        assert words[backward, forward] == case["compatibility"], case["id"]
