"""Schemas that tests register, as JSON values."""

from __future__ import annotations

import json
from typing import Any


def order(*fields: tuple[str, Any], **more: Any) -> str:
    """A record named Order; a field is (name, type) or (name, type, default)."""
    listed = []
    for name, type_, *default in fields:
        listed.append({"name": name, "type": type_, **({"default": default[0]} if default else {})})
    return json.dumps({"type": "record", "name": "Order", "namespace": "shop", "fields": listed, **more})


V1 = order(("id", "string"))
V2 = order(("id", "string"), ("qty", "int", 1))
V3 = order(("id", "string"), ("qty", "int", 1), ("note", ["null", "string"], None))
CLASH = order(("id", "int"))
