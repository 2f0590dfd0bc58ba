"""Bias by dimension: the slow region is found, and chance alone is flagged no more often than stated."""

import numpy as np

from eventide.lateness.bias import bias

REGIONS = {f"region-{n:02d}": 200_000 // (n + 1) for n in range(20)}


def counted(rng, base, slow=None, factor=1.0):
    return {name: (int(rng.binomial(rows, base * (factor if name == slow else 1))), rows) for name, rows in REGIONS.items()}


def test_an_injected_slow_region_among_twenty_of_unequal_size_is_found_first():
    rng = np.random.default_rng(5)
    for slow in REGIONS:
        found = bias(counted(rng, 0.01, slow, 3.0))
        assert found[0].value == slow and found[0].flagged
        assert found[0].low > found[0].base


def test_without_bias_nothing_is_flagged_beyond_the_stated_level():
    rng = np.random.default_rng(6)
    streams = 1_000
    false = sum(any(b.flagged for b in bias(counted(rng, 0.01))) for _ in range(streams))
    # 5% of 1,000 is 50; 68 is the 99.5% point of that binomial.
    assert false <= 68


def test_a_value_without_rows_and_a_single_value_are_no_bias():
    assert [b.flagged for b in bias({"only": (10, 100), "none": (0, 0)})] == [False]
    assert bias({}) == []


def test_rare_values_are_not_flagged_for_one_late_row():
    found = bias({"big": (1_000, 100_000), "tiny": (1, 3)})
    assert not any(b.flagged for b in found if b.value == "tiny")
