"""What a registry says, for the page: subjects with version, level and owner, what changed last in each, who reads it, and migrations with their gates."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

from eventide.errors import EventideError
from eventide.redaction import masked
from eventide.registry.client import RegistryClient, RegistryRefused

MOST = 200
NOT_THERE = 404
OVER = ("contracted", "aborted")
"""Phases of migrations in which nothing is left to decide."""
FRESH = 5.0
"""Seconds for which an answer is taken for new: a page that is looked at by many asks the registry once."""


class Schemas:
    """A registry; what it said last is kept, so that a browser can name a subject only by its place in the list."""

    def __init__(self, ask: Callable[..., Any]) -> None:
        self._ask = ask
        self._lock = threading.Lock()
        self._lines: list[dict[str, Any]] = []
        self._moving: list[dict[str, Any]] = []
        self._asked = float("-inf")

    @classmethod
    def at(cls, url: str, token: str | None) -> Schemas:
        """The registry at an address."""
        return cls(RegistryClient(url, token=token, name="eventide dashboard", timeout=3.0, tries=1).call)

    def overview(self) -> dict[str, Any]:
        """Every subject and every migration, the first of them where there are very many."""
        try:
            with self._lock:
                if time.monotonic() - self._asked > FRESH:
                    self._lines = self._ask("GET", "/eventide/v1/subjects", limit=MOST + 1)
                    self._moving = self._migrations()
                    self._asked = time.monotonic()
                lines, moving = self._lines, self._moving
        except EventideError as error:
            return {"fault": masked(str(error)), "subjects": [], "migrations": []}
        return {
            "subjects": [_line(line) for line in lines[:MOST]],
            "migrations": [{name: one[name] for name in ("name", "subject", "phase", "entered_at")} for one in moving],
            "more": len(lines) > MOST,
        }

    def _migrations(self) -> list[dict[str, Any]]:
        """Those that are open first, then the newest; a registry that was started without them has none."""
        try:
            found: list[dict[str, Any]] = self._ask("GET", "/eventide/v1/migrations")
        except RegistryRefused as error:
            if error.status != NOT_THERE:
                raise
            return []
        return sorted(found, key=lambda one: (one["phase"] in OVER, -one["entered_at"]))[:MOST]

    def migration(self, nth: int) -> dict[str, Any] | None:
        """Where a migration stands: its gates, its consumers, its drift; None: there is no such line."""
        moving = self._moving
        if not 0 <= nth < len(moving):
            return None
        name = moving[nth]["name"]
        try:
            found = self._ask("GET", f"/eventide/v1/migrations/{quote(name, safe='')}")
        except EventideError as error:
            return {"name": name, "said": masked(str(error))}
        told = ("name", "subject", "phase", "entered_at", "next", "gates", "obstacles", "drift")
        who = ("name", "environment", "owner", "shape", "state", "blocks", "why", "last_seen")
        return {
            **{key: found[key] for key in told},
            "consumers": [{key: one[key] for key in who} for one in found["consumers"][:MOST]],
            "more": len(found["consumers"]) > MOST,
        }

    def change(self, nth: int) -> dict[str, Any] | None:
        """What the newest version of a subject changed; None: there is no such line."""
        lines = self._lines
        if not 0 <= nth < len(lines):
            return None
        line = lines[nth]
        changed = self._changed(line)
        try:
            return {**changed, "readers": self._ask("GET", "/eventide/v1/usage", subject=line["subject"])[:MOST]}
        except EventideError as error:
            return {**changed, "readers": [], "said": masked(str(error))}

    def _changed(self, line: dict[str, Any]) -> dict[str, Any]:
        if line["version"] < 2:
            return {"subject": line["subject"], "changes": [], "text": "", "said": "It has one version."}
        path = f"/eventide/v1/subjects/{quote(line['subject'], safe='')}/diff"
        try:
            found = self._ask("GET", path, **{"from": str(line["version"] - 1), "to": str(line["version"])})
        except EventideError as error:
            return {"subject": line["subject"], "changes": [], "text": "", "said": masked(str(error))}
        reasons = {way: [reason["message"] for reason in found[way]] for way in ("backward", "forward")}
        return {"subject": line["subject"], "changes": found["changes"][:100], "text": found["text"][:20_000], **reasons}


def _line(line: dict[str, Any]) -> dict[str, Any]:
    owner = line.get("owner") or {}
    kept = {name: line[name] for name in ("subject", "version", "versions", "id", "schemaType", "compatibilityLevel", "ts")}
    return {**kept, "owner": owner.get("team")}


__all__ = ["Schemas"]
