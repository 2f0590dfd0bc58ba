"""What a registry says, for the page: subjects with version, level and owner, and what changed last in each."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

from eventide.errors import EventideError
from eventide.redaction import masked

MOST = 200
FRESH = 5.0
"""Seconds for which an answer is taken for new: a page that is looked at by many asks the registry once."""


class Schemas:
    """A registry; what it said last is kept, so that a browser can name a subject only by its place in the list."""

    def __init__(self, ask: Callable[..., Any]) -> None:
        self._ask = ask
        self._lock = threading.Lock()
        self._lines: list[dict[str, Any]] = []
        self._asked = float("-inf")

    @classmethod
    def at(cls, url: str, token: str | None) -> Schemas:
        """The registry at an address."""
        from eventide.registry.client import RegistryClient

        return cls(RegistryClient(url, token=token, name="eventide dashboard", timeout=3.0, tries=1).call)

    def overview(self) -> dict[str, Any]:
        """Every subject, the first of them where there are very many."""
        try:
            with self._lock:
                if time.monotonic() - self._asked > FRESH:
                    self._lines = self._ask("GET", "/eventide/v1/subjects", limit=MOST + 1)
                    self._asked = time.monotonic()
                lines = self._lines
        except EventideError as error:
            return {"fault": masked(str(error)), "subjects": []}
        return {"subjects": [_line(line) for line in lines[:MOST]], "more": len(lines) > MOST}

    def change(self, nth: int) -> dict[str, Any] | None:
        """What the newest version of a subject changed; None: there is no such line."""
        lines = self._lines
        if not 0 <= nth < len(lines):
            return None
        line = lines[nth]
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
