"""What all tests share: one Spark session for the whole process, and the real systems, each started once when first asked for."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from eventide.testing.broker import KafkaBroker
    from tests.support.object_store import ObjectStore
    from tests.support.postgres import PostgresServer

os.environ.setdefault("POLARS_MAX_THREADS", "1")
# Frames in tests are small: threads cost more than they save. Polars reads this when it is first imported.


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """A small local session with the connectors of Kafka and Delta; started once, because starting it costs more than most tests."""
    import pyspark

    from eventide.engine.spark_compat import line_of
    from eventide.engine.spark_session import local_session

    line = line_of(pyspark.__version__)
    session = local_session([*line.kafka, *line.delta], cores=2, name="eventide tests")
    yield session
    session.stop()


@pytest.fixture(scope="session")
def broker() -> Iterator[KafkaBroker]:
    from eventide.testing.broker import KafkaBroker

    with KafkaBroker() as running:
        yield running


@pytest.fixture(scope="session")
def object_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStore]:
    from tests.support.object_store import ObjectStore

    store = ObjectStore(tmp_path_factory.mktemp("object store"))
    yield store
    store.close()


@pytest.fixture
def lake(object_store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> str:
    """A place of a test's own in an object store, to which the environment leads."""
    for name, value in object_store.environment.items():
        monkeypatch.setenv(name, value)
    return f"s3a://lake/{uuid.uuid4().hex}"


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    from tests.support.postgres import PostgresServer

    server = PostgresServer().start()
    yield server
    server.remove()
