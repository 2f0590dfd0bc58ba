"""Promises of time: read from a contract and from a tuning, kept or broken by what was measured."""

from __future__ import annotations

from typing import Any

import pytest

from eventide.errors import DefinitionError
from eventide.lateness.promise import Promise


class Measured:
    """What a pipeline measured, as far as a promise asks."""

    def __init__(self, p99: list[float | None], verdicts: dict[str, int], dead: float = 0.0) -> None:
        self._lanes = [{"source": "s", "lane": str(i), "p99": at} for i, at in enumerate(p99)]
        self._verdicts, self.shares, self.outputs = verdicts, {"dead": dead}, {"totals": verdicts}

    def by(self, *names: str) -> list[dict[str, Any]]:
        return self._lanes

    def verdicts(self, output: str) -> dict[str, int]:
        return self._verdicts


GOOD = {"on_time": 990, "admitted": 9, "refused": 1}


@pytest.mark.parametrize(
    ("measured", "kept"),
    [
        (Measured([5e6, 12e6], GOOD), [True, True]),
        (Measured([5e6, 12_000_001.0], GOOD), [False, True]),
        (Measured([5e6], {"on_time": 990, "admitted": 8, "refused": 2}), [True, False]),
        (Measured([5e6], {**GOOD, "refused": 0}, dead=0.002), [True, False]),
        (Measured([], {"on_time": 0, "admitted": 0, "refused": 0}), [False, False]),
        (Measured([None], GOOD), [False, True]),
    ],
)
def test_a_promise_is_kept_by_every_lane_and_output_or_it_is_broken(measured: Any, kept: list[bool]) -> None:
    assert [is_kept for is_kept, _ in Promise(12_000_000, 0.999).judged(measured)] == kept


@pytest.mark.parametrize(
    ("given", "span"), [((90, "s"), 90), ((1.5, "min"), 90), ((2, "minutes"), 120), ((1, "h"), 3600), ((1, "days"), 86_400),
                        ((500, "ms"), 0.5), (("3", None), 3), ((3, "Seconds"), 3)],
)  # fmt: skip
def test_units_of_freshness(given: Any, span: float) -> None:
    assert Promise.of([{"property": "freshness", "value": given[0], "unit": given[1]}]).freshness == span * 1_000_000


@pytest.mark.parametrize(
    "bad",
    [{"property": "freshness", "value": 1, "unit": "fortnights"}, {"property": "freshness", "value": "soon"}, {"property": "freshness"},
     {"property": "completeness", "value": 99.9}, {"property": "completeness", "value": 0.9, "unit": "s"},
     {"property": "completeness", "value": float("nan")}, {"property": "freshness", "value": -1}],
)  # fmt: skip
def test_a_promise_that_means_nothing_is_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(DefinitionError):
        Promise.of([bad])


def test_the_stricter_of_two_promises_counts_and_others_are_named() -> None:
    given = [{"property": "freshness", "value": v} for v in (9, 3)] + [{"property": "retention", "value": 3, "unit": "y"}]
    assert Promise.of(given) == Promise(3_000_000, None, ("retention",))


def test_no_tuning_no_promise() -> None:
    with pytest.raises(DefinitionError, match="eventide tune --json"):
        Promise.of_tuning({"rows": 3})
