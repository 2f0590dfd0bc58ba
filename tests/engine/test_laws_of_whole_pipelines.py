"""The laws of views, several aggregations, stages and joins over whole pipelines as users write them: files, restarts, uneven lanes, idle gaps."""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest
from of_files import Landing
from random_pipelines import LAWS, the_law_holds

EXAMPLES, FIRST = int(os.environ.get("EVENTIDE_EXAMPLES", "50")), int(os.environ.get("EVENTIDE_FIRST", "2000"))
"""So many pipelines of each kind in the soak, from which seed on."""
pytestmark = pytest.mark.filterwarnings("ignore::eventide.errors.LossWarning")


def standing(law: str, examples: int, read_all: Any, first: int = 0) -> int:
    found = 0
    for seed in range(first, first + examples):
        with tempfile.TemporaryDirectory() as root:
            try:
                found += the_law_holds(law, seed, Path(root), read_all)
            except AssertionError as error:
                raise AssertionError(f"{law}, seed {seed}") from error
    return found


@pytest.mark.parametrize("law", LAWS)
def test_without_spark(law: str) -> None:
    assert standing(law, 8, Landing.read_here) > 8


@pytest.mark.parametrize("law", LAWS)
def test_on_spark(law: str, spark: Any) -> None:
    assert standing(law, 2, on(spark), 1_000) > 2


@pytest.mark.soak
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("law", LAWS)
def test_many_on_spark(law: str, spark: Any) -> None:
    began = time.monotonic()
    found = standing(law, EXAMPLES, on(spark), FIRST)
    print(
        f"\n{law}: {EXAMPLES} pipelines on Spark from seed {FIRST} on, {found} results as the oracle has them, {time.monotonic() - began:.0f} s"
    )


def on(spark: Any) -> Any:
    return lambda landing, drain: landing.read_on_spark(spark, drain=drain)
