"""2,950 random pairs of schemas, and what Confluent's own classes say of them: verdicts, reasons and texts."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest
from tests.support.shared import shared_file

from eventide.registry.compatibility import InvalidSchema, check_level, parse

# Every verdict that is meant to differ, by the place of the pair, with its reason.
MEANT = {
    2294: "a number that two fields of one message have: protoc refuses it, and no record of it could be read for certain",
    2674: "a name that two fields of one message have: protoc refuses it, and no code could be made of it",
}


@pytest.fixture(scope="module")
def pairs() -> list[dict[str, Any]]:
    with gzip.open(shared_file("conformance/registry/confluent_differential.jsonl.gz"), "rt") as lines:
        return [json.loads(line) for line in lines]


def _refused(pair: dict[str, Any]) -> bool:
    try:
        parse(pair["type"], pair["old"])
        parse(pair["type"], pair["new"])
    except InvalidSchema:
        return True
    return False


def test_every_schema_is_taken_or_refused_as_recorded(pairs: list[dict[str, Any]]) -> None:
    assert len(pairs) == 2_950
    assert {i for i, pair in enumerate(pairs) if _refused(pair) != ("refused" in pair)} == set(MEANT)


def test_every_verdict_reason_and_text_is_the_recorded_one(pairs: list[dict[str, Any]]) -> None:
    wrong: list[tuple[int, str]] = []
    compared = 0
    for i, pair in enumerate(pairs):
        if "refused" in pair or i in MEANT:
            continue
        compared += 1
        new, old = parse(pair["type"], pair["new"]), parse(pair["type"], pair["old"], strict=False)
        backward = check_level("BACKWARD", new, [old])
        for what, got in (
            ("backward", not backward),
            ("forward", not check_level("FORWARD", new, [old])),
            ("canonical", new.canonical),
            ("normalized", new.normalized),
        ):
            if got != pair[what]:
                wrong.append((i, what))
        # The recording has the kinds of reasons for JSON Schema and Protobuf only.
        if pair["type"] != "AVRO" and {reason.kind for reason in backward} != set(pair["error_types"]):
            wrong.append((i, "reasons"))
    assert compared == 2_830
    assert wrong == []


def test_array_items_of_an_older_draft_are_refused_when_new_and_read_when_stored() -> None:
    modern = {"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "array", "items": [{"type": "integer"}]}
    oldest = {"$schema": "http://json-schema.org/draft-04/schema#", "type": "array", "items": False}
    for schema in (modern, oldest):
        with pytest.raises(InvalidSchema) as refused:
            parse("JSON", json.dumps(schema))
        assert "items must be a schema" in refused.value.reason
        assert parse("JSON", json.dumps(schema), strict=False).canonical
    for draft in ("https://json-schema.org/draft/2019-09/schema", "http://json-schema.org/draft-07/schema#"):
        assert parse("JSON", json.dumps({**modern, "$schema": draft})).canonical


def test_a_field_that_leaves_a_oneof_which_stays_is_lost_to_readers_of_the_oneof() -> None:
    within = 'syntax = "proto3"; message M { oneof u { bool a = 1; bool b = 2; } }'
    beside = 'syntax = "proto3"; message M { bool a = 1; oneof u { bool b = 2; } }'
    alone = 'syntax = "proto3"; message M { bool a = 1; bool b = 2; }'
    new, old = parse("PROTOBUF", beside), parse("PROTOBUF", within)
    assert [reason.kind for reason in check_level("BACKWARD", new, [old])] == ["ONEOF_FIELD_REMOVED"]
    assert "ONEOF_FIELD_REMOVED" not in {r.kind for r in check_level("BACKWARD", parse("PROTOBUF", alone), [old])}


def test_the_normalised_text_leaves_an_empty_line_where_empty_oneofs_were() -> None:
    text = 'syntax = "proto3"; message M { reserved 3; oneof u { } } message N { oneof u { } } message O { }'
    assert parse("PROTOBUF", text).normalized == (
        'syntax = "proto3";\n\nmessage M {\n  reserved 3;\n\n}\nmessage N {\n}\nmessage O {}\n'
    )
