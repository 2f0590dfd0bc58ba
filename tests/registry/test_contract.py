"""A subject as a data contract: out, into another registry, and refused where something would be passed over."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from eventide.cli.registry import registry
from eventide.registry.contract import ContractRefused, read, take_apart
from tests.registry.conftest import Ask, InThread

ORDER = {
    "type": "record", "name": "Order", "namespace": "shop", "fields": [
        {"name": "id", "type": "string", "doc": "Who it is."},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}},
        {"name": "was", "type": ["null", "Kind"], "default": None},
        {"name": "lines", "type": {"type": "array", "items": {"type": "record", "name": "Line", "fields": [{"name": "sku", "type": "int"}]}}},
        {"name": "tags", "type": {"type": "map", "values": "string"}},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "either", "type": ["int", "string"]},
    ],
}  # fmt: skip
JSON = {"type": "object", "required": ["id"], "properties": {
    "id": {"type": "string", "description": "Who."}, "at": {"type": "string", "format": "date-time"},
    "n": {"type": ["integer", "null"]}, "in": {"type": "object", "properties": {"x": {"type": "number"}}}, "any": True}}  # fmt: skip
PROTO = """syntax = "proto3";
message Order { string id = 1; repeated int64 ns = 2; oneof u { bool yes = 3; Line line = 4; } map<string, int32> m = 5; }
message Line { int32 sku = 1; }
"""
KINDS = [("AVRO", json.dumps(ORDER)), ("JSON", json.dumps(JSON)), ("PROTOBUF", PROTO)]
TUNED = {
    "targets": {"on_time": 0.99, "in_the_end": 0.999},
    "recommended": {"completeness": 0.9994},
    "lanes": [{"lateness": {"p99": 11_200_000.0}}, {"lateness": {"p99": 3_000_000.0}}, {"lateness": {}}],
}


def _run(service: InThread, *arguments: str) -> Result:
    return CliRunner().invoke(registry, ["contract", *arguments, "--url", service.url])


@pytest.fixture
def exported(ask: Ask, service: InThread, tmp_path: Path) -> Any:
    def export(kind: str, text: str, *more: str, **body: Any) -> tuple[Path, dict[str, Any]]:
        ask.ok("POST", "/subjects/orders/versions", {"schema": text, "schemaType": kind, **body})
        owner = {"prefix": "ord", "team": "checkout", "domain": "sales", "contact": "c@shop", "on_call": "pager"}
        ask.ok("PUT", "/eventide/v1/owners", owner)
        file = tmp_path / "contract.yaml"
        done = _run(service, "export", "orders", "--out", str(file), *more)
        assert done.exit_code == 0, done.output
        return file, yaml.safe_load(file.read_text())

    return export


@pytest.mark.parametrize(("kind", "text"), KINDS)
def test_a_contract_has_schema_owner_and_promises_and_comes_back_the_same(
    exported: Any, kind: str, text: str, tmp_path: Path
) -> None:
    (tmp_path / "tuned.json").write_text(json.dumps(TUNED))
    file, found = exported(kind, text, "--tune", str(tmp_path / "tuned.json"))
    assert (found["kind"], found["apiVersion"], found["status"]) == ("DataContract", "v3.0.2", "active")
    assert found["domain"] == "sales" and found["team"] == [{"username": "checkout", "role": "owner"}]
    assert found["slaProperties"] == [
        {"property": "freshness", "value": 12, "unit": "s"}, {"property": "completeness", "value": 0.999},
    ]  # fmt: skip
    [held] = found["schema"]
    assert {p["name"] for p in held["properties"]} >= {"id"}
    assert all(p.get("logicalType") in (None, "string", "date", "number", "integer", "object", "array", "boolean")
               for p in held["properties"])  # fmt: skip
    other = InThread(f"sqlite:///{tmp_path}/other.db")
    for line in ("orders  v1  id 1\norders  owned by checkout\n", "orders  v1  id 1\n"):  # again: nothing is left to change
        assert _run(other, "import", str(file)).output == line
    ask = Ask(other.url)
    there = ask.ok("GET", "/subjects/orders/versions/1")
    assert there["schemaType"] == kind
    assert json.loads(there["schema"]) == json.loads(text) if kind != "PROTOBUF" else "oneof u" in there["schema"]
    owner = ask.ok("GET", "/eventide/v1/owners?subject=orders")
    assert (owner["team"], owner["domain"], owner["contact"], owner["on_call"]) == ("checkout", "sales", "c@shop", "pager")
    assert _run(other, "import", str(file), "--subject", "copy").exit_code == 0
    other.stop()


def test_the_fields_of_an_avro_schema_as_the_standard_has_them(exported: Any) -> None:
    _, found = exported("AVRO", json.dumps(ORDER))
    told = {p["name"]: (p.get("logicalType"), p["physicalType"], p["required"]) for p in found["schema"][0]["properties"]}
    assert told == {
        "id": ("string", "string", True), "at": ("date", "long (timestamp-micros)", True), "kind": ("string", "enum", True),
        "was": ("string", "Kind", False), "lines": ("array", "array", True), "tags": ("object", "map", True),
        "price": ("number", "bytes (decimal)", True), "either": (None, '["int", "string"]', True),
    }  # fmt: skip
    lines = found["schema"][0]["properties"][4]
    assert lines["items"]["properties"] == [{"name": "sku", "logicalType": "integer", "physicalType": "int", "required": True}]
    assert found["schema"][0]["properties"][0]["description"] == "Who it is."
    assert "slaProperties" not in found, "what nobody measured is not promised"


def test_references_travel_with_the_contract(ask: Ask, service: InThread, exported: Any) -> None:
    ask.register("line", {"type": "record", "name": "Line", "fields": [{"name": "sku", "type": "int"}]})
    refers = [{"name": "Line", "subject": "line", "version": 1}]
    text = json.dumps({"type": "record", "name": "Order", "fields": [{"name": "line", "type": "Line"}]})
    file, found = exported("AVRO", text, references=refers)
    assert found["schema"][0]["properties"][0]["properties"][0]["name"] == "sku"
    assert _run(service, "import", str(file)).output == "orders  v1  id 2\n", "it is there already, owner and all"


def test_properties_that_were_changed_by_hand_are_not_passed_over(exported: Any, service: InThread) -> None:
    file, found = exported("AVRO", json.dumps(ORDER))
    found["schema"][0]["properties"][0]["name"] = "ident"
    file.write_text(yaml.safe_dump(found))
    refused = _run(service, "import", str(file))
    assert refused.exit_code == 1 and "no longer say the same" in refused.output and "eventideSchema" in refused.output


def test_a_contract_from_elsewhere_gets_the_schema_of_its_properties(ask: Ask, service: InThread, tmp_path: Path) -> None:
    properties = [
        {"name": "id", "logicalType": "string", "required": True},
        {"name": "day", "logicalType": "date"},
        {"name": "lines", "logicalType": "array", "items": {"logicalType": "object", "properties": [
            {"name": "n", "logicalType": "integer", "required": True}]}},
    ]  # fmt: skip
    document = {"apiVersion": "v3.1.0", "kind": "DataContract", "id": "x", "version": "1", "status": "active", "name": "trips",
                "team": {"name": "maps"}, "schema": [{"name": "trips", "properties": properties}]}  # fmt: skip
    (tmp_path / "c.yaml").write_text(yaml.safe_dump(document))
    assert _run(service, "import", str(tmp_path / "c.yaml")).output == "trips  v1  id 1\ntrips  owned by maps\n"
    made = json.loads(ask.ok("GET", "/subjects/trips/versions/1")["schema"])
    assert made["required"] == ["id"] and made["properties"]["day"] == {"type": "string", "format": "date"}
    assert made["properties"]["lines"]["items"]["required"] == ["n"]
    properties[1]["logicalType"] = "geometry"
    (tmp_path / "c.yaml").write_text(yaml.safe_dump(document))
    refused = _run(service, "import", str(tmp_path / "c.yaml"))
    assert refused.exit_code == 1 and "day has the logicalType 'geometry'" in refused.output


@pytest.mark.parametrize(
    "text",
    ["", "[]", "a: [", "kind: Nothing", "kind: DataContract\napiVersion: v2.2.2", "!!python/object/apply:os.system ['true']",
     "kind: DataContract\napiVersion: v3.0.2\nschema: []", "kind: DataContract\napiVersion: v3.0.2\nschema: [{name: a}, {name: b}]",
     "kind: DataContract\napiVersion: v3.0.2\nschema: [{properties: [1]}]\nname: a"],
)  # fmt: skip
def test_what_is_no_contract_is_refused_with_the_reason(text: str, service: InThread, tmp_path: Path) -> None:
    with pytest.raises(ContractRefused):
        take_apart(read(text), None)
    (tmp_path / "c.yaml").write_text(text)
    refused = _run(service, "import", str(tmp_path / "c.yaml"))
    assert refused.exit_code == 1 and refused.output.startswith("Error: ") and "Traceback" not in refused.output
