"""The tables, in the SQL that SQLite and PostgreSQL have in common; only `{big}` differs."""

from __future__ import annotations

TABLES = (
    # The content behind an id. `lookup` finds the same schema within a subject, `resolved` the same with its
    # references written out.
    """CREATE TABLE IF NOT EXISTS schemas (
        context TEXT NOT NULL, id {big} NOT NULL, guid TEXT NOT NULL, kind TEXT NOT NULL, text TEXT NOT NULL,
        refs TEXT NOT NULL, metadata TEXT, rules TEXT, lookup TEXT NOT NULL, resolved TEXT,
        PRIMARY KEY (context, id))""",
    "CREATE INDEX IF NOT EXISTS schemas_lookup ON schemas (context, lookup)",
    "CREATE INDEX IF NOT EXISTS schemas_resolved ON schemas (context, resolved)",
    # The id that a content was last given; an import can give the same content a second id.
    """CREATE TABLE IF NOT EXISTS guids (
        context TEXT NOT NULL, guid TEXT NOT NULL, id {big} NOT NULL, PRIMARY KEY (context, guid))""",
    "CREATE INDEX IF NOT EXISTS guids_alone ON guids (guid)",
    """CREATE TABLE IF NOT EXISTS versions (
        subject TEXT NOT NULL, version {big} NOT NULL, context TEXT NOT NULL, name TEXT NOT NULL,
        id {big} NOT NULL, deleted INTEGER NOT NULL, ts {big} NOT NULL, PRIMARY KEY (subject, version))""",
    "CREATE INDEX IF NOT EXISTS versions_id ON versions (context, id, subject)",
    "CREATE INDEX IF NOT EXISTS versions_name ON versions (context, name, version)",
    # Under which version each subject holds an id.
    """CREATE TABLE IF NOT EXISTS holders (
        context TEXT NOT NULL, id {big} NOT NULL, subject TEXT NOT NULL, version {big} NOT NULL, seq {big} NOT NULL,
        PRIMARY KEY (context, id, subject))""",
    """CREATE TABLE IF NOT EXISTS referrers (
        subject TEXT NOT NULL, version {big} NOT NULL, context TEXT NOT NULL, id {big} NOT NULL,
        PRIMARY KEY (subject, version, context, id))""",
    "CREATE INDEX IF NOT EXISTS referrers_id ON referrers (context, id)",
    "CREATE TABLE IF NOT EXISTS counters (context TEXT PRIMARY KEY, last_id {big} NOT NULL)",
    "CREATE TABLE IF NOT EXISTS forgotten_contexts (context TEXT PRIMARY KEY)",
    "CREATE TABLE IF NOT EXISTS configs (subject TEXT PRIMARY KEY, body TEXT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS modes (subject TEXT PRIMARY KEY, mode TEXT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value TEXT NOT NULL)",
    """CREATE TABLE IF NOT EXISTS audit (
        seq {big} PRIMARY KEY, at {big} NOT NULL, who TEXT NOT NULL, origin TEXT NOT NULL, action TEXT NOT NULL,
        subject TEXT NOT NULL, outcome TEXT NOT NULL, reason TEXT NOT NULL, detail TEXT NOT NULL, hash TEXT NOT NULL)""",
    "CREATE INDEX IF NOT EXISTS audit_subject ON audit (subject, seq)",
    """CREATE TABLE IF NOT EXISTS owners (
        prefix TEXT PRIMARY KEY, team TEXT NOT NULL, domain TEXT NOT NULL, contact TEXT NOT NULL,
        on_call TEXT NOT NULL)""",
    """CREATE TABLE IF NOT EXISTS naming (
        prefix TEXT PRIMARY KEY, pattern TEXT NOT NULL, hint TEXT NOT NULL)""",
    """CREATE TABLE IF NOT EXISTS usage (
        client TEXT NOT NULL, context TEXT NOT NULL, id {big} NOT NULL, environment TEXT NOT NULL,
        first_seen {big} NOT NULL, last_seen {big} NOT NULL, decoded {big} NOT NULL,
        PRIMARY KEY (client, environment, context, id))""",
    "CREATE INDEX IF NOT EXISTS usage_id ON usage (context, id)",
    "INSERT INTO facts (name, value) VALUES ('revision', '0') ON CONFLICT DO NOTHING",
    "INSERT INTO counters (context, last_id) VALUES ('.', 0) ON CONFLICT DO NOTHING",
)
