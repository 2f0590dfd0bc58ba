"""One key that a whole stream falls on: a worker holds its rows, not their matches."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks/hot_join.py"


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_a_million_rows_a_side_of_one_key_stay_below_two_gigabytes() -> None:
    said = subprocess.run([sys.executable, str(SCRIPT)], capture_output=True, text=True, check=True).stdout
    found = re.search(r"([\d,]+) pairs .* peak (\d+) MB", said)
    assert found is not None and found[1] == "9,999,955" and int(found[2]) < 2000, said
