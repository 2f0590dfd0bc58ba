"""Sketches from Apache DataSketches: approximate distinct counts (HLL) and quantiles (KLL), as bytes that merge."""

from __future__ import annotations

from typing import Any

import datasketches as ds
import numpy as np
import polars as pl

from eventide.model.aggregate import Aggregate

HLL_LOG_BINS = 12
KLL_K = 200


def build(what: Aggregate, values: pl.Series) -> bytes:
    """A sketch of one group's values."""
    if what.kind == "quantile":
        quantiles = ds.kll_doubles_sketch(KLL_K)
        if len(values):
            quantiles.update(values.to_numpy().astype(np.float64))
        return bytes(quantiles.serialize())
    distinct = ds.hll_sketch(HLL_LOG_BINS, ds.tgt_hll_type.HLL_8)
    for value in values.to_list():
        distinct.update(_hashable(value))
    return bytes(distinct.serialize_updatable())


def union(what: Aggregate, sketches: pl.Series) -> bytes:
    """One sketch of all that several have seen."""
    parts = sketches.to_list()
    if len(parts) == 1:
        return bytes(parts[0])
    if what.kind == "quantile":
        quantiles = ds.kll_doubles_sketch(KLL_K)
        for part in parts:
            quantiles.merge(ds.kll_doubles_sketch.deserialize(part))
        return bytes(quantiles.serialize())
    distinct = ds.hll_union(HLL_LOG_BINS)
    for part in parts:
        distinct.update(ds.hll_sketch.deserialize(part))
    return bytes(distinct.get_result(ds.tgt_hll_type.HLL_8).serialize_updatable())


def read(what: Aggregate, sketch: bytes) -> float | int | None:
    """The number that a sketch stands for."""
    if what.kind == "quantile":
        quantiles = ds.kll_doubles_sketch.deserialize(sketch)
        return None if quantiles.is_empty() else float(quantiles.get_quantile(what.share or 0.0, True))
    return round(ds.hll_sketch.deserialize(sketch).get_estimate())


def _hashable(value: Any) -> Any:
    if value == "":
        return "\0"  # DataSketches takes no notice of an empty string, but it is a value like any other
    return value if isinstance(value, int | float | str) and not isinstance(value, bool) else str(value)
