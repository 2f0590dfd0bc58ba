"""JSON Schema: every change that Confluent tells apart, and the Apicurio cases that its rules decide otherwise."""

from __future__ import annotations

import json
from typing import Any

import pytest

from eventide.registry.compatibility import InvalidSchema, check, parse


def schema(value: Any, **references: Any) -> Any:
    return parse("JSON", json.dumps(value), {name: json.dumps(text) for name, text in references.items()})


def kinds(old: Any, new: Any) -> list[str]:
    """What stands in the way of the new schema reading what the old one allowed."""
    return [f"{reason.kind} {reason.path}" for reason in check(schema(new), schema(old))]


def obj(*required: str, **more: Any) -> dict[str, Any]:
    properties = {key: more.pop(key) for key in list(more) if len(key) == 1}
    return {"type": "object", "properties": properties, "required": list(required), **more}


INT, STR = {"type": "integer"}, {"type": "string"}
CLOSED = {"additionalProperties": False}


@pytest.mark.parametrize(
    ("old", "new", "back", "forth"),
    [
        (INT, {"type": "number"}, [], ["TYPE_NARROWED #/"]),
        (INT, STR, ["TYPE_CHANGED #/"], ["TYPE_CHANGED #/"]),
        (INT, {}, [], ["TYPE_CHANGED #/"]),
        (False, INT, [], ["TYPE_CHANGED #/"]),
        (STR, {**STR, "maxLength": 3}, ["MAX_LENGTH_ADDED #/maxLength"], []),
        ({**STR, "minLength": 3}, {**STR, "minLength": 4}, ["MIN_LENGTH_INCREASED #/minLength"], []),
        (
            {**STR, "pattern": "a"},
            {**STR, "pattern": "b"},
            ["PATTERN_CHANGED #/pattern"],
            ["PATTERN_CHANGED #/pattern"],
        ),
        ({**INT, "minimum": 3}, {**INT, "minimum": 1}, [], ["MINIMUM_INCREASED #/minimum"]),
        ({**INT, "maximum": 3}, {**INT, "maximum": 1}, ["MAXIMUM_DECREASED #/maximum"], []),
        (
            {**INT, "exclusiveMaximum": 3},
            {**INT, "exclusiveMaximum": 5},
            [],
            ["EXCLUSIVE_MAXIMUM_DECREASED #/exclusiveMaximum"],
        ),
        ({**INT, "multipleOf": 10}, {**INT, "multipleOf": 5}, [], ["MULTIPLE_OF_EXPANDED #/multipleOf"]),
        (
            {**INT, "multipleOf": 2},
            {**INT, "multipleOf": 3},
            ["MULTIPLE_OF_CHANGED #/multipleOf"],
            ["MULTIPLE_OF_CHANGED #/multipleOf"],
        ),
        ({"type": "number", "multipleOf": 0.5}, {"type": "number", "multipleOf": 0.50}, [], []),
        ({"enum": [1, 2]}, {"enum": [1, 2, 3]}, [], ["ENUM_ARRAY_NARROWED #/enum"]),
        ({"enum": [1]}, {"enum": [True]}, ["ENUM_ARRAY_CHANGED #/enum"], ["ENUM_ARRAY_CHANGED #/enum"]),
        ({"const": 1}, {"const": 2}, ["ENUM_ARRAY_CHANGED #/const"], ["ENUM_ARRAY_CHANGED #/const"]),
        # Open content: anything may stand there already, so a property cannot be given a type later.
        (obj(a=INT), obj(a=INT, b=STR), ["OPTIONAL_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL #/properties/b"], []),
        (obj(a=INT), obj(a=INT, b={}), [], []),
        (obj(a=INT), obj("b", b=STR), ["REQUIRED_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL #/properties/b"], None),
        # Closed content: nothing else stood there, so properties may come but not go.
        (
            obj(a=INT, **CLOSED),
            obj(a=INT, b=STR, **CLOSED),
            [],
            ["PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL #/properties/b"],
        ),
        (
            obj(a=INT, **CLOSED),
            obj("b", a=INT, b=STR, **CLOSED),
            ["REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL #/properties/b"],
            None,
        ),
        (obj(a=INT, **CLOSED), obj("b", a=INT, b={**STR, "default": ""}, **CLOSED), [], None),
        (obj(a=INT, **CLOSED), obj(a=INT), [], ["ADDITIONAL_PROPERTIES_REMOVED #/additionalProperties"]),
        # Partly open content: what comes must allow what was allowed.
        (
            obj(a=INT, additionalProperties=STR),
            obj(a=INT, b=STR, additionalProperties=STR),
            [],
            [],
        ),
        (
            obj(a=INT, additionalProperties=STR),
            obj(a=INT, b=INT, additionalProperties=STR),
            [
                "TYPE_CHANGED #/properties/b",
                "PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL #/properties/b",
            ],
            [
                "TYPE_CHANGED #/properties/b",
                "PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL #/properties/b",
            ],
        ),
        (obj(patternProperties={"^x": STR}, **CLOSED), obj(x=STR, patternProperties={"^x": STR}, **CLOSED), [], []),
        (obj(a=INT), obj("a", a=INT), ["REQUIRED_ATTRIBUTE_ADDED #/required/a"], []),
        (obj(a=INT), obj("a", a={**INT, "default": 0}), [], []),
        (obj(maxProperties=3), obj(maxProperties=2), ["MAX_PROPERTIES_DECREASED #/maxProperties"], []),
        (
            obj(dependencies={"a": ["b"]}),
            obj(dependencies={"a": ["b", "c"]}),
            ["DEPENDENCY_ARRAY_EXTENDED #/dependencies/a"],
            [],
        ),
        (
            obj(dependencies={"a": INT}),
            obj(dependencies={"a": STR}),
            ["TYPE_CHANGED #/dependencies/a"],
            ["TYPE_CHANGED #/dependencies/a"],
        ),
        ({"type": "array"}, {"type": "array", "items": INT}, ["SCHEMA_ADDED #/items"], []),
        ({"type": "array", "uniqueItems": True}, {"type": "array"}, [], ["UNIQUE_ITEMS_ADDED #/uniqueItems"]),
        (
            {"type": "array", "items": [INT]},
            {"type": "array", "items": [INT, STR]},
            ["ITEM_ADDED_TO_OPEN_CONTENT_MODEL #/items/1"],
            [],
        ),
        (
            {"type": "array", "items": [INT], "additionalItems": False},
            {"type": "array", "items": [INT, STR], "additionalItems": False},
            [],
            ["ITEM_REMOVED_FROM_CLOSED_CONTENT_MODEL #/items/1"],
        ),
        (STR, {"oneOf": [STR, INT]}, [], ["TYPE_CHANGED #/"]),
        ({"oneOf": [STR, INT]}, {"oneOf": [STR]}, ["SUM_TYPE_NARROWED #/"], []),
        ({"allOf": [STR]}, {"allOf": [STR, {"maxLength": 3}]}, ["PRODUCT_TYPE_EXTENDED #/"], []),
        ({"oneOf": [STR, INT]}, {"anyOf": [STR, INT]}, [], ["COMBINED_TYPE_CHANGED #/"]),
        (
            {"oneOf": [STR, INT]},
            {"oneOf": [STR, {"type": "boolean"}]},
            ["COMBINED_TYPE_SUBSCHEMAS_CHANGED #/"],
            ["COMBINED_TYPE_SUBSCHEMAS_CHANGED #/"],
        ),
        ({"type": ["string", "null"]}, {"type": ["string", "null", "integer"]}, [], ["SUM_TYPE_NARROWED #/"]),
        ({"not": INT}, {"not": {"type": "number"}}, ["NOT_TYPE_EXTENDED #/not"], []),
    ],
)
def test_rules_of_confluent(old: Any, new: Any, back: list[str], forth: list[str] | None) -> None:
    assert kinds(old, new) == back
    if forth is not None:
        assert kinds(new, old) == forth


def test_newer_drafts_know_unevaluated_and_prefix_items() -> None:
    def modern(**more: Any) -> dict[str, Any]:
        return {"$schema": "https://json-schema.org/draft/2020-12/schema", **more}

    a, closed = {"a": INT}, {"unevaluatedProperties": False}
    old, new = (
        modern(type="object", properties=a, **closed),
        modern(type="object", properties={**a, "b": INT}, **closed),
    )
    assert kinds(old, new) == []
    assert kinds(new, old) == ["PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL #/properties/b"]
    assert kinds(modern(type="array", prefixItems=[INT], items=False), modern(type="array", prefixItems=[STR])) == [
        "TYPE_CHANGED #/items/0"
    ]
    assert kinds(modern(type="array"), modern(type="array", contains=INT)) == ["MIN_CONTAINS_ADDED #/minContains"]
    assert kinds(modern(type="object", dependentRequired={"a": ["b"]}), modern(type="object")) == []
    referring = modern(**{"$ref": "#/$defs/x", "$defs": {"x": INT}})
    assert kinds(referring, modern(**{"$ref": "#/$defs/x", "$defs": {"x": STR}})) == ["TYPE_CHANGED #/"]


def test_references_are_followed_across_documents() -> None:
    def order(item: Any) -> Any:
        return schema(obj(i={"$ref": "item.json#/definitions/x"}), **{"item.json": {"definitions": {"x": item}}})

    assert [reason.path for reason in check(order(STR), order(INT))] == ["#/properties/i"]
    assert check(order({"type": "number"}), order(INT)) == []
    with pytest.raises(InvalidSchema) as refused:
        schema(obj(i={"$ref": "item.json"}))
    assert str(refused.value) == "Invalid JSON"
    assert "leads to no schema" in refused.value.reason


def test_schemas_that_refer_to_themselves_come_to_an_end() -> None:
    def tree(kind: str, **more: Any) -> dict[str, Any]:
        return obj(v={"type": kind}, c={"type": "array", "items": {"$ref": "#"}}, **more)

    assert kinds(tree("integer"), tree("number")) == []
    assert "TYPE_NARROWED #/properties/v" in kinds(tree("number"), tree("integer"))
    assert kinds({"$ref": "#"}, {"$ref": "#"}) == []


def test_the_line_is_the_one_that_confluent_prints() -> None:
    reason = check(schema({**STR, "maxLength": 3}), schema(STR))[0]
    assert reason.verbose == (
        '{errorType:"MAX_LENGTH_ADDED", description:"The keyword at path \'#/maxLength\' in the new schema is not '
        "present in the old schema'}"
    )
    assert reason.reader == "new" and "the reader (the new schema)" in reason.message and reason.fix


def test_text_keeps_its_order_and_the_normalised_one_sorts_it() -> None:
    parsed = parse("JSON", '{ "type":"object", "properties": {"b":{},"a":{"maximum":1e2}} }')
    assert parsed.canonical == '{"type":"object","properties":{"b":{},"a":{"maximum":100.0}}}'
    assert parsed.normalized == '{"properties":{"a":{"maximum":100.0},"b":{}},"type":"object"}'


@pytest.mark.parametrize(
    "text",
    ['{"type":"objekt"}', '{"properties":1}', '{"minLength":"x"}', '{"$ref":"#/nowhere"}', '{"multipleOf":0}', "7"],
)
def test_what_is_no_schema_is_refused(text: str) -> None:
    with pytest.raises(InvalidSchema, match=r"^Invalid JSON$"):
        parse("JSON", text)


IGNORES = "Confluent does not compare this keyword"
APART = "Confluent compares minimum and exclusiveMinimum (maximum likewise) each with itself only"
BARE = "Confluent compares required only for properties that both schemas define"
DRAFT_4_FLAG = "Confluent does not compare the draft 4 flag of an exclusive limit"
# id of the case, what Apicurio says of it -> what Confluent's rules give, and the rule that decides.
DECIDED_OTHERWISE = {
    ("String: format 1", "backward"): ("both", IGNORES),
    ("String: format 2", "none"): ("both", IGNORES),
    ("Number: exclusiveMinimum 1", "backward"): ("both", DRAFT_4_FLAG),
    ("Number: exclusiveMinimum 2", "backward"): ("none", APART),
    ("Number: exclusiveMinimum 3", "backward"): ("none", APART),
    ("Number: exclusiveMinimum 5", "both"): ("none", APART),
    ("Number: exclusiveMaximum 1", "backward"): ("both", DRAFT_4_FLAG),
    ("Number: exclusiveMaximum 2", "backward"): ("none", APART),
    ("Number: exclusiveMaximum 3", "backward"): ("none", APART),
    ("Number: exclusiveMaximum 5", "both"): ("none", APART),
    ("Object: required", "backward"): ("both", BARE),
    ("Object: required", "none"): ("both", BARE),
    ("Object: propertyNames", "backward"): ("both", IGNORES),
    ("Object: patternProperties 1", "backward"): ("both", "Confluent uses patternProperties only for other properties"),
    ("Object: patternProperties 2", "none"): ("both", "Confluent uses patternProperties only for other properties"),
    ("Array: contains", "backward"): ("both", IGNORES),
    ("Const: Enum equivalency", "both"): ("none", "const and enum are two forms, and a change of form is TYPE_CHANGED"),
    ("String: contentEncoding 2", "backward"): ("both", IGNORES),
    ("String: contentEncoding 3", "none"): ("both", IGNORES),
    ("String: contentMediaType 2", "backward"): ("both", IGNORES),
    ("String: contentMediaType 3", "none"): ("both", IGNORES),
    ("Conditional: if", "none"): ("both", IGNORES),
    ("Conditional: then", "backward"): ("both", IGNORES),
    ("Conditional: else", "backward"): ("both", IGNORES),
}


def test_agrees_with_apicurio_where_confluent_does(cases: Any) -> None:
    words = {(True, True): "both", (True, False): "backward", (False, True): "forward", (False, False): "none"}
    wrong, met = [], 0
    for case in cases("apicurio/json-compatibility-test-data.json")["tests"]:
        old, new = case["original"], case["updated"]
        given = words[not kinds(old, new), not kinds(new, old)]
        expected, _ = DECIDED_OTHERWISE.get((case["id"], case["compatibility"]), (case["compatibility"], ""))
        met += given == case["compatibility"]
        if given != expected:
            wrong.append((case["id"], given, expected))
    assert wrong == []
    assert met >= 121
