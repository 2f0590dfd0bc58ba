"""The migration rules between two versions of a subject, run one after the other as Confluent's clients run them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from typing import Any, TypeVar
from urllib.parse import quote

import polars as pl

from eventide.errors import EventideError
from eventide.migration.plan.shape import Leaf, language
from eventide.registry.client import RegistryClient

T = TypeVar("T")
_LONGEST = 1_000
_DEEPEST = 300
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_UNITS = {"millis": 1_000, "micros": 1}


class RuleFailed(EventideError):
    """A migration rule that cannot be run, or that failed on a record."""


@dataclass(frozen=True)
class RuleChain:
    """What turns a record of one version into one of another; it can be sent to workers: `source.map(chain)`.

    >>> rename = {"name": "up", "mode": "UPGRADE", "type": "JSONATA", "expr": '$merge([$sift($, function($v, $k) '
    ...           '{$k != "state"}), {"status": state}])'}
    >>> RuleChain((rename,))([{"id": 1, "state": "new"}])
    [{'id': 1, 'status': 'new'}]
    """

    rules: tuple[Mapping[str, Any], ...]
    written: Mapping[str, Leaf] = field(default_factory=dict)
    """The leaves of the version that wrote the records, which say how dates and moments are counted."""
    wanted: Mapping[str, Leaf] = field(default_factory=dict)
    """The leaves of the version that is to be read, by which dates and moments get their types back."""

    def __call__(self, frame: T) -> T:
        """The same records in the target version: a record, a list of records or a Polars frame."""
        if not self.rules:
            return frame
        if isinstance(frame, dict):
            return self._one(frame, 0)  # type: ignore[return-value]
        if isinstance(frame, list):
            return [self._one(record, place) for place, record in enumerate(frame)]  # type: ignore[return-value]
        if isinstance(frame, pl.DataFrame):
            rows = [self._one(row, place) for place, row in enumerate(frame.iter_rows(named=True))]
            return pl.DataFrame(rows, infer_schema_length=None, strict=False)  # type: ignore[return-value]
        raise RuleFailed(
            f"Migration rules run on records and Polars frames, not on {type(frame).__name__}; in a pipeline: source.map(chain)."
        )

    def _one(self, record: dict[str, Any], place: int) -> dict[str, Any]:
        message: Any = _plain(record, "", self.written)
        for rule in self.rules:
            try:
                message = _run(str(rule["expr"]), message)
            except Exception as error:
                if rule.get("onFailure") == "NONE":
                    continue
                raise RuleFailed(f"Rule {rule['name']!r} failed on record {place}: {type(error).__name__}: {error}") from error
            if not isinstance(message, dict):
                raise RuleFailed(f"Rule {rule['name']!r} made {message!r} of record {place}; a record is an object.")
        typed: dict[str, Any] = _typed(message, "", self.wanted)
        return typed


def rules_between(client: RegistryClient, subject: str, writer: int, reader: int | str = "latest") -> RuleChain:
    """The rules from the version that wrote a record to the version that is to be read; none if the subject has none.

    Upgrades are those of every version after the writer's, in order; downgrades those of every version after the
    reader's, the last first.

    Raises:
        RuleFailed: a rule that is not JSONata, or that asks for an action which is not built.
    """
    path = f"/subjects/{quote(subject, safe='')}/versions"
    target = client.call("GET", f"{path}/{reader}")
    last = int(target["version"])
    up = writer < last
    low, high = min(writer, last), max(writer, last)
    between = [int(v) for v in client.call("GET", path) if low < int(v) <= high]
    found: list[Mapping[str, Any]] = []
    for version in between if up else reversed(between):
        rules = (client.call("GET", f"{path}/{version}").get("ruleSet") or {}).get("migrationRules") or ()
        found += _chosen(rules, "UPGRADE" if up else "DOWNGRADE", f"{subject} version {version}")
    if not found:
        return RuleChain(())
    source = client.call("GET", f"{path}/{writer}")
    return RuleChain(tuple(found), *(language(s.get("schemaType", "AVRO")).leaves(s["schema"]) for s in (source, target)))


def _chosen(rules: Sequence[Mapping[str, Any]], mode: str, where: str) -> list[Mapping[str, Any]]:
    chosen = [r for r in rules if r.get("mode") in (mode, "UPDOWN") and not r.get("disabled")]
    for rule in chosen:
        if rule.get("type") != "JSONATA" or rule.get("kind", "TRANSFORM") != "TRANSFORM":
            raise RuleFailed(
                f"Rule {rule.get('name')!r} of {where} is a {rule.get('kind')} in {rule.get('type')}; only transforms in JSONATA are run."
            )
        if rule.get("onFailure") not in (None, "ERROR", "NONE") or rule.get("onSuccess") not in (None, "NONE"):
            raise RuleFailed(
                f"Rule {rule.get('name')!r} of {where} asks for {rule.get('onSuccess')!r} and {rule.get('onFailure')!r} afterwards; "
                "ERROR and NONE are honoured."
            )
    return chosen if mode == "UPGRADE" else list(reversed(chosen))


def _run(expr: str, message: Any) -> Any:
    compiled = _compiled(expr)
    frame = compiled.create_frame()
    frame.set_runtime_bounds(_LONGEST, _DEEPEST)  # counted from here; a rule comes from whoever may write to the subject
    return compiled.evaluate(message, frame)


@lru_cache(maxsize=256)
def _compiled(expr: str) -> Any:
    try:
        from jsonata import Jsonata
    except ImportError:
        raise RuleFailed("Running migration rules needs more packages: pip install 'eventide[rules]'.") from None
    return Jsonata(expr, regex_engine=_linear)


def _linear(pattern: str, flags: Any) -> Any:
    """A pattern by RE2, whose time grows with the text alone."""
    import re2

    options = re2.Options()
    options.log_errors = False
    options.case_sensitive = not flags.case_insensitive
    return re2.compile(f"(?m){pattern}" if flags.multiline else pattern, options)


def _plain(value: Any, path: str, leaves: Mapping[str, Leaf]) -> Any:
    """A value as JSON has it; dates and moments as Avro counts them, as rules written for other clients expect."""
    if isinstance(value, datetime):
        moment = value if value.tzinfo else value.replace(tzinfo=UTC)
        return (moment - _EPOCH) // timedelta(microseconds=_unit(leaves.get(path)) or 1)
    if isinstance(value, date):
        return (value - _EPOCH.date()).days
    if isinstance(value, bytes):
        return value.decode("latin-1")
    return _each(value, path, leaves, _plain)


def _typed(value: Any, path: str, leaves: Mapping[str, Leaf]) -> Any:
    """A value of a rule's answer in the type that its leaf has."""
    leaf = leaves.get(path)
    kind = leaf.type if leaf is not None else ""
    if kind == "bytes" and isinstance(value, str):
        return value.encode("latin-1")
    if isinstance(value, int) and not isinstance(value, bool):
        unit = _unit(leaf)
        if kind == "date":
            return _EPOCH.date() + timedelta(days=value)
        if kind == "timestamp" and unit is not None:
            return _EPOCH + timedelta(microseconds=value * unit)
    return _each(value, path, leaves, _typed)


def _each(value: Any, path: str, leaves: Mapping[str, Leaf], change: Any) -> Any:
    if isinstance(value, dict):
        return {name: change(inner, f"{path}.{name}".lstrip("."), leaves) for name, inner in value.items()}
    return [change(inner, path, leaves) for inner in value] if isinstance(value, list) else value


def _unit(leaf: Leaf | None) -> int | None:
    """Microseconds in one count of a moment."""
    logical = leaf.definition.get("logicalType", "") if leaf is not None and isinstance(leaf.definition, dict) else ""
    return _UNITS.get(str(logical).rpartition("-")[2])
