"""Every question and every change that the registry has for its database, inside one transaction."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from eventide.registry.audit_chain import Head
from eventide.registry.compatibility import Reference
from eventide.registry.faults import no_ids_left
from eventide.registry.names import DEFAULT_CONTEXT, Name, beside
from eventide.registry.records import Entry
from eventide.registry.store.audit import AuditTable
from eventide.registry.store.lookups import COLUMNS, Alike, End, Lookups, Settings
from eventide.registry.store.transaction import Row, Statement, Transaction

_ENTRY = f"SELECT {COLUMNS} FROM versions v JOIN schemas s ON s.context = v.context AND s.id = v.id"

LARGEST_ID = 2**31 - 1
_COUNTED = LARGEST_ID - 1_000_000
"""An imported id above this does not move the counter, or there would be no ids left to give."""


class Session(AuditTable):
    """The tables of one registry, seen from inside one transaction."""

    def __init__(self, transaction: Transaction) -> None:
        super().__init__(transaction.run)
        self._transaction = transaction
        self.replaced = False
        """Did this transaction change something that was already readable by id?"""
        self.lookups = Lookups(transaction)
        self._asked_for: dict[str, Settings] = {}
        """The question whose answer has the settings of a scope: what is above many subjects is not asked for again."""
        self._last_ids: dict[str, int] = {}
        self._head_before: tuple[Head | None, bool] = (None, False)
        self.revision: int | None = None
        """The store's new revision, if this transaction replaced something; known when it is about to commit."""

    def begin_change(self) -> None:
        """From here on, changes can be taken back without those before them."""
        self._transaction.begin_change()
        self._head_before = self._head, self._head_is_new

    def end_change(self) -> None:
        """Keep what was changed since `begin_change`."""
        self._transaction.end_change()

    def take_back(self) -> None:
        """Undo what was changed since `begin_change`."""
        self._transaction.take_back()
        self._head, self._head_is_new = self._head_before
        self.lookups.forget()
        self._last_ids.clear()

    def _setting(self, table: str, subject: str) -> str | None:
        question = self._asked_for.get(subject, Settings(subject))
        for scope in question.scopes:
            self._asked_for.setdefault(scope, question)
        rows = self.lookups[question]
        return next((str(value) for kind, scope, value in rows if kind == table and scope == subject), None)

    def finish(self, *last: Statement) -> None:
        """Write down where the audit log ends and that something readable by id has changed, then send all that waits."""
        self.put_audit_head()
        if self.replaced:
            self.revision = int(self.fact("revision") or 0) + 1
            self.put_fact("revision", str(self.revision))
        self._transaction.flush(*last)

    # versions

    def entry(self, subject: str, version: int, *, deleted: bool = False) -> Entry | None:
        """One version of a subject, or none; with `deleted` also if it was soft deleted."""
        rows = self._run(f"{_ENTRY} WHERE v.subject = ? AND v.version = ?", (subject, version))
        entry = _entry(rows[0]) if rows else None
        return entry if entry is None or deleted or not entry.deleted else None

    def latest(self, subject: str) -> Entry | None:
        """The highest version that is not deleted."""
        row = self.lookups[End(subject)][0]
        return None if row[1] is None else _entry(row[1:])

    def entries(self, subject: str, *, deleted: bool = False) -> list[Entry]:
        """All versions of a subject, oldest first."""
        live = "" if deleted else " AND v.deleted = 0"
        return [_entry(r) for r in self._run(f"{_ENTRY} WHERE v.subject = ?{live} ORDER BY v.version", (subject,))]

    def numbers(self, subject: str) -> list[tuple[int, bool]]:
        """Every version number of a subject with whether it is soft deleted, oldest first."""
        rows = self._run("SELECT version, deleted FROM versions WHERE subject = ? ORDER BY version", (subject,))
        return [(int(r[0]), bool(r[1])) for r in rows]

    def last_version(self, subject: str) -> int:
        """The highest version number in use, soft deleted ones included; 0 if none."""
        return int(self.lookups[End(subject)][0][0] or 0)

    def deleted_versions_of(self, subject: str, schema_id: int) -> list[int]:
        """The soft deleted versions of a subject that hold an id."""
        rows = self._run(
            "SELECT version FROM versions WHERE context = ? AND id = ? AND subject = ? AND deleted = 1 ORDER BY version",
            (Name.parse(subject).context, schema_id, subject),
        )
        return [int(r[0]) for r in rows]

    def listing(
        self, context: str | None, prefix: str, *, latest_only: bool, deleted: int | None, offset: int, limit: int
    ) -> list[Entry]:
        """Versions of the subjects that begin with a prefix, by subject and version, in one question."""
        where, values = _prefix_filter(context, prefix)
        live = "" if deleted is None else f" AND v.deleted = {int(deleted)}"
        last = ""
        if latest_only:
            same = live.replace("v.", "w.")
            last = f" AND v.version = (SELECT MAX(w.version) FROM versions w WHERE w.subject = v.subject{same})"
        rows = self._run(
            f"{_ENTRY} WHERE {where}{live}{last} ORDER BY v.subject, v.version LIMIT ? OFFSET ?",
            (*values, limit, offset),
        )
        return [_entry(r) for r in rows]

    def subjects(self, context: str | None, prefix: str) -> list[tuple[str, bool]]:
        """The subjects that begin with a prefix, each with whether all of its versions are soft deleted."""
        where, values = _prefix_filter(context, prefix)
        rows = self._run(f"SELECT v.subject, MIN(v.deleted) FROM versions v WHERE {where} GROUP BY v.subject", values)
        return [(str(r[0]), bool(r[1])) for r in rows]

    def kind_counts(self) -> dict[tuple[str, bool], int]:
        """How many versions there are of each kind of schema, live and soft deleted."""
        rows = self._run(
            "SELECT s.kind, v.deleted, COUNT(*) FROM versions v JOIN schemas s ON s.context = v.context AND s.id = v.id "
            "GROUP BY s.kind, v.deleted", (),
        )  # fmt: skip
        return {(str(kind), bool(deleted)): int(number) for kind, deleted, number in rows}

    def subject_count(self) -> int:
        """How many subjects there are, soft deleted ones included."""
        return int(self._run("SELECT COUNT(DISTINCT subject) FROM versions", ())[0][0])

    def version_counts(self, context: str | None, prefix: str) -> dict[str, int]:
        """How many versions each subject with a prefix has, soft deleted ones left out."""
        where, values = _prefix_filter(context, prefix)
        rows = self._run(
            f"SELECT v.subject, COUNT(*) FROM versions v WHERE {where} AND v.deleted = 0 GROUP BY v.subject", values
        )
        return {str(r[0]): int(r[1]) for r in rows}

    def has_subject(self, subject: str, *, deleted: bool) -> bool:
        """Is there such a subject, or, if a whole context is named, any subject in it?"""
        name = Name.parse(subject)
        where, values = ("subject = ?", (subject,)) if name.subject else ("context = ?", (name.context,))
        live = "" if deleted else " AND deleted = 0"
        return bool(self._run(f"SELECT 1 FROM versions WHERE {where}{live} LIMIT 1", values))

    def put_version(self, entry: Entry, *, lookup: str, resolved: str | None, new_id: bool = False) -> None:
        """Store a version and, if its id is new (sure to be so, with `new_id`), the content behind the id."""
        name = Name.parse(entry.subject)
        ctx = name.context
        end = End(entry.subject)
        self.lookups.forget(lambda q: q == end or (isinstance(q, Alike) and q.is_touched_by(ctx, entry.guid, lookup, resolved)))
        if ctx != DEFAULT_CONTEXT:
            self._run("DELETE FROM forgotten_contexts WHERE context = ?", (ctx,))
        known = not new_id and self._run("SELECT 1 FROM schemas WHERE context = ? AND id = ?", (ctx, entry.id))
        if known:
            # Another subject may now be the one that the id is reported under.
            self.replaced = True
        else:
            self._run(
                "INSERT INTO schemas (context, id, guid, kind, text, refs, metadata, rules, lookup, resolved) "
                "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (ctx, entry.id, entry.guid, entry.kind, entry.text, _dump_references(entry.references),
                 _dump(entry.metadata), _dump(entry.rules), lookup, resolved),
            )  # fmt: skip
            for reference in entry.references:
                target = (beside(entry.subject, reference.subject), reference.version, ctx, entry.id)
                self._run("INSERT INTO referrers VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING", target)
        self._run(
            "INSERT INTO guids VALUES (?, ?, ?) ON CONFLICT (context, guid) DO UPDATE SET id = excluded.id",
            (ctx, entry.guid, entry.id),
        )
        self._run(
            "INSERT INTO versions VALUES (?, ?, ?, ?, ?, 0, ?) ON CONFLICT (subject, version) "
            "DO UPDATE SET id = excluded.id, deleted = 0, ts = excluded.ts",
            (entry.subject, entry.version, ctx, name.subject, entry.id, entry.ts),
        )
        self._hold(ctx, entry.id, entry.subject, entry.version)
        last = self.last_id(ctx)
        counted = entry.id if entry.id <= _COUNTED or entry.id == last + 1 else 0
        self._last_ids[ctx] = max(last, counted)
        self._run(
            "INSERT INTO counters VALUES (?, ?) ON CONFLICT (context) DO UPDATE SET last_id = "
            "CASE WHEN excluded.last_id > counters.last_id THEN excluded.last_id ELSE counters.last_id END",
            (ctx, counted),
        )

    def _hold(self, context: str, schema_id: int, subject: str, version: int) -> None:
        self._run(
            "INSERT INTO holders SELECT ?, ?, ?, ?, COALESCE(MAX(seq), 0) + 1 FROM holders "
            "WHERE context = ? AND id = ? ON CONFLICT (context, id, subject) DO UPDATE SET version = excluded.version",
            (context, schema_id, subject, version, context, schema_id),
        )

    def soft_delete(self, entry: Entry, now: int) -> None:
        """Hide a version; it can still be read by id."""
        self.lookups.forget()
        self.replaced = True
        self._run(
            "UPDATE versions SET deleted = 1, ts = ? WHERE subject = ? AND version = ?",
            (now, entry.subject, entry.version),
        )
        self._hold(Name.parse(entry.subject).context, entry.id, entry.subject, entry.version)

    def hard_delete(self, entry: Entry) -> None:
        """Forget a version, and the content behind its id if nobody else holds it."""
        self.lookups.forget()
        self.replaced = True
        key = (Name.parse(entry.subject).context, entry.id)
        self._run("DELETE FROM versions WHERE subject = ? AND version = ?", (entry.subject, entry.version))
        self._run(
            "DELETE FROM holders WHERE context = ? AND id = ? AND subject = ? AND version = ?",
            (*key, entry.subject, entry.version),
        )
        if self._run("SELECT 1 FROM holders WHERE context = ? AND id = ?", key):
            return
        if self._run("SELECT 1 FROM versions WHERE context = ? AND id = ?", key):
            return
        self._run("DELETE FROM schemas WHERE context = ? AND id = ?", key)
        self._run("DELETE FROM referrers WHERE context = ? AND id = ?", key)
        self._run("DELETE FROM guids WHERE context = ? AND id = ?", key)

    # ids

    def id_of(self, content: Alike) -> int | None:
        """The id that this content was last given in its context."""
        return next((int(schema_id) for kind, schema_id in self.lookups[content] if kind == "same"), None)

    def ids_of(self, guid: str) -> list[tuple[str, int]]:
        """The id of this content in every context that has it."""
        rows = self._run("SELECT context, id FROM guids WHERE guid = ?", (guid,))
        return sorted((str(r[0]), int(r[1])) for r in rows)

    def holders(self, context: str, schema_id: int) -> list[tuple[str, int]]:
        """The subjects that hold an id, each with its version, in the order in which they got it."""
        rows = self._run("SELECT subject, version FROM holders WHERE context = ? AND id = ? ORDER BY seq", (context, schema_id))
        return [(str(r[0]), int(r[1])) for r in rows]

    def schema(self, context: str, schema_id: int) -> Entry | None:
        """The content behind an id, whoever holds it; subject and version are left blank."""
        rows = self._run(
            "SELECT '', 0, id, guid, kind, text, refs, metadata, rules, NULL, NULL FROM schemas WHERE context = ? AND id = ?",
            (context, schema_id),
        )
        return _entry(rows[0]) if rows else None

    def same_in_subject(self, subject: str, content: Alike) -> list[Entry]:
        """The versions of a subject that are this schema, or are it once references are written out, latest first."""
        context = Name.parse(subject).context
        # In two steps, so that no planner comes to walk through all versions of the subject.
        ids = {int(schema_id) for kind, schema_id in self.lookups[content] if kind == "alike"}
        found = [
            _entry(row)
            for schema_id in ids
            for row in self._run(f"{_ENTRY} WHERE v.context = ? AND v.id = ? AND v.subject = ?", (context, schema_id, subject))
        ]
        return sorted(found, key=lambda entry: -entry.version)

    def last_id(self, context: str) -> int:
        """The highest id ever given in a context; ids are never given twice."""
        if context not in self._last_ids:
            rows = self._run("SELECT last_id FROM counters WHERE context = ?", (context,))
            self._last_ids[context] = int(rows[0][0]) if rows else 0
        return self._last_ids[context]

    def next_id(self, context: str) -> int:
        """The id that the next new content gets: one that a client's 32 bits can hold."""
        following = self.last_id(context) + 1
        if following <= _COUNTED:
            return following
        free = (
            "SELECT MIN(s.id + 1) FROM schemas s WHERE s.context = ? AND s.id < ? "
            "AND NOT EXISTS (SELECT 1 FROM schemas t WHERE t.context = s.context AND t.id = s.id + 1)"
        )
        found = self._run(free, (context, LARGEST_ID))[0][0]
        if found is None:
            raise no_ids_left(context)
        return int(found)

    def forget_context(self, context: str) -> bool:
        """Take a context off the list until it has a subject again; says whether it was on it. Its counter stays."""
        if context not in self.contexts()[1:]:
            return False
        self._run("INSERT INTO forgotten_contexts VALUES (?) ON CONFLICT DO NOTHING", (context,))
        return True

    def contexts(self) -> list[str]:
        """Every context that ever had a subject and was not forgotten, the default one first."""
        gone = "SELECT context FROM forgotten_contexts"
        rows = self._run(f"SELECT context FROM counters WHERE context <> '.' AND context NOT IN ({gone}) ORDER BY context", ())
        return [DEFAULT_CONTEXT, *(str(r[0]) for r in rows)]

    def referrers(self, subject: str, version: int, *, deleted: bool) -> list[tuple[str, int]]:
        """The (context, id) of every schema that refers to a version."""
        rows = self._run(
            "SELECT DISTINCT r.context, r.id FROM referrers r JOIN versions v ON v.context = r.context AND v.id = r.id "
            f"WHERE r.subject = ? AND r.version = ?{'' if deleted else ' AND v.deleted = 0'}",
            (subject, version),
        )
        return sorted((str(r[0]), int(r[1])) for r in rows)

    def referring_subjects(self, subject: str, version: int, *, deleted: bool) -> set[str]:
        """The subjects with a version that refers to this one."""
        rows = self._run(
            "SELECT DISTINCT v.subject FROM referrers r JOIN versions v ON v.context = r.context AND v.id = r.id "
            f"WHERE r.subject = ? AND r.version = ?{'' if deleted else ' AND v.deleted = 0'}",
            (subject, version),
        )
        return {str(r[0]) for r in rows}

    # settings

    def config(self, subject: str) -> dict[str, Any] | None:
        """The settings of a subject or context; those of the whole registry are under the empty name."""
        body = self._setting("configs", subject)
        return None if body is None else json.loads(body)

    def configs(self) -> dict[str, dict[str, Any]]:
        """All settings by subject."""
        return {str(r[0]): json.loads(r[1]) for r in self._run("SELECT subject, body FROM configs", ())}

    def put_config(self, subject: str, body: dict[str, Any] | None) -> None:
        """Set or, with none, remove the settings of a subject."""
        # An id may be asked for under an alias, so what an alias stands for is part of the answers by id.
        self.replaced = self.replaced or "alias" in (body or {}) or "alias" in (self.config(subject) or {})
        self.lookups.forget(lambda question: isinstance(question, Settings))
        self._run("DELETE FROM configs WHERE subject = ?", (subject,))
        if body is not None:
            self._run("INSERT INTO configs VALUES (?, ?)", (subject, json.dumps(body)))

    def mode(self, subject: str) -> str | None:
        """The mode set for a subject or context."""
        return self._setting("modes", subject)

    def modes(self) -> dict[str, str]:
        """All modes by subject."""
        return {str(r[0]): str(r[1]) for r in self._run("SELECT subject, mode FROM modes", ())}

    def put_mode(self, subject: str, mode: str | None) -> None:
        """Set or, with none, remove the mode of a subject."""
        self.lookups.forget(lambda question: isinstance(question, Settings))
        self._run("DELETE FROM modes WHERE subject = ?", (subject,))
        if mode is not None:
            self._run("INSERT INTO modes VALUES (?, ?)", (subject, mode))


def _prefix_filter(context: str | None, prefix: str) -> tuple[str, list[Any]]:
    """Range conditions rather than LIKE: exact, case-sensitive and answered from the index."""
    where: list[str] = []
    values: list[Any] = []
    if context is not None:
        where.append("v.context = ?")
        values.append(context)
    if prefix:
        where.append("substr(v.name, 1, ?) = ?" if context is None else "v.name >= ? AND substr(v.name, 1, ?) = ?")
        values += [len(prefix), prefix] if context is None else [prefix, len(prefix), prefix]
    return " AND ".join(where) or "1 = 1", values


def _entry(row: Row) -> Entry:
    subject, version, schema_id, guid, kind, text, refs, metadata, rules, ts, deleted = row
    return Entry(
        subject=subject,
        version=version,
        id=schema_id,
        guid=guid,
        kind=kind,
        text=text,
        references=tuple(Reference(*r) for r in json.loads(refs)) if refs != "[]" else (),
        metadata=json.loads(metadata) if metadata is not None else None,
        rules=json.loads(rules) if rules is not None else None,
        ts=ts,
        deleted=None if deleted is None else bool(deleted),
    )


def _dump(body: dict[str, Any] | None) -> str | None:
    return None if body is None else json.dumps(body)


def _dump_references(references: Iterable[Reference]) -> str:
    return json.dumps([[r.name, r.subject, r.version] for r in references])
