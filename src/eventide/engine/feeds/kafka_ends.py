"""Where a broker says that its topics end; what it answers instead is told apart: refused for good, or not there now."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from eventide.errors import SourceError, SourceRefused, SourceUnavailable
from eventide.redaction import masked, secrets_of
from eventide.sources.kafka import KafkaSource

Answer = TypeVar("Answer")


@dataclass(frozen=True)
class TopicEnds:
    """What a broker says of topics now."""

    ids: dict[str, str]
    """Which topic goes by each name: one that was deleted and created again has another id."""
    last: dict[tuple[str, int], int]
    """The offset after the last record of each partition, whether it can be read yet or not."""
    stable: dict[tuple[str, int], int]
    """The offset of the first record that belongs to an open transaction; without one, as `last` or after it."""


def topic_ends(spark: Any, source: KafkaSource) -> TopicEnds:
    """Ids and ends of the topics that there are, as the broker says now; asked with the user's own client options."""
    return _ask(spark, source, lambda jvm, admin: _ends(jvm, admin, source))


def topic_begins(spark: Any, source: KafkaSource) -> dict[tuple[str, int], int]:
    """The offset of the first record that each partition still has, as the broker says now."""
    return _ask(spark, source, lambda jvm, admin: _begins(jvm, admin, source))


def topic_ids(spark: Any, source: KafkaSource) -> dict[str, str]:
    """The ids of the topics that there are, as the broker says now."""
    return _ask(
        spark, source, lambda jvm, admin: {topic: _id(facts) for topic, facts in _described(jvm, admin, source).items()}
    )


def _ask(spark: Any, source: KafkaSource, what: Callable[[Any, Any], Answer]) -> Answer:
    from py4j.protocol import Py4JJavaError

    try:
        properties = spark._jvm.java.util.Properties()
        for name, value in {**_client_options(source), "bootstrap.servers": source.servers}.items():
            properties.setProperty(name, value)
        admin = spark._jvm.org.apache.kafka.clients.admin.AdminClient.create(properties)
        try:
            return what(spark._jvm, admin)
        finally:
            admin.close()
    except Py4JJavaError as error:
        fault = source_error(source, _causes(error.java_exception))
    raise fault  # outside of the handler: what Java said word for word may hold a password


def _ends(jvm: Any, admin: Any, source: KafkaSource) -> TopicEnds:
    """The last offsets are asked for first: where a stable one that is asked for later still lies before, a transaction is open."""
    topics = _described(jvm, admin, source)
    latest = _asked(jvm, topics, jvm.org.apache.kafka.clients.admin.OffsetSpec.latest())
    levels = jvm.org.apache.kafka.common.IsolationLevel
    last, stable = (_offsets(jvm, admin, latest, level) for level in (levels.READ_UNCOMMITTED, levels.READ_COMMITTED))
    return TopicEnds({topic: _id(facts) for topic, facts in topics.items()}, last, stable)


def _begins(jvm: Any, admin: Any, source: KafkaSource) -> dict[tuple[str, int], int]:
    earliest = _asked(jvm, _described(jvm, admin, source), jvm.org.apache.kafka.clients.admin.OffsetSpec.earliest())
    return _offsets(jvm, admin, earliest, jvm.org.apache.kafka.common.IsolationLevel.READ_UNCOMMITTED)


def _asked(jvm: Any, topics: dict[str, Any], what: Any) -> Any:
    """The same question for every partition."""
    asked = jvm.java.util.HashMap()
    for topic, facts in topics.items():
        for info in facts.partitions():
            asked.put(jvm.org.apache.kafka.common.TopicPartition(topic, info.partition()), what)
    return asked


def _offsets(jvm: Any, admin: Any, asked: Any, level: Any) -> dict[tuple[str, int], int]:
    found = admin.listOffsets(asked, jvm.org.apache.kafka.clients.admin.ListOffsetsOptions(level)).all().get()
    return {(at.topic(), at.partition()): int(found[at].offset()) for at in found}


def _described(jvm: Any, admin: Any, source: KafkaSource) -> dict[str, Any]:
    """The topics that there are; one that is not may yet be created."""
    from py4j.protocol import Py4JJavaError

    asked = jvm.java.util.ArrayList()
    for topic in source.topics:
        asked.add(topic)
    names = admin.describeTopics(asked).topicNameValues()
    found = {}
    for topic in source.topics:
        try:
            found[topic] = names.get(topic).get()
        except Py4JJavaError as error:
            if "UnknownTopicOrPartitionException" not in {kind for kind, _ in _causes(error.java_exception)}:
                raise
    return found


def _id(facts: Any) -> str:
    return str(facts.topicId().toString())


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
