"""Whatever is sent, the answer is the right 4xx, soon."""

from __future__ import annotations

import http.client
import json
import socket
import time
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.registry.conftest import Ask, InThread, fresh_database
from tests.registry.schemas import V1, V2


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def ask(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ask]:
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path_factory.mktemp('bad')}/registry.db"
    else:
        url = fresh_database(request.getfixturevalue("postgres"))
    running = InThread(url)
    yield Ask(running.url)
    running.stop()


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"", 422, 422),
        (b"null", 422, 422),
        (b"{", 400, 400),
        (b"[]", 400, 400),
        (b'"text"', 400, 400),
        (b"\xff\xfe", 400, 400),
        (b'{"schema": {}}', 400, 400),
        (b'{"schema": "\\"int\\"", "id": "x"}', 400, 400),
        (b'{"schema": "\\"int\\"", "id": 99999999999}', 400, 400),
        (b'{"schema": "\\"int\\"", "references": {}}', 400, 400),
        (b'{"schema": "\\"int\\"", "references": [7]}', 400, 400),
        (b'{"schema": "\\"int\\"", "references": [{"name": "a"}]}', 422, 42201),
        (b'{"schema": "\\"int\\"", "metadata": 7}', 400, 400),
        (b'{"schema": "\\"int\\"", "metadata": {"properties": []}}', 400, 400),
        (b'{"schema": "\\ud800"}', 400, 400),
        (b'{"schema": "\\u0000"}', 400, 400),
        (b'{"schema": "\\"int\\"", "references": [{"name": "a", "subject": "\\u0000", "version": 1}]}', 400, 400),
        (b'{"schema": "\\"int\\"", "metadata": {"properties": {"a": "\\u0000"}}}', 400, 400),
        (b"[" * 100_000, 400, 400),
        (b'{"schema": ' + b"[" * 100_000, 400, 400),
        (b'{"a":' * 20_000, 400, 400),
        (b'{"schema": "\\"int\\"", "schemaType": "THRIFT"}', 422, 42201),
        (b'{"schema": "nonsense"}', 422, 42201),
        (b'{"schema": "nonsense", "schemaType": "JSON"}', 422, 42201),
        (b'{"schema": "nonsense", "schemaType": "PROTOBUF"}', 422, 42201),
        (b'{"schema": "bm9uc2Vuc2U=", "schemaType": "PROTOBUF"}', 422, 42201),
    ],
)
def test_bodies(ask: Ask, body: bytes, status: int, code: int) -> None:
    answer = ask("POST", "/subjects/bad/versions", body)
    assert (answer.status_code, answer.json()["error_code"]) == (status, code), answer.text[:300]
    assert ask("GET", "/subjects/bad/versions").status_code == 404


def _nested(depth: int) -> str:
    schema: Any = "int"
    for _ in range(depth):
        schema = {"type": "array", "items": schema}
    text = json.dumps(schema) if depth < 500 else '{"type":"array","items":' * depth + '"int"' + "}" * depth
    return str(text)


@pytest.mark.parametrize(
    "body",
    [
        {"schema": _nested(100_000 // 30)},
        {"schema": '{"allOf":[' * 5_000 + "{}" + "]}" * 5_000, "schemaType": "JSON"},
        {"schema": 'syntax = "proto3"; ' + "message A { " * 3_000 + "}" * 3_000, "schemaType": "PROTOBUF"},
        {"schema": json.dumps({"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}] * 2})},
        {"schema": json.dumps({"type": "record", "name": "1R", "fields": []})},
        {"schema": json.dumps({"type": "enum", "name": "E", "symbols": ["A", "A"]})},
        {"schema": json.dumps({"type": "fixed", "name": "F", "size": -1})},
        {"schema": json.dumps(["int", "int"])},
        {"schema": json.dumps({"type": "record", "name": "R", "fields": [{"name": "a", "type": "R"}]})},
        {"schema": json.dumps({"$ref": "#"}), "schemaType": "JSON"},
        {"schema": 'syntax = "proto3"; message A { string a = 1; string b = 1; }', "schemaType": "PROTOBUF"},
        {"schema": 'syntax = "proto3"; message A { Nothing a = 1; }', "schemaType": "PROTOBUF"},
    ],
)
def test_deep_and_crooked_schemas_are_answered_soon(ask: Ask, body: dict[str, Any]) -> None:
    started = time.process_time()
    answer = ask("POST", "/subjects/deep/versions", body)
    assert answer.status_code in (200, 409, 422), answer.text[:300]
    assert time.process_time() - started < 5


def test_a_schema_that_contains_itself_is_compared_soon(ask: Ask) -> None:
    def tree(extra: list[Any]) -> str:
        branches = [{"name": f"b{i}", "type": ["null", "Tree"], "default": None} for i in range(30)]
        return json.dumps({"type": "record", "name": "Tree", "fields": branches + extra})

    ask.register("tree", tree([]))
    started = time.process_time()
    assert ask.register("tree", tree([{"name": "x", "type": "int", "default": 0}]))["version"] == 2
    assert time.process_time() - started < 5


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("a%2Fb", "a/b"),
        ("%C3%BC%F0%9F%8E%82", "ü🎂"),
        ("a%20b", "a b"),
        ("a+b", "a+b"),
        ("%2E%2E", ".."),
        ("a%3Fb%23c", "a?b#c"),
        ("%25", "%"),
        ("%3Cscript%3E", "<script>"),
        ("'%20OR%201=1%20--", "' OR 1=1 --"),
        ("a%252Fb", "a%2Fb"),
    ],
)
def test_subjects_with_odd_names_are_themselves(ask: Ask, path: str, name: str) -> None:
    registered = ask.register(path, V1)
    assert name in ask.ok("GET", "/subjects")
    assert ask.ok("GET", f"/subjects/{path}/versions/1")["subject"] == name
    assert ask.register(path, V2)["version"] == registered["version"] + 1
    assert ask.ok("PUT", f"/config/{path}", {"compatibility": "NONE"}) == {"compatibility": "NONE"}
    assert ask.ok("DELETE", f"/subjects/{path}") == [1, 2]
    assert ask.ok("DELETE", f"/subjects/{path}?permanent=true") == [1, 2]
    assert ask("GET", f"/config/{path}").status_code == 404


@pytest.mark.parametrize("path", ["%00", "%0A", "%7F", "__GLOBAL", "__EMPTY", ":.__GLOBAL:x", "%C2%85"])
def test_names_that_nobody_may_use(ask: Ask, path: str) -> None:
    answer = ask("POST", f"/subjects/{path}/versions", {"schema": V1})
    assert (answer.status_code, answer.json()["error_code"]) == (422, 42208)


@pytest.mark.parametrize(
    "path",
    ["/subjects/%FF/versions", "/schemas/ids/-", "/schemas/ids/99999999999", "/schemas/ids/1%20", "/subjects//versions",
     "/subjects/../config", "//", "/contexts/a:b:c/subjects", "/schemas/ids/٣", "/subjects?limit=x",
     "/subjects/a/versions/99999999999", "/subjects/a/versions/+-1", "/" + "x/" * 5_000, "/schemas/guids/zzz",
     "/contexts/.c", "/subjects?" + "a=1&" * 200, "/eventide/v1/audit?since=yesterday",
     "/schemas/ids/1?subject=%00", "/eventide/v1/audit?who=%00"],
)  # fmt: skip
def test_odd_paths_are_no_fault_of_ours(ask: Ask, path: str) -> None:
    # http.client, for httpx tidies paths up before it sends them.
    connection = http.client.HTTPConnection(ask.url.removeprefix("http://"), timeout=10)
    connection.request("GET", path.replace("٣", "%D9%A3"))
    answer = connection.getresponse()
    assert 400 <= answer.status < 500 or path == "//"
    assert set(json.loads(answer.read())) <= {"error_code", "message"}
    connection.close()


def test_a_body_that_never_ends_is_cut_off(ask: Ask) -> None:
    host, port = ask.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=10) as raw:
        raw.sendall(b"POST /subjects/s/versions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
        chunk = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"
        received = b""
        try:
            for _ in range(100):
                raw.sendall(chunk)
            received = raw.recv(1000)
        except (BrokenPipeError, ConnectionResetError):
            received = received or b"HTTP/1.1 413"
    assert b" 413" in received[:20]


def test_a_declared_length_above_the_limit_is_refused_at_once(ask: Ask) -> None:
    answer = ask("POST", "/subjects/s/versions", b"x" * (2 * 1024 * 1024 + 1))
    assert (answer.status_code, answer.json()["error_code"]) == (413, 413)


def test_content_types(ask: Ask) -> None:
    good = ("application/json", "application/vnd.schemaregistry+json; charset=utf-8", "application/octet-stream")
    for content_type in good:
        assert ask("POST", "/subjects/ct", {"schema": V1}, headers={"Content-Type": content_type}).status_code == 404
    for content_type in ("text/plain", "application/xml", "application/x-www-form-urlencoded", "nonsense"):
        answer = ask("POST", "/subjects/ct", {"schema": V1}, headers={"Content-Type": content_type})
        assert (answer.status_code, answer.json()["error_code"]) == (415, 415)
    assert ask("GET", "/subjects", headers={"Accept": "text/html"}).status_code == 406
    assert ask("GET", "/subjects", headers={"Accept": "application/json"}).headers["content-type"] == "application/json"
    assert ask("HEAD", "/subjects").content == b""


_names = st.text(min_size=1, max_size=12).filter(lambda t: "/" not in t)
_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)
_avro = st.recursive(
    st.sampled_from(["int", "string", "null", "R", "E", "bytes", ""]),
    lambda inner: (
        st.fixed_dictionaries(
            {"type": st.sampled_from(["record", "array", "map", "enum", "fixed"]) | inner},
            optional={
                "name": st.sampled_from(["R", "E", "", "a.b", "1"]),
                "items": inner,
                "values": inner,
                "symbols": st.lists(st.sampled_from(["A", "B", ""]), max_size=3),
                "size": st.integers(-1, 5),
                "fields": st.lists(
                    st.fixed_dictionaries({"name": st.sampled_from(["a", "b"]), "type": inner}, optional={"default": _values}),
                    max_size=3,
                ),
            },
        )
        | st.lists(inner, max_size=3)
    ),
    max_leaves=8,
)
_bodies = st.fixed_dictionaries(
    {},
    optional={
        "schema": _avro.map(json.dumps) | _values.map(json.dumps) | st.text(max_size=20) | _values,
        "schemaType": st.sampled_from(["AVRO", "JSON", "PROTOBUF", "THRIFT", 7, None]),
        "references": st.lists(
            st.fixed_dictionaries(
                {}, optional={"name": st.text(max_size=3), "subject": st.sampled_from(["s", "t"]), "version": _values}
            ),
            max_size=2,
        )
        | _values,
        "metadata": _values
        | st.fixed_dictionaries({}, optional={"properties": _values, "tags": _values, "sensitive": _values}),
        "ruleSet": _values | st.fixed_dictionaries({}, optional={"domainRules": _values, "migrationRules": _values}),
        "version": _values,
        "id": _values,
        "compatibility": _values,
        "compatibilityGroup": _values,
        "alias": _values,
        "mode": _values,
        "prefix": _values,
        "team": _values,
        "pattern": _values,
        "client": _values,
        "decoded": st.lists(_values | st.fixed_dictionaries({"id": _values}), max_size=2) | _values,
    },
)
_segments = st.sampled_from(
    ["subjects", "s", "t", "versions", "1", "latest", "-1", "schema", "schemas", "ids", "guids", "config", "mode",
     "contexts", ".c", "compatibility", "referencedby", "metadata", "types", "eventide", "v1", "audit", "owners",
     "naming", "usage", "policy", "diff", "health"]
)  # fmt: skip
_paths = st.one_of(
    st.sampled_from(
        ["/subjects/s/versions", "/subjects/t/versions", "/subjects/s", "/compatibility/subjects/s/versions",
         "/compatibility/subjects/s/versions/latest", "/config", "/config/s", "/mode/t", "/eventide/v1/owners",
         "/eventide/v1/naming", "/eventide/v1/usage", "/eventide/v1/compatibility/subjects/s/versions",
         "/contexts/.c/subjects/s/versions"]
    ),
    st.lists(_segments, max_size=6).map(lambda parts: "/" + "/".join(parts)),
    st.lists(_names, max_size=4).map(lambda parts: "/" + "/".join(_quoted(part) for part in parts)),
)  # fmt: skip
_queries = st.dictionaries(
    st.sampled_from(["deleted", "deletedOnly", "normalize", "offset", "limit", "subjectPrefix", "verbose", "format",
                     "permanent", "subject", "fetchMaxId", "key", "value", "from", "to", "prefix", "id", "force"]),
    st.sampled_from(["true", "True", "", "0", "-1", "7", "abc", ":*:", ":.c:", "resolved", "serialized", "é"]),
    max_size=3,
)  # fmt: skip


def _quoted(text: str) -> str:
    from urllib.parse import quote_from_bytes

    return quote_from_bytes(text.encode("utf-8", "surrogatepass"), safe="")


@settings(max_examples=400, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    method=st.sampled_from(["GET", "POST", "PUT", "DELETE", "PATCH", "HEAD"]),
    path=_paths,
    query=_queries,
    body=_bodies | _values,
)
def test_no_request_is_our_fault(ask: Ask, method: str, path: str, query: dict[str, str], body: Any) -> None:
    raw = json.dumps(body).encode() if method in ("POST", "PUT", "PATCH") else None
    answer = ask.http.request(method, ask.url + path, params=query, content=raw, headers={"Content-Type": "application/json"})
    assert answer.status_code < 500, (method, path, query, body, answer.text)
    if answer.status_code >= 400 and method != "HEAD":
        assert set(answer.json()) == {"error_code", "message"}


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(body=_bodies, kind=st.sampled_from(["AVRO", "JSON", "PROTOBUF"]))
def test_no_schema_is_our_fault(ask: Ask, body: dict[str, Any], kind: str) -> None:
    ask.http.request("DELETE", ask.url + "/config/f")
    answer = ask("POST", "/subjects/f/versions", {**body, "schemaType": kind})
    assert answer.status_code in (200, 400, 409, 422), answer.text
