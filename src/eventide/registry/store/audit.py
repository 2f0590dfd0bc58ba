"""The audit log's table: lines are only ever added, each chained to the one before."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from eventide.registry.audit_chain import COLUMNS, EMPTY, Head, line_hash
from eventide.registry.store.governance import GovernanceTables

_HEAD = "audit.head"


class AuditTable(GovernanceTables):
    """The audit log, seen from inside one transaction."""

    def __init__(self, run: Callable[[str, Sequence[Any]], list[Sequence[Any]]]) -> None:
        super().__init__(run)
        self._head: Head | None = None
        self._head_is_new = False

    def audit_head(self) -> Head:
        """Where the log ends. Kept beside it, so that a log cut short does not go unnoticed."""
        if self._head is None:
            text = self.fact(_HEAD)
            self._head = EMPTY if text is None else Head.parse(text)
        return self._head

    def put_audit(
        self, at: int, who: str, origin: str, action: str, subject: str, outcome: str, reason: str, detail: Any
    ) -> None:
        """Append to the audit log; the database itself refuses to change or remove what is there."""
        head = self.audit_head()
        seq = self._next_seq()
        written = json.dumps(detail)
        values = (seq, at, who, origin, action, subject, outcome, reason)
        own = line_hash(head.hash, dict(zip(COLUMNS, (*values, json.loads(written)), strict=True)))
        self._run(
            f"INSERT INTO audit ({', '.join(COLUMNS)}, hash) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", (*values, written, own)
        )
        self._head, self._head_is_new = Head(seq, own), True

    def _next_seq(self) -> int:
        """One more than any number in use: whoever slips a line in is found out, and does not stop the registry."""
        if self._head_is_new:
            return self.audit_head().seq + 1
        return max(self.audit_head().seq, int(self._run("SELECT COALESCE(MAX(seq), 0) FROM audit", ())[0][0])) + 1

    def put_audit_head(self) -> None:
        """Write down where the log ends, once for all lines of this transaction."""
        if self._head_is_new:
            self.put_fact(_HEAD, str(self._head))
            self._head_is_new = False

    def audit(
        self,
        *,
        prefix: str = "",
        who: str | None = None,
        action: str | None = None,
        since: int | None = None,
        until: int | None = None,
        after: int = 0,
        limit: int = 1000,
    ) -> list[dict[str, Any]]:
        """The audit log, oldest first, from after a sequence number."""
        where, values = ["seq > ?"], [after]  # type: tuple[list[str], list[Any]]
        for condition, value in (("who = ?", who), ("action = ?", action), ("at >= ?", since), ("at <= ?", until)):
            if value is not None:
                where.append(condition)
                values.append(value)
        if prefix:
            where.append("substr(subject, 1, ?) = ?")
            values += [len(prefix), prefix]
        columns = (*COLUMNS, "hash")
        rows = self._run(
            f"SELECT {', '.join(columns)} FROM audit WHERE {' AND '.join(where)} ORDER BY seq LIMIT ?", (*values, limit)
        )
        lines = [dict(zip(columns, r, strict=True)) for r in rows]
        return [{**line, "detail": json.loads(line["detail"])} for line in lines]

    def chain_older_lines(self) -> None:
        """Give the lines of a log from before the chain their hashes; the triggers must be off."""
        head = EMPTY
        while lines := self.audit(after=head.seq, limit=10_000):
            for line in lines:
                head = Head(line["seq"], line_hash(head.hash, line))
                self._run("UPDATE audit SET hash = ? WHERE seq = ?", (head.hash, head.seq))
        self._head, self._head_is_new = head, True
