"""What the recorded transcript leaves open: contexts, references, levels, formats, deletes and identity."""

from __future__ import annotations

import json

from eventide.registry.identity import guid
from tests.registry.conftest import Ask
from tests.registry.schemas import CLASH, V1, V2, V3, order

ADDRESS = '{"type":"record","name":"Address","namespace":"shop","fields":[{"name":"city","type":"string"}]}'
CUSTOMER = '{"type":"record","name":"Customer","namespace":"shop","fields":[{"name":"at","type":"Address"}]}'
REFERENCES = [{"name": "shop.Address", "subject": "address", "version": 1}]


def test_ids_are_counted_per_context_and_the_guid_is_the_same(ask: Ask) -> None:
    ask.register("a", V1)
    here = ask.register("b", V2)
    there = ask.register(":.test:b", V2)
    assert (here["id"], there["id"]) == (2, 1)
    assert here["guid"] == there["guid"]
    ids = ask.ok("GET", f"/schemas/guids/{here['guid']}/ids")
    assert ids == [{"context": ".", "id": 2}, {"context": ".test", "id": 1}]
    assert ask.ok("GET", "/contexts/.test/schemas/ids/1")["subject"] == ":.test:b"
    assert ask.ok("GET", "/contexts/test/subjects/b/versions/latest")["subject"] == ":.test:b"
    assert ask.ok("GET", "/subjects?subjectPrefix=:*:b") == [":.test:b", "b"]
    assert ask.ok("GET", "/subjects?subjectPrefix=") == ["a", "b"]


def test_a_plain_subject_is_sought_in_the_other_contexts(ask: Ask) -> None:
    ask.register(":.test:only-there", V1)
    assert ask.ok("GET", "/subjects/only-there/versions/1")["subject"] == ":.test:only-there"
    assert ask.ok("POST", "/subjects/only-there", {"schema": V1})["subject"] == ":.test:only-there"
    assert ask.ok("GET", "/schemas/ids/1?subject=only-there")["subject"] == ":.test:only-there"


def test_a_context_has_settings_of_its_own(ask: Ask) -> None:
    ask.ok("PUT", "/contexts/.test/config", {"compatibility": "NONE"})
    assert ask.ok("GET", "/config/:.test:") == {"compatibilityLevel": "NONE"}
    assert ask.ok("GET", "/config/:.test:x?defaultToGlobal=true") == {"compatibilityLevel": "NONE"}
    ask.register(":.test:x", V1)
    ask.register(":.test:x", CLASH)
    ask.ok("PUT", "/contexts/.test/mode", {"mode": "READONLY"})
    refused = ask("POST", "/subjects/:.test:x/versions", {"schema": V3})
    assert refused.json()["message"] == "Subject :.test:x in context :.test: is in read-only mode"


def test_a_repeated_registration_is_answered_even_where_nothing_may_be_written(ask: Ask) -> None:
    first = ask.register("s", V1)
    ask.ok("PUT", "/mode", {"mode": "READONLY"})
    assert ask.register("s", V1) == first
    assert ask("POST", "/subjects/s/versions", {"schema": V2}).json()["error_code"] == 42205
    assert ask("DELETE", "/subjects/s").json()["error_code"] == 42205
    ask.ok("DELETE", "/mode")
    assert ask.register("s", V2)["version"] == 2


def test_references_are_pinned_resolved_and_guarded(ask: Ask) -> None:
    ask.register("address", ADDRESS)
    made = ask.register("customer", CUSTOMER, references=REFERENCES)
    assert made["references"] == REFERENCES
    written_out = ask.ok("GET", "/schemas/ids/2?format=resolved")["schema"]
    assert json.loads(written_out)["fields"][0]["type"]["fields"][0]["name"] == "city"
    assert ask.register("customer", written_out)["version"] == 1, "the same, with its reference written out"
    assert ask("DELETE", "/subjects/address").json()["error_code"] == 42206
    ask.ok("DELETE", "/subjects/customer")
    assert ask.ok("DELETE", "/subjects/address") == [1]
    assert ask("DELETE", "/subjects/address?permanent=true").json()["error_code"] == 42206
    ask.ok("DELETE", "/subjects/customer?permanent=true")
    assert ask.ok("DELETE", "/subjects/address?permanent=true") == [1]


def test_a_reference_without_a_context_is_in_its_parents(ask: Ask) -> None:
    ask.register(":.test:address", ADDRESS)
    ask.register(":.test:customer", CUSTOMER, references=REFERENCES)
    qualified = ask.ok("GET", "/subjects/:.test:customer/versions/1?referenceFormat=qualified")
    assert qualified["references"][0]["subject"] == ":.test:address"
    assert ask("POST", "/subjects/customer/versions", {"schema": CUSTOMER, "references": REFERENCES}).status_code == 422


def test_property_order_does_not_make_a_new_version(ask: Ask) -> None:
    one = order(("id", "string"), b=1, a=2)
    other = order(("id", "string"), a=2, b=1)
    assert ask.register("s", one)["id"] == ask.register("s", other)["id"]
    assert ask.register("elsewhere", other)["id"] == 2, "across subjects the text counts"
    assert ask.ok("POST", "/subjects/n/versions?normalize=True", {"schema": one})["id"] == \
        ask.ok("POST", "/subjects/m/versions?normalize=true", {"schema": other})["id"]  # fmt: skip


def test_every_level_looks_where_it_should(ask: Ask) -> None:
    gap = order(("id", "string"), ("qty", "int"))  # reads V2 but not V1
    for level, accepted in (("BACKWARD", True), ("BACKWARD_TRANSITIVE", False), ("FORWARD", True), ("FULL", True),
                            ("FULL_TRANSITIVE", False), ("FORWARD_TRANSITIVE", True), ("NONE", True)):  # fmt: skip
        subject = f"s-{level}"
        ask.ok("PUT", f"/config/{subject}", {"compatibility": level.lower()})
        ask.register(subject, V1)
        ask.register(subject, V2)
        answer = ask("POST", f"/compatibility/subjects/{subject}/versions", {"schema": gap}).json()
        assert answer["is_compatible"] is accepted, level
        assert (ask("POST", f"/subjects/{subject}/versions", {"schema": gap}).status_code == 200) is accepted


def test_full_names_reader_and_writer_on_both_sides(ask: Ask) -> None:
    ask.ok("PUT", "/config/s", {"compatibility": "FULL"})
    ask.register("s", V1)
    answer = ask.ok("POST", "/compatibility/subjects/s/versions?verbose=true", {"schema": CLASH})
    assert [m[:12] for m in answer["messages"]] == [
        "{errorType:'",
        "{errorType:'",
        "{oldSchemaVe",
        "{oldSchema: ",
        "{validateFie",
    ]
    reasons = ask.ok("POST", "/eventide/v1/compatibility/subjects/s/versions", {"schema": CLASH})
    assert {r["reader"] for r in reasons["reasons"]} == {"new", "old"}
    assert reasons["version"] == 1 and reasons["level"] == "FULL"


def test_soft_deleted_ids_resolve_and_hard_deleted_ones_do_not(ask: Ask) -> None:
    ask.register("s", V1)
    ask.ok("DELETE", "/subjects/s/versions/1")
    assert ask.ok("GET", "/schemas/ids/1")["deleted"] is True
    assert ask.ok("GET", "/schemas/ids/1/versions?deleted=true") == [{"subject": "s", "version": 1}]
    ask.ok("DELETE", "/subjects/s/versions/1?permanent=true")
    assert ask("GET", "/schemas/ids/1").status_code == 404
    assert ask("GET", f"/schemas/guids/{guid(json.dumps(json.loads(V1), separators=(',', ':')))}").status_code == 404
    assert ask.register("s", V1)["id"] == 2, "an id is never given twice"


def test_an_id_that_another_subject_holds_survives_a_hard_delete(ask: Ask) -> None:
    ask.register("a", V1)
    ask.register("b", V1)
    ask.ok("DELETE", "/subjects/a")
    ask.ok("DELETE", "/subjects/a?permanent=true")
    assert ask.ok("GET", "/schemas/ids/1")["subject"] == "b"


def test_the_version_mark_in_the_metadata_is_kept_up(ask: Ask) -> None:
    marked = {"properties": {"confluent:version": "1"}}
    assert ask.register("s", V1, metadata=marked)["metadata"] == marked
    assert ask.register("s", V1)["version"] == 1
    second = ask.register("s", V2)
    assert second["metadata"] == {"properties": {"confluent:version": "2"}}
    assert ask("POST", "/subjects/s/versions", {"schema": V3, "version": 9}).status_code == 422
    assert ask.register("s", V3, version=3)["version"] == 3


def test_import_keeps_ids_and_versions(ask: Ask) -> None:
    ask.ok("PUT", "/mode/:.copy:", {"mode": "IMPORT"})
    assert ask.register(":.copy:s", V1, id=100, version=5)["id"] == 100
    assert ask.register(":.copy:s", CLASH, id=101, version=6)["version"] == 6, "imports are not checked"
    assert ask.ok("GET", "/subjects/:.copy:s/versions") == [5, 6]
    ask.ok("PUT", "/mode/:.copy:", {"mode": "READWRITE"})
    assert ask.register(":.copy:t", V2)["id"] == 102
    assert ask("PUT", "/mode/:.copy:", {"mode": "IMPORT"}).json()["error_code"] == 42205
    ask.ok("PUT", "/mode/:.copy:?force=true", {"mode": "IMPORT"})


def test_config_null_takes_a_setting_away(ask: Ask) -> None:
    ask.ok("PUT", "/config/s", {"compatibility": "FULL", "compatibilityGroup": "major", "normalize": True})
    assert ask.ok("PUT", "/config/s", {"compatibilityGroup": None}) == {"compatibility": "FULL", "normalize": True}
    ask.ok("PUT", "/config", {"normalize": True, "compatibility": "NONE"})
    ask.ok("PUT", "/config/t", {"compatibility": "FORWARD"})
    in_scope = ask.ok("GET", "/config/t?defaultToGlobal=true")
    assert in_scope == {"normalize": True, "compatibilityLevel": "FORWARD"}


def test_many_holders_come_in_the_order_of_a_java_map(ask: Ask) -> None:
    for name in ("orders-value", "payments-value", "a", "zz", "topic", "Customer"):
        ask.register(name, V1)
    # What java.util.concurrent.ConcurrentHashMap gives for these keys.
    from eventide.registry.reading import _java_hash

    assert _java_hash("a") == 97 and _java_hash("zz") == 122 * 31 + 122
    assert sorted(ask.ok("GET", "/schemas/ids/1/subjects")) == sorted(
        ["orders-value", "payments-value", "a", "zz", "topic", "Customer"]
    )
    assert ask.ok("GET", "/schemas/ids/1/subjects")[0] == ask.ok("GET", "/schemas/ids/1")["subject"]


def test_listing_is_paged_at_a_thousand(ask: Ask) -> None:
    for i in range(3):
        ask.register(f"s{i}", V1)
        ask.register(f"s{i}", V2)
    assert len(ask.ok("GET", "/schemas?limit=4")) == 4
    assert [e["subject"] for e in ask.ok("GET", "/schemas?latestOnly=true&offset=1")] == ["s1", "s2"]
    ask.ok("DELETE", "/subjects/s1/versions/2")
    assert [(e["subject"], e["version"]) for e in ask.ok("GET", "/schemas?latestOnly=true&subjectPrefix=s1")] == [("s1", 1)]
    assert len(ask.ok("GET", "/schemas?deleted=true")) == 6


def test_an_alias_is_followed_everywhere_and_at_once(ask: Ask) -> None:
    ask.register("old", V1)
    ask.register("new", V1)
    ask.ok("PUT", "/config/name", {"alias": "old"})
    for _ in range(2):
        assert ask.ok("GET", "/schemas/ids/1?subject=name")["subject"] == "old"
    ask.ok("PUT", "/config/name", {"alias": "new"})
    assert ask.ok("GET", "/schemas/ids/1?subject=name")["subject"] == "new"
    assert ask.register("name", V2)["version"] == 2
    assert ask.ok("GET", "/subjects/new/versions") == [1, 2]
    assert ask.ok("POST", "/compatibility/subjects/name/versions/2", {"schema": V3})["is_compatible"] is True
