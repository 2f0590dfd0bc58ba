"""Cases recorded from other registries lie beside the repository; tests that want them skip where they do not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

RECORDED = Path(__file__).resolve().parents[3].parent / "shared" / "conformance" / "registry"


def recorded(name: str) -> Any:
    """The recorded cases of that name; the test skips if there are none."""
    path = RECORDED / name
    if not path.exists():
        pytest.skip(f"no recorded cases: {name}")
    return json.loads(path.read_text(encoding="utf-8"))


@pytest.fixture
def cases() -> Any:
    return recorded
