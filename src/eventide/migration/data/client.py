"""Migrations from outside: what pipelines and the command line ask of the registry's service."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from eventide.migration.data.rule_chain import RuleChain, rules_between
from eventide.migration.rollout.migration import Migration
from eventide.registry.client import RegistryClient


class MigrationClient:
    """The migrations behind a registry's URL."""

    def __init__(self, registry: RegistryClient) -> None:
        self._registry = registry

    def __call__(self, method: str, name: str = "", tail: str = "", body: Any = None, **query: Any) -> Any:
        """Any request about migrations, or about one of them."""
        path = "/eventide/v1/migrations" + (f"/{quote(name, safe='')}" if name else "") + tail
        return self._registry.call(method, path, body, **query)

    def migration(self, name: str) -> Migration:
        """One migration as a value."""
        return Migration.from_json(self("GET", name))

    def go(self, name: str, to: str, *, confirm: str | None = None, withdraw: bool = False) -> Any:
        """Move a migration to a phase; where it is already there nothing changes."""
        return self("POST", name, "/phase", {"to": to, "confirm": confirm, "withdraw": withdraw})

    def report_drift(
        self,
        name: str,
        source: str,
        batch: int,
        counts: Mapping[str, int],
        examples: Sequence[Any] = (),
        *,
        everything: bool = False,
        until: int | None = None,
    ) -> bool:
        """Report what a check found in a batch; says whether it counted."""
        body = {
            **counts,
            "source": source,
            "batch": batch,
            "examples": list(examples),
            "everything": everything,
            "until": until,
        }
        return bool(self("POST", name, "/drift", body)["counted"])

    def report_selected(self, subject: str, columns: Sequence[str], *, client: str = "", environment: str = "") -> None:
        """Say which columns of a subject this consumer selects."""
        body = {"client": client or self._registry.name, "environment": environment, "columns": list(columns)}
        self._registry.call("POST", f"/eventide/v1/subjects/{quote(subject, safe='')}/selected", body)

    def rules(self, subject: str, writer: int, reader: int | str = "latest") -> RuleChain:
        """The migration rules of a subject from the version that wrote records to the one that is to be read."""
        return rules_between(self._registry, subject, writer, reader)

    def reader(self, name: str) -> str:
        """A schema that reads every record of an open migration, from before it to after it."""
        return str(self("GET", name)["schemas"]["reader"])


def open_migration(name: str, registry: str, *, token: str | None = None) -> Migration:
    """The migration of that name, asked of the registry at a URL."""
    with RegistryClient(registry, token=token, name="eventide-migration") as client:
        return MigrationClient(client).migration(name)
