"""The shop: it writes checkouts to Kafka as Avro, by the schema that the registry has as the latest."""

import data
from confluent_kafka import Producer

from eventide.registry.client import RegistryClient
from eventide.registry.serialisers import AvroSerialiser

TOPIC, SUBJECT = "checkouts", "checkouts-value"


class Shop:
    """The only producer of the topic."""

    def __init__(self, servers: str, registry: str) -> None:
        self.registry = RegistryClient(registry, name="shop")
        self.registry.register(SUBJECT, data.schema(data.FARE))
        self._servers, self.sold = servers, 0

    def sell(self, phase: str) -> int:
        """Write all checkouts that come while a phase lasts; says how many."""
        write = AvroSerialiser(self.registry, self.registry.latest(SUBJECT).text, register=False)
        rows, producer = data.received_in(phase), Producer({"bootstrap.servers": self._servers})
        for row in rows:
            producer.produce(TOPIC, write(data.record(row, data.SHAPES[phase]), TOPIC))
        producer.flush()
        self.sold += len(rows)
        return len(rows)
