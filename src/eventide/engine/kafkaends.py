"""Where a broker says that its topics end; what it answers instead is told apart: refused for good, or not there now."""

from __future__ import annotations

from typing import Any

from eventide.errors import SourceError, SourceRefused, SourceUnavailable
from eventide.redaction import masked, secrets_of
from eventide.sources.kafka import KafkaSource

BYTES = "org.apache.kafka.common.serialization.ByteArrayDeserializer"


def end_offsets(spark: Any, source: KafkaSource) -> dict[tuple[str, int], int]:
    """The end offset of every partition, as the broker says now; asked with the user's own client options."""
    from py4j.protocol import Py4JJavaError

    try:
        return _asked(spark._jvm, source)
    except Py4JJavaError as error:
        fault = source_error(source, _causes(error.java_exception))
    raise fault  # outside of the handler: what Java said word for word may hold a password


def _asked(jvm: Any, source: KafkaSource) -> dict[tuple[str, int], int]:
    properties = jvm.java.util.Properties()
    own = {"bootstrap.servers": source.servers, "key.deserializer": BYTES, "value.deserializer": BYTES}
    for name, value in {**_client_options(source), **own}.items():
        properties.setProperty(name, value)
    consumer = jvm.org.apache.kafka.clients.consumer.KafkaConsumer(properties)
    try:
        found = jvm.java.util.ArrayList()
        for topic in source.topics:
            for info in consumer.partitionsFor(topic) or ():
                found.add(jvm.org.apache.kafka.common.TopicPartition(info.topic(), info.partition()))
        ends = consumer.endOffsets(found)
        return {(tp.topic(), tp.partition()): int(ends[tp]) for tp in found}
    finally:
        consumer.close()


def _client_options(source: KafkaSource) -> dict[str, str]:
    return {name.removeprefix("kafka."): value for name, value in source.options if name.startswith("kafka.")}


def _causes(exception: Any) -> list[tuple[str, str]]:
    """The names and messages of an exception and what lies beneath it."""
    found = []
    while exception is not None:
        found.append((str(exception.getClass().getSimpleName()), str(exception.getMessage())))
        exception = exception.getCause()
    return found


def source_error(source: KafkaSource, causes: list[tuple[str, str]]) -> SourceError:
    """What a client's exception means, with no secret of the options in it.

    >>> import eventide as ev
    >>> options = {"kafka.ssl.key.password": "s3cret"}
    >>> paid = ev.kafka("paid", servers="k:9092", topic="t", value=ev.raw(), event_time="at", watermark=ev.ascending(), options=options)
    >>> print(source_error(paid, [("KafkaException", "cannot open"), ("IOException", "s3cret does not fit")]))
    source 'paid': Kafka at k:9092 cannot be opened with these options: cannot open: *** does not fit
    """
    said = ": ".join(dict.fromkeys(message for _, message in causes))
    said = masked(said, secrets_of(source.options))
    where = f"source {source.name!r}: Kafka at {source.servers}"
    kinds = {kind for kind, _ in causes}
    if any(kind.endswith(("AuthenticationException", "SslHandshakeException")) for kind in kinds):
        return SourceRefused(f"{where}: wrong credentials ({said})")
    if any(kind.endswith("AuthorizationException") for kind in kinds):
        return SourceRefused(f"{where}: these credentials may not read {', '.join(source.topics)} ({said})")
    if kinds & {"KafkaException", "ConfigException"}:
        return SourceRefused(f"{where} cannot be opened with these options: {said}")
    return SourceUnavailable(f"{where} does not answer: {said}")
