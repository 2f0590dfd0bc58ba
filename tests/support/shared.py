"""Cases that stand beside the project, for those who have them; tests that need them are skipped elsewhere."""

from pathlib import Path

import pytest

SHARED = Path(__file__).resolve().parents[2].parent / "shared"


def shared_file(relative: str) -> Path:
    """A file of the shared directory, or a skip."""
    path = SHARED / relative
    if not path.exists():
        pytest.skip(f"no {relative} beside the project")
    return path
