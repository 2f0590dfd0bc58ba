"""Owners, naming rules, facts and usage: the tables beside the schemas."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

Run = Callable[[str, Sequence[Any]], list[Sequence[Any]]]


class GovernanceTables:
    """What the registry knows about its subjects besides their schemas."""

    def __init__(self, run: Run) -> None:
        self._run = run

    def fact(self, name: str) -> str | None:
        """A fact about this registry, such as its identity or a policy."""
        rows = self._run("SELECT value FROM facts WHERE name = ?", (name,))
        return str(rows[0][0]) if rows else None

    def put_fact(self, name: str, value: str) -> None:
        """Write a fact down."""
        self._run("INSERT INTO facts VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value", (name, value))

    def owners(self) -> list[dict[str, str]]:
        """Every owner, by prefix."""
        columns = ("prefix", "team", "domain", "contact", "on_call")
        rows = self._run(f"SELECT {', '.join(columns)} FROM owners ORDER BY prefix", ())
        return [dict(zip(columns, map(str, r), strict=True)) for r in rows]

    def put_owner(self, prefix: str, owner: dict[str, str] | None) -> bool:
        """Set or, with none, remove the owner of a prefix; says whether there was one before."""
        had = bool(self._run("SELECT 1 FROM owners WHERE prefix = ?", (prefix,)))
        self._run("DELETE FROM owners WHERE prefix = ?", (prefix,))
        if owner is not None:
            values = (prefix, owner["team"], owner["domain"], owner["contact"], owner["on_call"])
            self._run("INSERT INTO owners VALUES (?, ?, ?, ?, ?)", values)
        return had

    def naming_rules(self) -> list[dict[str, str]]:
        """Every naming rule, by prefix."""
        rows = self._run("SELECT prefix, pattern, hint FROM naming ORDER BY prefix", ())
        return [{"prefix": str(r[0]), "pattern": str(r[1]), "hint": str(r[2])} for r in rows]

    def put_naming_rule(self, prefix: str, rule: dict[str, str] | None) -> bool:
        """Set or, with none, remove the naming rule of a prefix; says whether there was one before."""
        had = bool(self._run("SELECT 1 FROM naming WHERE prefix = ?", (prefix,)))
        self._run("DELETE FROM naming WHERE prefix = ?", (prefix,))
        if rule is not None:
            self._run("INSERT INTO naming VALUES (?, ?, ?)", (prefix, rule["pattern"], rule["hint"]))
        return had

    def put_usage(self, client: str, environment: str, context: str, schema_id: int, at: int, decoded: int) -> None:
        """Add to what a client has decoded with an id."""
        self._run(
            "INSERT INTO usage (client, environment, context, id, first_seen, last_seen, decoded) "
            "VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (client, environment, context, id) DO UPDATE SET "
            "first_seen = CASE WHEN excluded.first_seen < usage.first_seen "
            "THEN excluded.first_seen ELSE usage.first_seen END, "
            "last_seen = CASE WHEN excluded.last_seen > usage.last_seen "
            "THEN excluded.last_seen ELSE usage.last_seen END, "
            "decoded = usage.decoded + excluded.decoded",
            (client, environment, context, schema_id, at, at, decoded),
        )

    def usage(
        self, *, client: str | None, context: str | None, schema_id: int | None, subject: str | None, since: int | None
    ) -> list[dict[str, Any]]:
        """Which client decoded which id, when first, when last and how often."""
        where, values = ["1 = 1"], []  # type: tuple[list[str], list[Any]]
        asked = (("u.client = ?", client), ("u.context = ?", context), ("u.id = ?", schema_id))
        for condition, value in (*asked, ("u.last_seen >= ?", since)):
            if value is not None:
                where.append(condition)
                values.append(value)
        if subject is not None:
            where.append("EXISTS (SELECT 1 FROM holders h WHERE h.context = u.context AND h.id = u.id AND h.subject = ?)")
            values.append(subject)
        columns = ("client", "environment", "context", "id", "first_seen", "last_seen", "decoded")
        rows = self._run(
            f"SELECT {', '.join('u.' + c for c in columns)} FROM usage u WHERE {' AND '.join(where)} "
            "ORDER BY u.last_seen DESC, u.client, u.id LIMIT 10000",
            values,
        )
        return [dict(zip(columns, r, strict=True)) for r in rows]
