"""The README's lines are a pipeline."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

README = Path(__file__).parents[1] / "README.md"


def test_its_dozen_lines_define_a_pipeline(recwarn: Any) -> None:
    made: dict[str, Any] = {}
    (snippet,) = re.findall(r"^```python\n(.*?)^```", README.read_text(), re.MULTILINE | re.DOTALL)
    assert len(snippet.splitlines()) <= 16
    exec(compile(snippet, "README.md", "exec"), made)
    assert [output.name for output in made["pipeline"].outputs] == ["dashboard", "totals"]
