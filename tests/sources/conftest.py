"""A schema registry for the tests of sources."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.registry.conftest import InThread


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[InThread]:
    service = InThread(f"sqlite:///{tmp_path}/registry.db")
    yield service
    service.stop()
