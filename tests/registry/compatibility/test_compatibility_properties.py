"""What holds for every schema: it reads itself, its text is a fixed point, and no text brings the parser down."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from eventide.registry.compatibility import InvalidSchema, check, parse

EXAMPLES = settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
NAMES = st.sampled_from(["a", "b", "c", "d", "e", "f"])
PRIMITIVES = st.sampled_from(["null", "boolean", "int", "long", "float", "double", "bytes", "string"])


def _avro_named(counter: list[int], inner: st.SearchStrategy[Any], draw: Any) -> dict[str, Any]:
    counter[0] += 1
    kind = draw(st.sampled_from(["record", "enum", "fixed"]))
    named: dict[str, Any] = {"type": kind, "name": f"T{counter[0]}"}
    if draw(st.booleans()):
        named["namespace"] = draw(st.sampled_from(["", "n", "n.m"]))
    if kind == "enum":
        named["symbols"] = draw(st.lists(NAMES, unique=True, min_size=1))
    elif kind == "fixed":
        named["size"] = draw(st.integers(0, 20))
    else:
        names = draw(st.lists(NAMES, unique=True, max_size=4))
        named["fields"] = [{"name": name, "type": draw(inner)} for name in names]
    return named


@st.composite
def avro(draw: Any) -> Any:
    counter = [0]

    def build(depth: int) -> Any:
        choice = draw(st.integers(0, 5 if depth else 0))
        if choice <= 1:
            return draw(PRIMITIVES)
        if choice == 2:
            return {"type": "array", "items": build(depth - 1)}
        if choice == 3:
            return {"type": "map", "values": build(depth - 1), draw(NAMES): draw(st.integers())}
        if choice == 4:
            branches = draw(st.lists(PRIMITIVES, unique=True, max_size=3))
            return [*branches, _avro_named(counter, st.builds(lambda: "int"), draw)]
        return _avro_named(counter, st.builds(lambda: build(depth - 1)), draw)

    return build(3)


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=20,
)
KEYWORDS = st.sampled_from(
    [
        "type",
        "name",
        "fields",
        "items",
        "values",
        "symbols",
        "size",
        "default",
        "aliases",
        "namespace",
        "order",
        "properties",
        "required",
        "enum",
        "const",
        "not",
        "oneOf",
        "allOf",
        "anyOf",
        "$ref",
        "additionalProperties",
        "$id",
        "$schema",
        "if",
        "minimum",
        "maxLength",
        "pattern",
        "patternProperties",
        "dependencies",
        "definitions",
    ]
)
WORDS = st.sampled_from(
    [
        "record",
        "enum",
        "fixed",
        "array",
        "map",
        "int",
        "string",
        "object",
        "integer",
        "#",
        "#/definitions/a",
        "R",
        "https://json-schema.org/draft/2020-12/schema",
        "http://json-schema.org/draft-04/schema#",
    ]
)
NEAR_SCHEMAS = st.recursive(
    WORDS | st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYWORDS | st.text(max_size=3), inner, max_size=5),
    max_leaves=25,
)

JSON_SCHEMAS = st.recursive(
    st.booleans()
    | st.builds(lambda kind: {"type": kind}, st.sampled_from(["string", "integer", "number", "boolean", "null"]))
    | st.builds(lambda values: {"enum": values}, st.lists(st.integers(0, 5), min_size=1)),
    lambda inner: (
        st.builds(lambda key, items: {key: items}, st.sampled_from(["oneOf", "anyOf", "allOf"]), st.lists(inner))
        | st.builds(
            lambda properties, more, names: {
                "type": "object",
                "properties": properties,
                "additionalProperties": more,
                "required": names,
            },
            st.dictionaries(NAMES, inner, max_size=3),
            inner,
            st.lists(NAMES, unique=True),
        )
        | st.builds(lambda items: {"type": "array", "items": items}, inner)
        | st.builds(lambda items: {"not": items}, inner)
    ),
    max_leaves=12,
)
DRAFTS = st.sampled_from(
    ["http://json-schema.org/draft-07/schema#", "https://json-schema.org/draft/2020-12/schema", "urn:other"]
)


@EXAMPLES
@given(avro())
def test_an_avro_schema_reads_itself_and_its_text_is_a_fixed_point(value: Any) -> None:
    parsed = parse("AVRO", json.dumps(value))
    assert check(parsed, parsed) == []
    again = parse("AVRO", parsed.canonical)
    assert again.canonical == parsed.canonical
    assert check(parsed, again) == [] and check(again, parsed) == []
    assert again.parsing_form == parsed.parsing_form  # type: ignore[attr-defined]
    normalized = parse("AVRO", parsed.normalized)
    assert normalized.normalized == normalized.canonical == parsed.normalized


@EXAMPLES
@given(avro(), avro())
def test_a_verdict_of_ours_is_that_of_pypi_avro(reader: Any, writer: Any) -> None:
    compatibility = pytest.importorskip("avro.compatibility")
    schema = pytest.importorskip("avro.schema")
    ours, theirs = [parse("AVRO", json.dumps(value)) for value in (reader, writer)], []
    for value in (reader, writer):
        try:
            theirs.append(schema.parse(json.dumps(value)))
        except schema.AvroException:
            return
    verdict = compatibility.ReaderWriterCompatibilityChecker().get_compatibility(*theirs)
    fine = verdict.compatibility is compatibility.SchemaCompatibilityType.compatible
    assert (check(*ours) == []) == fine


@EXAMPLES
@given(JSON_SCHEMAS, DRAFTS)
def test_a_json_schema_reads_itself_and_its_text_is_a_fixed_point(value: Any, draft: str) -> None:
    if isinstance(value, dict):
        value = {"$schema": draft, **value}
    parsed = parse("JSON", json.dumps(value))
    assert check(parsed, parsed) == []
    again = parse("JSON", parsed.canonical)
    assert again.canonical == parsed.canonical
    assert check(parsed, again) == [] and check(again, parsed) == []


SCALARS = st.sampled_from(["int32", "string", "bytes", "double", "M", "map<string, int64>", "E"])


@EXAMPLES
@given(st.lists(st.tuples(SCALARS, st.integers(1, 30)), unique_by=lambda field: field[1], max_size=6), st.booleans())
def test_a_proto_file_reads_itself_and_its_text_is_a_fixed_point(fields: list[tuple[str, int]], nested: bool) -> None:
    body = " ".join(f"{kind} f{number} = {number};" for kind, number in fields)
    inner = "message N { oneof o { M m = 1; string s = 2; } }" if nested else ""
    parsed: Any = parse("PROTOBUF", f'syntax = "proto3"; package p.q; enum E {{ A = 0; }} message M {{ {body} {inner} }}')
    assert check(parsed, parsed) == []
    for text in (parsed.canonical, parsed.normalized, parsed.serialized):
        again = parse("PROTOBUF", text)
        assert check(parsed, again) == [] and check(again, parsed) == []
        assert again.normalized == parsed.normalized
    assert parse("PROTOBUF", parsed.canonical).canonical == parsed.canonical


@pytest.mark.parametrize("kind", ["AVRO", "JSON"])
@EXAMPLES
@given(value=JSON_VALUES | NEAR_SCHEMAS)
def test_no_json_brings_the_parser_down(kind: str, value: Any) -> None:
    for strict in (True, False):
        try:
            parsed = parse(kind, json.dumps(value), strict=strict)
        except InvalidSchema:
            continue
        assert parse(kind, parsed.canonical, strict=strict).canonical == parsed.canonical
        assert parse(kind, parsed.normalized, strict=False)
        check(parsed, parsed)


@pytest.mark.parametrize("kind", ["AVRO", "JSON", "PROTOBUF"])
@EXAMPLES
@given(text=st.text(max_size=60) | st.text(alphabet='{}[]();:=<>,."\\/*- \n1aemsg', max_size=60))
def test_no_text_brings_the_parser_down(kind: str, text: str) -> None:
    try:
        parse(kind, text)
    except InvalidSchema as refused:
        assert str(refused)
