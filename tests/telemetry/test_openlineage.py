"""Runs told to OpenLineage: events that its schemas accept, data sets and columns by name, and a server that holds nothing back."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from jsonschema import Draft202012Validator, FormatChecker
from referencing import Registry, Resource
from tests.cli.stated import BATCHES, defined, ran
from tests.engine.crash_driver import Here
from tests.telemetry.collector import Collector

import eventide as ev
from eventide.cli.loading import load
from eventide.cli.main import main
from eventide.engine.run import Run
from eventide.errors import DefinitionError, SinkRefused
from eventide.telemetry.columns import Origin, lineage
from eventide.telemetry.datasets import Dataset, read_from, written_to
from eventide.telemetry.openlineage import FACETS, OpenLineage
from eventide.telemetry.post import Post

SCHEMAS = Path(__file__).parent / "openlineage"
COMMON = {"event_time": "ts", "watermark": ev.bounded("5 s")}


class Kept:
    """Takes events, and keeps them."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []

    def send(self, event: Any) -> None:
        self.events.append(json.loads(json.dumps(event)))

    def flush(self) -> bool:
        return True


def told(file: Path, **how: Any) -> list[dict[str, Any]]:
    post = Kept()
    ran(file, BATCHES, [80, 140], follow=[OpenLineage(post, "payments", clock=lambda: 1_790_000_000_123_456)], **how)
    return post.events


def check(event: dict[str, Any]) -> None:
    """By the schema of events, and of each facet the schema that it names."""
    known = [json.loads(path.read_text()) for path in SCHEMAS.glob("*.json")]
    registry: Any = Registry().with_resources((one["$id"], Resource.from_contents(one)) for one in known)

    def valid(schema: dict[str, Any], value: Any) -> None:
        Draft202012Validator(schema, registry=registry, format_checker=FormatChecker()).validate(value)

    valid({"$ref": event["schemaURL"]}, event)
    holders = [event["run"], event["job"], *event["inputs"], *event["outputs"]]
    for holder in holders:
        for facets in (holder.get(name, {}) for name in ("facets", "inputFacets", "outputFacets")):
            for name, facet in facets.items():
                assert facet["_schemaURL"] in {one["$id"] for one in known}, name
                valid({"$ref": facet["_schemaURL"]}, {name: facet})


def test_every_facet_has_its_schema_here() -> None:
    assert {f"{name.rpartition('/')[2]}.json" for name in FACETS.values()} == {p.name for p in SCHEMAS.glob("*Facet.json")}


def test_a_run_that_ends_well_says_what_it_read_and_wrote(tmp_path: Path) -> None:
    start, end = told(defined(tmp_path))
    for event in (start, end):
        check(event)
    assert (start["eventType"], end["eventType"]) == ("START", "COMPLETE") and start["run"]["runId"] == end["run"]["runId"]
    assert start["job"]["namespace"] == "payments" and start["job"]["name"] == "p"
    assert start["eventTime"].startswith("2026-09-21T14:13:20.123456")
    [read] = end["inputs"]
    assert (read["namespace"], read["name"]) == ("file", str(tmp_path / "landing"))
    assert read["inputFacets"]["inputStatistics"]["rowCount"] == 6
    quick, patient, late = end["outputs"]
    assert quick["name"] == str(tmp_path / "state/panes/quick") and late["name"] == str(tmp_path / "state/late/patient")
    assert (
        quick["outputFacets"]["outputStatistics"]["rowCount"] > 0
        and "outputStatistics" not in start["outputs"][0]["outputFacets"]
    )
    assert [column["name"] for column in quick["facets"]["schema"]["fields"]] == [
        "window_start",
        "window_end",
        "bank",
        "total",
        "n",
    ]
    total = quick["facets"]["columnLineage"]["fields"]["total"]["inputFields"]
    assert [(one["name"], one["field"], one["transformations"]) for one in total] == [
        (str(tmp_path / "landing"), "paise", [{"type": "DIRECT", "subtype": "AGGREGATION"}])
    ]
    assert patient["facets"]["columnLineage"]["fields"]["bank"]["inputFields"][0]["transformations"][0]["subtype"] == "IDENTITY"


def test_what_an_earlier_run_did_is_not_told_again(tmp_path: Path) -> None:
    file = defined(tmp_path)
    told(file)
    post = Kept()
    run = Run(load(str(file)), Here(), str(tmp_path / "state"), followers=[OpenLineage(post, "payments")])  # type: ignore[arg-type]
    run.open()
    run.close()
    assert [event["eventType"] for event in post.events] == ["START", "COMPLETE"]
    assert all("outputStatistics" not in one["outputFacets"] for event in post.events for one in event["outputs"])


def test_a_run_that_fails_says_why_without_passwords(tmp_path: Path) -> None:
    def fail(point: str) -> None:
        if point == "deliver":
            raise SinkRefused("no rights at postgresql://me:secret@db/upi")

    post = Kept()
    with pytest.raises(SinkRefused):
        ran(defined(tmp_path), BATCHES[:1], [80], follow=[OpenLineage(post, "payments")], hook=fail)
    assert [event["eventType"] for event in post.events] == ["START", "FAIL"]
    check(post.events[1])
    said = post.events[1]["run"]["facets"]["errorMessage"]["message"]
    assert said == "SinkRefused: no rights at postgresql://me:***@db/upi"


def test_a_long_run_says_now_and_then_how_far_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("eventide.telemetry.openlineage.EVERY", 0.0)
    events = told(defined(tmp_path))
    assert [event["eventType"] for event in events] == ["START", "RUNNING", "RUNNING", "COMPLETE"]
    check(events[1])
    assert [event["inputs"][0]["inputFacets"]["inputStatistics"]["rowCount"] for event in events[1:]] == [4, 6, 6]


NAMED = [
    (ev.postgres("postgresql://me:secret@db/upi"), ("postgres://db:5432", "upi.public.out")),
    (ev.postgres("host=db port=5433 dbname=upi password='a b'", "t", schema="s"), ("postgres://db:5433", "upi.s.t")),
    (ev.kafka_topic("b1:9092,b2:9092", "alerts"), ("kafka://b1:9092", "alerts")),
    (ev.parquet("s3://lake/out"), ("s3://lake", "out/out")),
    (ev.delta("abfss://c@acc.dfs.core.windows.net/t"), ("abfss://c@acc.dfs.core.windows.net", "t")),
    (ev.sqlite("/srv/upi.db"), ("sqlite:///srv/upi.db", "out")),
    (ev.duckdb("/srv/upi.duckdb", "t"), ("duckdb:///srv/upi.duckdb", "t")),
    (ev.clickhouse("clickhouse://me:secret@ch:9000/upi"), ("clickhouse://ch:9000", "upi.out")),
    (ev.bigquery("acme.sales", "t"), ("bigquery", "acme.sales.t")),
    (ev.redis("redis://:secret@cache/0"), ("redis://cache:6379", "out")),
    (ev.webhook("https://me:secret@hooks.example/upi?token=secret"), ("https://hooks.example", "/upi")),
    (ev.console(), None),
]  # fmt: skip


@pytest.mark.parametrize(("sink", "known"), NAMED, ids=[type(sink).__name__ for sink, _ in NAMED])
def test_a_sink_is_named_as_others_name_it(sink: Any, known: tuple[str, str] | None) -> None:
    named = written_to(sink, "out")
    assert named == known and "secret" not in str(named)


def test_a_source_is_named_as_others_name_it() -> None:
    topics = ev.kafka("pay", servers="b1:9092", topic=["upi", "imps"], value=ev.json("ts timestamp"), **COMMON)  # type: ignore[arg-type]
    assert read_from(topics) == [Dataset("kafka://b1:9092", "upi"), Dataset("kafka://b1:9092", "imps")]
    lake = ev.delta_table("pay", "s3a://lake/pay", **COMMON)  # type: ignore[arg-type]
    assert read_from(lake) == [Dataset("s3://lake", "pay")]
    assert read_from(ev.stream("pay", None, **COMMON)) == []  # type: ignore[arg-type]


def files(name: str, columns: str) -> Any:
    return ev.files(name, f"{name}/", schema=columns, **COMMON)  # type: ignore[arg-type]


def ways(origins: frozenset[Origin]) -> set[str]:
    return {f"{one.source}.{one.column} {one.how[1]}" for one in origins}


def test_columns_are_followed_through_views_and_stages() -> None:
    pay = files("pay", "ts timestamp, bank string, paise bigint, kind string")
    minutes = pay.window(ev.tumbling("1 minute"), by="bank").agg(total=ev.sum("paise", where="kind = 'upi'"), n=ev.count())
    hours = minutes.results(late=ev.drop()).window(ev.tumbling("1 hour")).agg(most=ev.max("total"))
    view = minutes.where("n > 2").select(mean="total / n", who="bank")
    pipeline = ev.Pipeline("p", view.to("view", late=ev.drop()), hours.to("hours", late=ev.drop()))
    shown = lineage(pipeline, pipeline.output("view"))
    assert shown is not None and shown.columns.keys() == {"bank", "window_start", "window_end", "mean", "who"}
    assert ways(shown.columns["mean"]) == {"pay.paise AGGREGATION", "pay.kind CONDITIONAL"}
    assert ways(shown.columns["who"]) == {"pay.bank TRANSFORMATION"} and ways(shown.columns["bank"]) == {"pay.bank IDENTITY"}
    assert ways(shown.decided) == {"pay.ts GROUP_BY", "pay.bank GROUP_BY"}
    above = lineage(pipeline, pipeline.output("hours"))
    assert above is not None and ways(above.columns["most"]) == {"pay.paise AGGREGATION", "pay.kind AGGREGATION"}


def test_columns_of_pairs_are_those_of_their_sides_and_what_a_function_makes_is_not_guessed() -> None:
    left, right = (
        files("orders", "ts timestamp, id string, paise bigint"),
        files("pays", "ts timestamp, id string, bank string"),
    )
    join = left.join(right, on="id", within=("0 s", "1 minute"), late=ev.drop(), prefix=("", "pay_"))
    pairs = [("id", (0, "id")), ("paise", (0, "paise")), ("pay_bank", (1, "bank"))]
    pipeline = ev.Pipeline(
        "p", join.to("pairs"), join.window(ev.tumbling("1 hour"), by="pay_bank").agg(t=ev.sum("paise")).to("t", late=ev.drop())
    )
    made = lineage(pipeline, pipeline.output("pairs"), pairs)
    assert made is not None and ways(made.columns["pay_bank"]) == {"pays.bank IDENTITY"}
    assert {"orders.id JOIN", "pays.id JOIN"} <= ways(made.decided)
    windows = lineage(pipeline, pipeline.output("t"), pairs)
    assert windows is not None and ways(windows.columns["t"]) == {"orders.paise AGGREGATION"}
    changed = files("pay", "ts timestamp, paise bigint").transform(lambda frame: frame)
    opaque = ev.Pipeline("p", changed.window(ev.tumbling("1 minute")).agg(t=ev.sum("paise")).to("t", late=ev.drop()))
    assert lineage(opaque, opaque.output("t")) is None


def test_events_reach_the_server_in_order_with_the_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENLINEAGE_API_KEY", "hush")
    with Collector(503) as server:
        follower = ev.openlineage(server.url, namespace="payments")
        follower.post.pause = 0.01
        ran(defined(tmp_path), BATCHES, [80, 140], follow=[follower])
        said = [json.loads(body)["eventType"] for body in server.posted("/api/v1/lineage")]
    assert said == ["START", "START", "COMPLETE"], "what the server could not take is sent again, before what comes after it"
    assert {headers["authorization"] for _, headers, _ in server.got} == {"Bearer hush"}


@pytest.mark.parametrize(("answers", "asked"), [((500, 500, 500), 3), ((400,), 1), ((307,), 1)])
def test_what_a_server_does_not_take_is_told_and_holds_nothing_back(
    answers: tuple[int, ...], asked: int, caplog: pytest.LogCaptureFixture
) -> None:
    with Collector(*answers) as server, caplog.at_level(logging.WARNING, "eventide"):
        post = Post(f"{server.url}/x", {}, pause=0.01)
        post.send({"eventType": "START"})
        post.send({"eventType": "COMPLETE"})
        assert post.flush()
        assert [json.loads(body)["eventType"] for body in server.posted("/x")] == ["START"] * asked + ["COMPLETE"]
        assert server.posted("/elsewhere") == [], "a key is not carried to another place"
    assert post.given_up == 1 and "event=START" in caplog.text


def test_an_address_that_is_none_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("OPENLINEAGE_URL", raising=False)
    for url in (None, "localhost:5000", "file:///etc/passwd"):
        with pytest.raises(DefinitionError, match="OPENLINEAGE_URL"):
            ev.openlineage(url)
    asked = CliRunner().invoke(main, ["run", str(defined(tmp_path)), "--openlineage", "nowhere"])
    assert asked.exit_code == 2 and "give the address of a server" in " ".join(asked.output.split())
