"""No secret in what people see: every sink and source printed, every error raised, every warning shown."""

from __future__ import annotations

import inspect
import logging
import string
import subprocess
import sys
import traceback
import warnings
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import eventide as ev
from eventide import sinks
from eventide.errors import EventideError
from eventide.redaction import masked, secrets_of
from eventide.sinks import Retry
from tests.sinks.panes import SHAPE

ONCE = Retry(give_up_after=0)
DEAD = "127.0.0.1:1"
"""Where nobody listens: every attempt to open fails at once."""
BASE = {"event_time": "at", "watermark": ev.ascending()}

SECRETS = st.text(string.ascii_letters + string.digits + "!$*+,-._~@:/=%&;?#", max_size=20).map(lambda text: f"Zq7x{text}w9K")
"""Marked, so that no ordinary word or number holds one."""

SINKS: dict[str, Callable[[str], Any]] = {
    "postgres": lambda s: sinks.postgres(f"postgresql://me:{quote(s, safe='')}@{DEAD}/x", retry=ONCE),
    "postgres settings": lambda s: sinks.postgres(f"host=127.0.0.1 port=1 user=me password='{s}'", retry=ONCE),
    "clickhouse": lambda s: sinks.clickhouse(f"http://me:{quote(s, safe='')}@{DEAD}/x", retry=ONCE),
    "delta": lambda s: sinks.delta(f"s3://key:{quote(s, safe='')}@lake/t", retry=ONCE),
    "delta options": lambda s: sinks.delta("s3://lake/t", storage_options={"AWS_SECRET_ACCESS_KEY": s}, retry=ONCE),
    "parquet": lambda s: sinks.parquet(f"s3://key:{quote(s, safe='')}@lake/t?endpoint_override={DEAD}", retry=ONCE),
    "iceberg": lambda s: sinks.iceberg({"type": "sql", "uri": f"postgresql://me:{quote(s, safe='')}@{DEAD}/x"}, "a.b", retry=ONCE),
    "iceberg options": lambda s: sinks.iceberg({"type": "sql", "uri": "no://such", "s3.secret-access-key": s}, "a.b", retry=ONCE),
    "kafka": lambda s: sinks.kafka_topic(DEAD, "t", config={"sasl.password": s}, registry=f"http://me:{quote(s, safe='')}@{DEAD}"),
    "webhook": lambda s: sinks.webhook(f"http://me:{quote(s, safe='')}@{DEAD}/x?token={quote(s, safe='')}", headers={"X": s}),
    "duckdb": lambda s: sinks.duckdb(f"md:sales?motherduck_token={quote(s, safe='')}", retry=ONCE),
    "redis": lambda s: sinks.redis(f"redis://me:{quote(s, safe='')}@{DEAD}/0", retry=ONCE),
    "snowflake": lambda s: sinks.snowflake("t", account="acme", user="me", password=s, private_key_passphrase=s, retry=ONCE),
    "bigquery": lambda s: sinks.bigquery("acme.sales", "t", client_options={"api_key": s}, retry=ONCE),
    "merge_sql": lambda s: sinks.merge_sql(_failing(f"cannot reach acme://me:{s}@host/db"), retry=ONCE),
}  # fmt: skip
NEVER_OPENED = ("bigquery", "delta", "delta options", "duckdb", "kafka", "parquet", "snowflake")
"""Sinks whose client would look for a server that is not there for many seconds; their errors have tests of their own."""

SOURCES: dict[str, Callable[[str], Any]] = {
    "files": lambda s: ev.files("f", f"s3://key:{quote(s, safe='')}@lake/in", **BASE),
    "delta_table": lambda s: ev.delta_table("d", f"s3://key:{quote(s, safe='')}@lake/in", **BASE),
    "kafka": lambda s: ev.kafka(
        "k", servers=DEAD, topic="t", value=ev.avro(f"http://me:{quote(s, safe='')}@{DEAD}", subject="x", auth=("me", s)),
        options={"kafka.sasl.jaas.config": f'required password="{s}";'}, **BASE,
    ),
    "generated": lambda s: ev.generated("g", watermark=ev.ascending()),
    "stream": lambda s: ev.stream("s", _failing(s), **BASE),
}  # fmt: skip


def _failing(text: str) -> Callable[..., Any]:
    def connect(*_: Any) -> Any:
        raise ConnectionError(text)

    return connect


def forms(secret: str) -> set[str]:
    """A secret, and how addresses spell it."""
    return {secret, quote(secret, safe="")}


def is_told(secret: str, text: str) -> bool:
    return any(form in text for form in forms(secret))


@pytest.mark.parametrize("kind", SINKS)
@given(secret=SECRETS)
@settings(max_examples=50, deadline=None)
def test_no_sink_prints_its_secret(kind: str, secret: str) -> None:
    sink = SINKS[kind](secret)
    for text in (repr(sink), str(sink), f"{sink}", repr([sink])):
        assert not is_told(secret, text)


def test_every_sink_that_is_told_a_secret_is_among_them() -> None:
    told = {kind.__name__ for kind in vars(sinks).values() if inspect.isfunction(kind)} - {"console", "function", "sqlite"}
    assert {"kafka_topic" if name == "kafka" else name.partition(" ")[0] for name in SINKS} == told


@pytest.mark.parametrize("kind", SOURCES)
@given(secret=SECRETS)
@settings(max_examples=50, deadline=None)
def test_no_source_prints_its_secret(kind: str, secret: str) -> None:
    source = SOURCES[kind](secret)
    for text in (repr(source), str(source), repr(getattr(source, "frame", "")), repr(getattr(source, "value", ""))):
        assert not is_told(secret, text)


@pytest.mark.parametrize("kind", [kind for kind in SINKS if kind not in NEVER_OPENED])
@given(secret=SECRETS)
@settings(max_examples=15, deadline=None)
def test_no_error_of_a_sink_tells_its_secret(kind: str, secret: str) -> None:
    """Neither in its own words, nor in those of what lies beneath it in the traceback."""
    try:
        SINKS[kind](secret).open("o", SHAPE)
    except EventideError as error:
        shown = "".join(traceback.format_exception(error))
        assert not is_told(secret, str(error))
        # The traceback shows lines of this file, never the secret's value.
        assert not is_told(secret, shown)
    else:
        assert kind == "webhook", "this place should not be within reach"


@given(secret=SECRETS, cut=st.integers(0, 3))
@settings(max_examples=200, deadline=None)
def test_every_error_and_warning_of_ours_is_masked_however_it_is_made(secret: str, cut: int) -> None:
    address = ("postgresql://me:{}@db/x", "s3://AKIA:{}@bucket/a", "https://u:{}@h/x?y=1", "abfs://c:{}@acct/p")[cut]
    text = f"no answer from {address.format(quote(secret, safe=''))}; try again"
    assert not is_told(secret, str(EventideError(text)))
    assert not is_told(secret, masked(text))
    assert not is_told(secret, masked(f"bad setting password='{secret}' here"))


@given(secret=SECRETS)
@settings(max_examples=100, deadline=None)
def test_secrets_of_options_are_found_by_their_names(secret: str) -> None:
    for name in ("sasl.password", "kafka.ssl.key.password", "AWS_SECRET_ACCESS_KEY", "s3.session-token", "ssl.keystore.key",
                 "azure_storage_account_key", "credential", "Authorization", "client_secret", "X-Api-Key"):  # fmt: skip
        assert secret in secrets_of({name: secret, "sasl.username": "me"}), name
        assert secret not in masked(f"cannot use {secret} here", secrets_of({name: secret}))
    assert secrets_of({"key.serializer": secret, "partitions": secret, "sort_keys": secret}) == []


def test_what_is_no_secret_stays_readable() -> None:
    for text in ("Kafka at a:9092,b:9092", "s3://bucket/a:b/c", "key='x', sort_key=3", "me@example.org", "15:06:40 @ noon"):
        assert masked(text) == text


def test_a_warning_names_the_users_line_and_does_not_print_it(tmp_path: Any) -> None:
    script = tmp_path / "mine.py"
    script.write_text(
        "import eventide as ev\n"
        "s = ev.generated('g', watermark=ev.ascending())\n"
        "a = s.window(ev.tumbling('1 minute')).agg(n=ev.count())\n"
        "a.to('o', ev.sinks.postgres('postgresql://me:hunter2@db/x'), late=ev.accumulate('1 day'))\n"
    )
    done = subprocess.run([sys.executable, "-W", "always", str(script)], capture_output=True, text=True)
    assert "LossWarning" in done.stderr, done.stderr
    assert f"{script}, line 4" in done.stderr
    assert "hunter2" not in done.stderr + done.stdout


def test_a_warning_is_given_once_for_each_line(recwarn: pytest.WarningsRecorder) -> None:
    stream = ev.generated("g", watermark=ev.ascending())
    counted = stream.window(ev.tumbling("1 minute")).agg(n=ev.count())
    warnings.simplefilter("default")
    for _ in range(3):
        counted.to("o", late=ev.accumulate("1 day"))
    assert [w.category for w in recwarn] == [ev.LossWarning]


def test_retries_are_logged_without_the_secret(caplog: pytest.LogCaptureFixture) -> None:
    sink = sinks.postgres(f"postgresql://me:hunter2-hunter2@{DEAD}/x", retry=Retry(give_up_after=0.05, first=0.01))
    with caplog.at_level(logging.DEBUG), pytest.raises(EventideError):
        sink.open("o", SHAPE)
    assert "next in" in caplog.text
    assert "hunter2" not in caplog.text
