"""A broker that asks for a password: the options reach every client, and the password reaches nobody else."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import eventide as ev
from eventide.errors import SinkRefused, SourceRefused, SourceUnavailable
from eventide.testing.broker import KafkaBroker
from tests.sources.records import BASE, Paid, as_json, new_topic, send
from tests.support.postgres import free_port

SECRET = "s3cret-of-alice"
LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
PAYMENTS = [Paid(BASE + n * 10_000, "a", 1, BASE + n * 10_000) for n in range(5)]


class PasswordBroker(KafkaBroker):
    """Beside its open door one where a name and a password are asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.guarded = f"127.0.0.1:{free_port()}"
        path = self.home / "server.properties"
        settings = path.read_text()
        for name in ("listeners", "advertised.listeners"):
            settings = re.sub(rf"(?m)^({re.escape(name)}=.*)$", rf"\1,GUARDED://{self.guarded}", settings)
        settings = settings.replace("PLAINTEXT:PLAINTEXT\n", "PLAINTEXT:PLAINTEXT,GUARDED:SASL_PLAINTEXT\n")
        settings += "sasl.enabled.mechanisms=PLAIN\nlistener.name.guarded.sasl.enabled.mechanisms=PLAIN\n"
        settings += f'listener.name.guarded.plain.sasl.jaas.config={LOGIN} user_alice="{SECRET}";\n'
        path.write_text(settings)


@pytest.fixture(scope="module")
def guarded() -> Iterator[PasswordBroker]:
    with PasswordBroker() as broker:
        assert isinstance(broker, PasswordBroker)
        yield broker


def security(password: str) -> dict[str, str]:
    return {
        "kafka.security.protocol": "SASL_PLAINTEXT",
        "kafka.sasl.mechanism": "PLAIN",
        "kafka.sasl.jaas.config": f'{LOGIN} username="alice" password="{password}";',
    }


def pipeline(servers: str, topic: str, state: Path, options: dict[str, str], sink: Any = None) -> ev.Pipeline:
    paid = ev.kafka(
        "paid", servers=servers, topic=topic, value=ev.json("at bigint, bank string, paise bigint"), event_time="at",
        watermark=ev.bounded("1 second"), options=options,
    )  # fmt: skip
    sums = paid.window(ev.tumbling("10 seconds")).agg(total=ev.sum("paise"))
    return ev.Pipeline("paid", sums.to("totals", sink, late=ev.drop()), state=str(state))


def written_by(state: Path) -> bytes:
    """Everything in a state directory: journal, definition, Spark's checkpoint, tables."""
    return b"".join(path.read_bytes() for path in state.rglob("*") if path.is_file())


def test_a_password_opens_source_and_sink_and_is_written_nowhere(
    spark: Any, guarded: PasswordBroker, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    topic, results = new_topic(guarded, "guarded"), new_topic(guarded, "results")
    send(guarded.servers, topic, [(as_json(p), p) for p in PAYMENTS])
    config = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "alice",
        "sasl.password": SECRET,
    }
    sink = ev.kafka_topic(guarded.guarded, results, config=config)
    made = pipeline(guarded.guarded, topic, tmp_path / "state", security(SECRET), sink)
    said: list[Any] = []
    handle = made.run(spark, on_progress=said.append)
    assert handle.rows["in"] == 5
    out, err = capfd.readouterr()
    shown = [repr(made), made.explain(), repr(made.aggregation.stream.sources), repr(sink), repr(said), out, err]
    assert not [text for text in shown if SECRET in text]
    assert SECRET.encode() not in written_by(tmp_path / "state")


def test_a_wrong_password_is_named_and_not_shown(
    spark: Any, guarded: PasswordBroker, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    topic = new_topic(guarded, "refused")
    with pytest.raises(SourceRefused, match=r"'paid'.*wrong credentials") as caught:
        pipeline(guarded.guarded, topic, tmp_path / "state", security("wr0ng-guess")).run(spark)
    out, err = capfd.readouterr()
    assert "wr0ng-guess" not in f"{caught.value}{caught.value.__context__}{out}{err}"
    config = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.username": "alice"}
    sink = ev.kafka_topic(guarded.guarded, topic, config={**config, "sasl.password": "wr0ng-guess"})
    made = pipeline(guarded.guarded, topic, tmp_path / "other", security(SECRET), sink)
    with pytest.raises(SinkRefused, match=r"(?i)authentication|password|credentials") as refused:
        made.run(spark)
    out, err = capfd.readouterr()
    assert "wr0ng-guess" not in f"{refused.value}{out}{err}"


def test_options_that_cannot_work_are_named(spark: Any, guarded: PasswordBroker, tmp_path: Path) -> None:
    options = {
        "kafka.security.protocol": "SSL",
        "kafka.ssl.truststore.location": str(tmp_path / "nowhere.jks"),
        "kafka.ssl.truststore.password": SECRET,
    }
    with pytest.raises(SourceRefused, match=r"nowhere\.jks") as caught:
        pipeline(guarded.servers, "any", tmp_path / "state", options).run(spark)
    assert SECRET not in str(caught.value)


def test_a_broker_that_is_not_there_is_named(spark: Any, tmp_path: Path) -> None:
    options = {"kafka.default.api.timeout.ms": "2000", "kafka.request.timeout.ms": "1000"}
    servers = f"127.0.0.1:{free_port()}"
    with pytest.raises(SourceUnavailable, match=f"{servers} does not answer"):
        pipeline(servers, "any", tmp_path / "state", options).run(spark)
