"""What changed between two versions: change by change, as text, and who could still read whom."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator
from typing import Any

from eventide.registry.catalog import Catalog
from eventide.registry.compatibility import Incompatibility, check
from eventide.registry.records import Entry, Json


def compare(catalog: Catalog, old: Entry, new: Entry) -> Json:
    """Everything that differs between two versions, of the same subject or not."""
    before, after = catalog.parsed(old), catalog.parsed(new)
    backward = check(after, before)
    forward = check(before, after)
    return {
        "from": {"subject": old.subject, "version": old.version, "id": old.id},
        "to": {"subject": new.subject, "version": new.version, "id": new.id},
        "same": old.guid == new.guid,
        "changes": list(_changes(_tree(old), _tree(new), "")),
        "backward": [as_json(reason) for reason in backward],
        "forward": [as_json(reason) for reason in forward],
        "text": "\n".join(
            difflib.unified_diff(_lines(old), _lines(new), _title(old), _title(new), lineterm="")
        ),
    }  # fmt: skip


def as_json(reason: Incompatibility) -> Json:
    """A reason as clients of our own routes get it."""
    return {
        "kind": reason.kind,
        "path": reason.path,
        "reader": reason.reader,
        "message": reason.message,
        "fix": reason.fix,
    }


def _tree(entry: Entry) -> Any:
    if entry.kind == "PROTOBUF":
        return {str(i): line for i, line in enumerate(entry.text.splitlines())}
    return json.loads(entry.text)


def _lines(entry: Entry) -> list[str]:
    if entry.kind == "PROTOBUF":
        return entry.text.splitlines()
    return json.dumps(json.loads(entry.text), indent=2, ensure_ascii=False).splitlines()


def _title(entry: Entry) -> str:
    return f"{entry.subject} version {entry.version}"


def _changes(old: Any, new: Any, path: str) -> Iterator[Json]:
    if isinstance(old, dict) and isinstance(new, dict):
        for key in [*old, *(k for k in new if k not in old)]:
            yield from _member(old, new, key, f"{path}/{key}")
    elif isinstance(old, list) and isinstance(new, list):
        before, after = _keyed(old), _keyed(new)
        for key in [*before, *(k for k in after if k not in before)]:
            yield from _member(before, after, key, f"{path}/{key}")
    elif old != new or type(old) is not type(new):
        yield {"path": path or "/", "change": "changed", "before": old, "after": new}


def _member(old: dict[str, Any], new: dict[str, Any], key: str, path: str) -> Iterator[Json]:
    if key not in new:
        yield {"path": path, "change": "removed", "before": old[key]}
    elif key not in old:
        yield {"path": path, "change": "added", "after": new[key]}
    else:
        yield from _changes(old[key], new[key], path)


def _keyed(items: list[Any]) -> dict[str, Any]:
    """A list by what its members are called, so that a field put in front does not change all that follow."""
    if all(isinstance(item, dict) and isinstance(item.get("name"), str) for item in items):
        return {item["name"]: item for item in items}
    if all(isinstance(item, str) for item in items):
        return {item: item for item in items}
    return {str(i): item for i, item in enumerate(items)}
