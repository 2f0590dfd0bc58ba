"""`eventide registry`: its commands, as a user types them."""

from __future__ import annotations

import json
from pathlib import Path

import fastavro
import pytest
from click.testing import CliRunner
from tests.registry.conftest import Ask, InThread
from tests.registry.schemas import CLASH, V1, V2

from eventide.cli.registry import registry
from eventide.registry.client import RegistryClient
from eventide.registry.inventory import of_records
from eventide.registry.service.auth import Accounts
from eventide.registry.wire import encode_header


def _run(*arguments: str) -> str:
    result = CliRunner().invoke(registry, list(arguments))
    assert result.exit_code == 0, result.output
    return result.output


def test_a_registry_without_subjects_says_so(service: InThread) -> None:
    assert "no subject is registered\n" in _run("list", "--url", service.url)
    assert "no subject is registered that begins with orders." in _run("list", "--prefix", "orders.", "--url", service.url)


def test_list_diff_audit_and_owners(ask: Ask, service: InThread) -> None:
    ask.register("orders", V1)
    ask.register("orders", V2)
    assert "orders  v2 of 2  id 2  AVRO  BACKWARD  READWRITE  owned by nobody" in _run("list", "--url", service.url)
    assert '+      "name": "qty",' in _run("diff", "orders", "1", "2", "--url", service.url)
    _run("owners", "--set", "orders", "--team", "checkout", "--url", service.url)
    assert "orders  team checkout" in _run("owners", "--url", service.url)
    assert "owned by checkout" in _run("list", "--url", service.url)
    log = _run("audit", "--url", service.url)
    assert "anonymous  register orders  done  from 127.0.0.1" in log and "update_owner" in log
    assert len(json.loads(_run("audit", "--url", service.url, "--action", "register", "--json"))) == 2


def test_a_refused_registration_is_explained_with_what_to_do(ask: Ask, service: InThread, tmp_path: Path) -> None:
    ask.register("orders", V1)
    (tmp_path / "clash.avsc").write_text(CLASH)
    (tmp_path / "next.avsc").write_text(V2)
    for command, clash in (("register", 1), ("check", 1)):
        result = CliRunner().invoke(registry, [command, "orders", str(tmp_path / "clash.avsc"), "--url", service.url])
        assert result.exit_code == clash
        assert "orders does not take this schema: at BACKWARD it clashes with version 1." in result.output
        assert "/fields/0/type" in result.output and "What to do: " in result.output
        assert "error 40901" not in result.output and "oldSchema" not in result.output, "not the raw error"
    assert "would take it (BACKWARD)" in _run("check", "orders", str(tmp_path / "next.avsc"), "--url", service.url)
    assert ask.ok("GET", "/subjects/orders/versions") == [1], "a check registers nothing"
    at_level = ["check", "orders", str(tmp_path / "next.avsc"), "--level", "FULL", "--json", "--url", service.url]
    assert json.loads(_run(*at_level))["level"] == "FULL"
    assert "orders  v2  id 2" in _run("register", "orders", str(tmp_path / "next.avsc"), "--url", service.url)


def test_a_schema_that_is_none_fails_the_check_with_the_reason(service: InThread, tmp_path: Path) -> None:
    (tmp_path / "bad.avsc").write_text('{"type": "recrod"}')
    result = CliRunner().invoke(registry, ["check", "orders", str(tmp_path / "bad.avsc"), "--url", service.url])
    assert result.exit_code == 1 and "recrod" in result.output and "Traceback" not in result.output


def test_a_schema_is_checked_with_what_it_refers_to(ask: Ask, service: InThread, tmp_path: Path) -> None:
    ask.register("common", V1)
    (tmp_path / "line.avsc").write_text('{"type": "array", "items": "shop.Order"}')
    arguments = ["lines", str(tmp_path / "line.avsc"), "--url", service.url, "--reference"]
    assert "would take it" in _run("check", *arguments, "shop.Order=common:1")
    assert CliRunner().invoke(registry, ["check", *arguments, "common"]).exit_code == 2
    assert "lines  v1" in _run("register", *arguments, "shop.Order=common:1")


def test_a_registry_that_is_not_there_is_said_so() -> None:
    result = CliRunner().invoke(registry, ["list", "--url", "http://127.0.0.1:1"])
    assert result.exit_code == 3 and "127.0.0.1:1" in result.output and "Traceback" not in result.output


def test_a_check_without_an_answer_is_no_refusal(tmp_path: Path) -> None:
    """A build must not take a registry that is down for a schema that does not fit."""
    (tmp_path / "next.avsc").write_text(V2)
    result = CliRunner().invoke(registry, ["check", "orders", str(tmp_path / "next.avsc"), "--url", "http://127.0.0.1:1"])
    assert result.exit_code == 3


@pytest.mark.parametrize(("content", "told"), [(b"\xff\xfe{}", "no text in UTF-8"), (b" \n", "is empty")])
def test_a_file_that_holds_no_schema_is_told_before_the_registry_is_asked(
    content: bytes, told: str, ask: Ask, service: InThread, tmp_path: Path
) -> None:
    ask.register("orders", V1)
    (tmp_path / "bad.avsc").write_bytes(content)
    for command in ("register", "check"):
        result = CliRunner().invoke(registry, [command, "orders", str(tmp_path / "bad.avsc"), "--url", service.url])
        assert result.exit_code == 2 and told in result.output


def test_a_byte_order_mark_is_no_part_of_a_schema(service: InThread, tmp_path: Path) -> None:
    (tmp_path / "marked.avsc").write_bytes(b"\xef\xbb\xbf" + V1.encode())
    assert "orders  v1" in _run("register", "orders", str(tmp_path / "marked.avsc"), "--url", service.url)


def test_names_of_subjects_do_nothing_in_a_terminal(service: InThread, tmp_path: Path) -> None:
    (tmp_path / "v1.avsc").write_text(V1)
    _run("register", "a\u202eb", str(tmp_path / "v1.avsc"), "--url", service.url)
    assert "a\\u202eb  v1 of 1" in _run("list", "--url", service.url)
    for name, code in (("\x1b[31m", 1), ("", 2)):
        result = CliRunner().invoke(registry, ["register", name, str(tmp_path / "v1.avsc"), "--url", service.url], color=True)
        assert result.exit_code == code and "\x1b" not in result.output


def test_an_account_is_written_with_its_hash_only(tmp_path: Path) -> None:
    path = tmp_path / "accounts.json"
    shown = _run("account", "ci", "--file", str(path), "--role", "write", "--prefix", "orders.")
    token = shown.split("bearer")[1].split()[0]
    assert token.removeprefix("ci.") not in path.read_text()
    assert path.stat().st_mode & 0o077 == 0
    admitted = Accounts.load(path).admit(f"Bearer {token}")
    assert admitted is not None and admitted.name == "ci"


def _avro_file(path: Path, schema: str, records: list[dict[str, object]]) -> str:
    with path.open("wb") as out:
        fastavro.writer(out, fastavro.parse_schema(json.loads(schema)), records)
    return str(path)


@pytest.mark.parametrize("content", [b"not json", b"\xff\xfe", b'{"name": "ana"}', b'[{"name": "ana"}]'])
def test_a_file_that_is_no_accounts_file_is_not_written_over(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "accounts.json"
    path.write_bytes(content)
    result = CliRunner().invoke(registry, ["account", "ana", "--file", str(path)])
    assert result.exit_code == 2 and f"{path} is no accounts file" in result.output
    assert path.read_bytes() == content


def test_inventory_of_files_names_the_strictest_level(tmp_path: Path) -> None:
    first = _avro_file(tmp_path / "1.avro", V1, [{"id": "a"}, {"id": "b"}])
    second = _avro_file(tmp_path / "2.avro", V2, [{"id": "a", "qty": 1}])
    third = _avro_file(tmp_path / "3.avro", CLASH, [{"id": 1}])
    found = json.loads(_run("inventory", first, second, "--json"))
    assert [(s["records"], s["origin"]) for s in found["seen"]] == [(2, "1.avro"), (1, "2.avro")]
    assert found["advice"] == "FULL_TRANSITIVE"
    worse = _run("inventory", first, second, third)
    assert "NONE is the strictest level" in worse and "reasons against" in worse


def test_inventory_of_json_lines_infers(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"id": 1, "tags": ["x"]}\n{"id": 2.5}\n\nnonsense\n')
    found = json.loads(_run("inventory", str(tmp_path / "a.jsonl"), "--json"))
    (seen,) = found["seen"]
    assert json.loads(seen["schema"])["properties"]["id"] == {"type": "number"}
    assert json.loads(seen["schema"])["required"] == ["id"]
    assert found["unreadable"] == {"a.jsonl: not JSON": 1}


def test_inventory_of_records_goes_by_their_ids(ask: Ask, service: InThread) -> None:
    ask.register("s", V1)
    records = [encode_header(1) + b"\2a", encode_header(1) + b"\2b", encode_header(9) + b"x", b'{"id": 1}', b"\xff"]
    found = of_records(records, RegistryClient(service.url), "topic")
    assert [(s.kind, s.schema_id, s.records) for s in found.seen] == [("AVRO", 1, 2), ("JSON", None, 1)]
    assert found.unreadable == {"unknown_id 9": 1, "bad_magic": 1}
    assert found.advice() == "NONE"


def test_inventory_of_a_topic(ask: Ask, service: InThread) -> None:
    from confluent_kafka import Producer

    ask.register("orders-value", V1)
    ask.register("orders-value", V2)
    producer = Producer({"bootstrap.servers": "ignored", "test.mock.num.brokers": 1})  # brokers of librdkafka's own
    for schema_id in (1, 1, 2):
        producer.produce("orders", encode_header(schema_id) + b"\2a")
    assert producer.flush(20) == 0
    broker = next(iter(producer.list_topics(timeout=20).brokers.values()))
    output = _run("inventory", "--topic", "orders", "--bootstrap", f"{broker.host}:{broker.port}",
                  "--url", service.url, "--json")  # fmt: skip
    found = json.loads(output)
    assert [(s["id"], s["records"]) for s in found["seen"]] == [(1, 2), (2, 1)]
    assert found["advice"] == "FULL_TRANSITIVE"
