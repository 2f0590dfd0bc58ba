"""The faults that are put in on purpose: what they are, where they are not, and that each is one."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from mutants import MODULES, SRC, mutants, tree

CODE = '''
"""A text with 1 < 2 in it."""
LIMIT = 3

def judge(w: int | None, end: int = 1) -> bool:
    """No fault here: 1 + 1."""
    if w is None or not w < end:
        return True
    seen.append(min(w, -end))
    raise ValueError(f"{w + 1} is too much")
'''


def test_what_a_hasty_hand_would_get_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import mutants as module

    monkeypatch.setattr(module, "SRC", tmp_path)
    (tmp_path / "code.py").write_text(CODE)
    found = [m.what for m in mutants(tmp_path / "code.py")]
    assert sorted(found) == sorted(
        [
            "LIMIT = 3 -> LIMIT = 4",
            "w: int | None, end: int=1 -> w: int | None, end: int=2",
            "w is None or not w < end -> w is None and (not w < end)",
            "w is None or not w < end -> w is None or w < end",
            "w is None -> w is not None",
            "w < end -> w <= end",
            "w < end -> w >= end",
            "without return True",
            "return True -> return False",
            "without seen.append(min(w, -end))",
            "min(w, -end) -> max(w, -end)",
            "min(w, -end) -> min(w, end)",
            "without raise",
        ]
    )


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.relative_to(SRC).as_posix())
def test_every_fault_has_its_own_name_and_is_one(path: Path) -> None:
    found = mutants(path)
    assert len({m.name for m in found}) == len(found)
    sound = ast.dump(ast.parse(path.read_text()))
    assert all(ast.dump(tree(m)) != sound for m in found[:: max(1, len(found) // 4)])
