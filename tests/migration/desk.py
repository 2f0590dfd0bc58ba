"""A registry with migrations in a file, without a service, and with a clock that the test moves."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from eventide.migration.plan.pairing import Said
from eventide.migration.plan.policy import Policy
from eventide.migration.rollout.guard import MigrationGuard
from eventide.migration.rollout.migration import Migration
from eventide.migration.rollout.rollout import Author, Rollout
from eventide.migration.rollout.tables import MigrationTables
from eventide.registry.catalog import Catalog
from eventide.registry.parsing import Parsing
from eventide.registry.records import Proposal
from eventide.registry.registration import register
from eventide.registry.store import open_store

T = TypeVar("T")
USER_ID = {"name": "user_id", "type": "long"}
SIGNUP_DATE = {"name": "signup_date", "type": {"type": "int", "logicalType": "date"}}
CREATED_AT = {"name": "created_at", "type": {"type": "long", "logicalType": "timestamp-micros"}}
FARE = {"name": "fare_cents", "type": "long"}
PARTS = [{"name": name, "type": "long"} for name in ("base", "surge", "tax")]
PRICING = {"name": "pricing", "type": {"type": "record", "name": "Pricing", "fields": PARTS}}
RENAME = Said(renames={"signup_date": "created_at"})


def record(*fields: Any, name: str = "Event") -> str:
    return json.dumps({"type": "record", "name": name, "fields": list(fields)})


class Desk:
    """One transaction per call, at a time of the test's choosing."""

    def __init__(self, path: Path, url: str | None = None) -> None:
        self.store = open_store(url or f"sqlite:///{path}/registry.db")
        self.now = 1_000_000
        self._parsing = Parsing()
        with self.store.write() as session:
            MigrationTables(session).make()

    def do(self, work: Callable[[Rollout], T]) -> T:
        with self.store.write() as session:
            return work(Rollout(self.catalog(session), Author("ada", "test", "because")))

    def catalog(self, session: Any) -> Catalog:
        return Catalog(session, self._parsing, self.now, (MigrationGuard(),))

    def register(self, subject: str, text: str, kind: str = "AVRO") -> int:
        with self.store.write() as session:
            entry, _ = register(self.catalog(session), Proposal(subject, text, kind), normalize=False)
            return entry.id

    def latest(self, subject: str) -> dict[str, Any]:
        with self.store.read() as session:
            entry = session.latest(subject)
            assert entry is not None
            return json.loads(entry.text)

    def usage(self, client: str, schema_id: int) -> None:
        with self.store.write() as session:
            session.put_usage(client, "", ".", schema_id, self.now, 1)

    def audit(self) -> list[dict[str, Any]]:
        with self.store.read() as session:
            return session.audit(limit=100_000)

    def planned(self, name: str = "m", policy: Policy | None = None) -> Migration:
        """The worked rename, planned and confirmed."""
        self.register("users", record(USER_ID, SIGNUP_DATE))
        wanted = record(USER_ID, CREATED_AT)
        self.do(lambda r: r.plan("users", wanted, said=RENAME, policy=policy or Policy(), name=name))
        return self.do(lambda r: r.confirm(name))


def field_names(schema: dict[str, Any]) -> list[str]:
    return [f["name"] for f in schema["fields"]]
