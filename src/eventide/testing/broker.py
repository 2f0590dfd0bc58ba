"""A Kafka broker on this machine, for tests and experiments: one KRaft node, no docker, no Kafka download by hand."""

from __future__ import annotations

import atexit
import base64
import fcntl
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import uuid
from pathlib import Path
from typing import Any

from eventide.engine.connectors import cache_directory, fetch
from eventide.engine.java import java
from eventide.errors import EventideError

VERSION = "4.3.1"
PACKAGES = [f"org.apache.kafka:kafka_2.13:{VERSION}", "org.apache.logging.log4j:log4j-slf4j2-impl:2.25.4"]

SERVER = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
log.dirs={data}
num.partitions=2
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
auto.create.topics.enable=true
log.retention.ms=-1
log.message.timestamp.before.max.ms=9223372036854775807
log.message.timestamp.after.max.ms=9223372036854775807
"""
LOGGING = """\
rootLogger.level=WARN
rootLogger.appenderRef.f.ref=f
appender.f.type=File
appender.f.name=f
appender.f.fileName={log}
appender.f.layout.type=PatternLayout
appender.f.layout.pattern=%d %p %m (%c)%n
"""


class BrokerError(EventideError):
    """The broker could not be started."""


def classpath() -> str:
    """The broker's jars, fetched once for each user."""
    cache = cache_directory(f"broker-{VERSION}")
    jars, done = cache / "jars", cache / ".done"
    with (cache / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # tests that run side by side fetch once
        if not done.exists():
            shutil.rmtree(jars, ignore_errors=True)
            jars.mkdir()
            fetch(PACKAGES, jars, transitive=True)
            done.touch()
    return f"{jars}/*"


class KafkaBroker:
    """One broker on 127.0.0.1, on a free port and its own data; stopped and started again it goes on where it was.

    >>> with KafkaBroker() as broker:  # doctest: +SKIP
    ...     broker.create_topic("payments", partitions=4)
    ...     print(broker.servers)
    127.0.0.1:41253
    """

    def __init__(self) -> None:
        self.home = Path(tempfile.mkdtemp(prefix="eventide-kafka-"))
        self.port, controller = _free_ports(2)
        self._classpath = classpath()
        self._process: subprocess.Popen[bytes] | None = None
        atexit.register(self.remove)
        (self.home / "log4j2.properties").write_text(LOGGING.format(log=self.home / "server.log"))
        settings = SERVER.format(port=self.port, controller=controller, data=self.home / "data")
        (self.home / "server.properties").write_text(settings)
        identity = base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode().replace("-", "A")
        formatted = subprocess.run(
            [
                *self._java("kafka.tools.StorageTool"),
                "format",
                "-t",
                identity,
                "-c",
                str(self.home / "server.properties"),
            ],
            capture_output=True,
            text=True,
        )
        if formatted.returncode:
            raise BrokerError(f"the broker's storage could not be made: {formatted.stdout}{formatted.stderr}")

    def _java(self, program: str) -> list[str]:
        options = ["-Xmx384m", "-Xms64m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        logging = f"-Dlog4j2.configurationFile={self.home / 'log4j2.properties'}"
        return [java(), *options, logging, "-cp", self._classpath, program]

    @property
    def servers(self) -> str:
        """What a client calls bootstrap.servers."""
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int | None:
        """The broker's process, if it runs."""
        return self._process.pid if self._process else None

    def start(self) -> KafkaBroker:
        """Start, and wait until clients are answered."""
        if self._process:
            return self
        with (self.home / "out.log").open("ab") as out:
            command = [*self._java("kafka.Kafka"), str(self.home / "server.properties")]
            self._process = subprocess.Popen(command, stdout=out, stderr=out, start_new_session=True)
        deadline = time.monotonic() + 60
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.stop(signal.SIGKILL)
                raise BrokerError(f"the broker did not start: {(self.home / 'out.log').read_text()[-2000:]}")
        return self

    def _answers(self) -> bool:
        from confluent_kafka import KafkaException

        try:
            return bool(self._admin().list_topics(timeout=1).brokers)
        except KafkaException:
            return False

    def _admin(self) -> Any:
        from confluent_kafka.admin import AdminClient

        settings: dict[str, Any] = {"bootstrap.servers": self.servers, "log_level": 0, "error_cb": lambda _: None}
        return AdminClient(settings)

    def create_topic(self, name: str, partitions: int = 1, **config: str) -> None:
        """Create a topic; `config` is the topic's own, with _ for the dots."""
        from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined]

        settings = {key.replace("_", "."): value for key, value in config.items()}
        admin = self._admin()  # it must outlive its answer
        admin.create_topics([NewTopic(name, partitions, 1, config=settings)])[name].result(30)

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        """Stop in good order; SIGKILL is a crash. The data stays."""
        process, self._process = self._process, None
        if process:
            process.send_signal(how)
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def remove(self) -> None:
        """Stop, and leave nothing behind."""
        atexit.unregister(self.remove)
        self.stop(signal.SIGKILL)
        shutil.rmtree(self.home, ignore_errors=True)

    def __enter__(self) -> KafkaBroker:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.remove()


def _free_ports(count: int) -> list[int]:
    """Ports that nobody listens on just now."""
    probes = [socket.socket() for _ in range(count)]
    try:
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [int(probe.getsockname()[1]) for probe in probes]
    finally:
        for probe in probes:
            probe.close()
