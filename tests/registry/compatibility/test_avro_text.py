"""Avro: the text that is stored, its fingerprint, and the words with which a schema is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from eventide.registry.compatibility import InvalidSchema, parse


def canonical(text: str, **references: str) -> str:
    return parse("AVRO", text, references, strict=False).canonical


def field(**more: Any) -> str:
    return json.dumps({"type": "record", "name": "R", "namespace": "n", "fields": [{"name": "f", **more}]})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"type": "string"}', '"string"'),
        ('{"type":"int","doc":"x"}', '"int"'),
        ('{"type":"int","logicalType":"date"}', '{"type":"int","logicalType":"date"}'),
        ('{"fields":[],"name":"a.b.R","type":"record"}', '{"type":"record","name":"R","namespace":"a.b","fields":[]}'),
        (
            '{"name":"R","aliases":["b.Old","Older"],"z":1,"fields":[],"namespace":"b","type":"error","doc":"d"}',
            '{"type":"error","name":"R","namespace":"b","doc":"d","fields":[],"z":1,"aliases":["Old","Older"]}',
        ),
        (
            '{"name":"E","default":"A","x":1,"symbols":["A"],"type":"enum"}',
            '{"type":"enum","name":"E","symbols":["A"],"default":"A","x":1}',
        ),
        ('/* why */ [ "null", // nothing\n "int" ]', '["null","int"]'),
        ('{"type":"string","p":"\\u001f\\u00e9/"}', '{"type":"string","p":"\\u001Fé/"}'),
        ('{"type":"array","items":{"type":"map","values":"int"}}',) * 2,
    ],
)
def test_text_is_in_the_order_of_java(text: str, expected: str) -> None:
    assert canonical(text) == expected


@pytest.mark.parametrize(
    ("given", "printed"),
    [
        ("1e3", "1000.0"),
        ("1e7", "1.0E7"),
        ("12345678.9", "1.23456789E7"),
        ("0.0001", "1.0E-4"),
        ("-0.0", "-0.0"),
        ("0.001", "0.001"),
        ("1.5e300", "1.5E300"),
        ("100", "100"),
        ("1234567.25", "1234567.25"),
        ('"2"', "2.0"),
    ],
)
def test_doubles_are_printed_as_java_prints_them(given: str, printed: str) -> None:
    text = '{"type":"record","name":"R","fields":[{"name":"f","type":"double","default":%s}]}'
    assert canonical(text % given) == text % printed


def test_a_type_may_be_used_before_it_is_defined() -> None:
    ahead = '["null",{"type":"record","name":"A","fields":[{"name":"b","type":"B"}]},{"type":"fixed","name":"B","size":2}]'
    assert canonical(ahead) == (
        '["null",{"type":"record","name":"A","fields":[{"name":"b","type":{"type":"fixed","name":"B","size":2}}]},"B"]'
    )


def test_referenced_types_are_named_and_not_written_out() -> None:
    address = '{"type":"record","name":"Address","namespace":"shop","fields":[]}'
    customer = '{"type":"record","name":"Customer","namespace":"shop","fields":[{"name":"a","type":"shop.Address"}]}'
    parsed = parse("AVRO", customer, {"shop.Address": address})
    assert parsed.canonical == customer.replace("shop.Address", "Address")
    assert parsed.raw["fields"][0]["type"]["name"] == "Address"  # type: ignore[index]
    with pytest.raises(InvalidSchema, match=r"^Undefined schema: shop\.Address$"):
        parse("AVRO", customer)


def test_normalised_text_sorts_what_has_no_order() -> None:
    text = (
        '{"type":"record","name":"R","doc":"","fields":[{"name":"f","type":{"type":"bytes","z":1,"scale":2,'
        '"precision":4,"logicalType":"decimal"},"aliases":["b","a"]},{"name":"g","type":"double","default":1}]}'
    )
    assert parse("AVRO", text).normalized == (
        '{"type":"record","name":"R","fields":[{"name":"f","type":{"type":"bytes","logicalType":"decimal","precision":4,'
        '"scale":2,"z":1},"aliases":["a","b"]},{"name":"g","type":"double","default":1.0}]}'
    )


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "Cannot parse <null> schema"),
        ("{}", "No type: {}"),
        ("1", "Schema not yet supported: 1"),
        ('"strin"', "Undefined schema: strin"),
        ('["int","int"]', "Duplicate in union:int"),
        ('["null",["int"]]', 'Nested union: ["null",["int"]]'),
        ('{"type":"record","name":"R"}', 'Record has no fields: {"type":"record","name":"R"}'),
        ('{"type":"record","fields":[]}', 'No name in schema: {"type":"record","fields":[]}'),
        ('{"type":"record","name":"1R","fields":[]}', "Illegal initial character: 1R"),
        ('{"type":"record","name":"a-b","fields":[]}', "Illegal character in: a-b"),
        (
            '{"type":"record","name":"R","namespace":"a.2b","fields":[]}',
            'Namespace part "2b" is invalid: Illegal initial character: 2b',
        ),
        ('{"type":"record","name":"int","fields":[]}', "Schemas may not be named after primitives: int"),
        ('{"type":"enum","name":"E","symbols":["A","A"]}', "Duplicate enum symbol: A"),
        ('{"type":"fixed","name":"F"}', 'Invalid or no size: {"type":"fixed","name":"F"}'),
        ('{"type":"array"}', 'Array has no items type: {"type":"array"}'),
        ('{"type":"map"}', 'Map has no values type: {"type":"map"}'),
        (field(type="string", default=None), 'Invalid default for field f: null not a "string"'),
        (field(type="int", default=2**31), 'Invalid default for field f: 2147483648 not a "int"'),
        (field(type=["null", "int"], default="x"), 'Invalid default for field f: "x" not a ["null","int"]'),
        (field(type="stream"), "Undefined schema: n.stream"),
        ('["null"] x', "dangling content after end of schema: x"),
        ('[{"type":"fixed","name":"F","size":1},{"type":"fixed","name":"F","size":2}]', "Can't redefine: F"),
    ],
)
def test_refusals_are_worded_as_java_words_them(text: str, complaint: str) -> None:
    with pytest.raises(InvalidSchema) as refused:
        parse("AVRO", text)
    assert str(refused.value) == complaint


@pytest.mark.parametrize(
    ("text", "what", "column"),
    [
        ('{"type":', "Unexpected end-of-input within/between Object entries", 9),
        ('{"type": "rec', "Unexpected end-of-input: was expecting closing quote for a string value", 14),
        ("string", "Unrecognized token 'string': was expecting (JSON String, Number, Array, Object or token", 7),
        ("[1,]", "Unexpected character (']' (code 93)): expected a valid value", 5),
        ("{a:1}", "Unexpected character ('a' (code 97)): was expecting double-quote to start field name", 3),
    ],
)
def test_broken_json_is_reported_as_jackson_reports_it(text: str, what: str, column: int) -> None:
    with pytest.raises(InvalidSchema) as refused:
        parse("AVRO", text)
    assert what in str(refused.value)
    assert str(refused.value).endswith(f"line: 1, column: {column}]")


def test_text_parsing_form_fingerprint_and_errors_are_those_of_java(cases: Any) -> None:
    wrong: list[object] = []
    for case in cases("avro_canonical_java.json"):
        try:
            parsed: Any = parse("AVRO", case["input"], strict=False)
        except InvalidSchema as error:
            if str(error) != case.get("error", "").partition(": ")[2]:
                wrong.append((case["name"], str(error), case.get("error")))
            continue
        got = (parsed.canonical, parsed.parsing_form, f"{parsed.fingerprint:016x}")
        if got != (case.get("canonical"), case.get("pcf"), case.get("fp64_hex")):
            wrong.append((case["name"], got, case))
    assert wrong == []
