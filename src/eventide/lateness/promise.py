"""What is promised of time: how soon rows arrive, and how many are in the results in the end; kept, or not."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from eventide.errors import DefinitionError
from eventide.lateness.measured import Lateness

FRESHNESS, COMPLETENESS = "freshness", "completeness"
_SECOND = 1_000_000
_UNITS = {"ms": 1_000, "s": _SECOND, "m": 60 * _SECOND, "min": 60 * _SECOND, "h": 3600 * _SECOND, "d": 86_400 * _SECOND}
_LONG = {"millisecond": "ms", "second": "s", "sec": "s", "minute": "min", "hour": "h", "hr": "h", "day": "d"}
_SHARES = {"%": 0.01, "percent": 0.01}


@dataclass(frozen=True)
class Promise:
    """A promise of freshness, of completeness, or of both.

    Freshness: 99% of the rows of every lane arrive within so many microseconds of their event time. Completeness: the share of
    rows that are in a result in the end.

    >>> Promise.of([{"property": "freshness", "value": 2, "unit": "min"}, {"property": "completeness", "value": 99.9, "unit": "%"}])
    Promise(freshness=120000000, completeness=0.999, others=())
    """

    freshness: int | None = None
    completeness: float | None = None
    others: tuple[str, ...] = ()
    """Promises of other things, which nobody here can check."""

    @classmethod
    def of(cls, given: Iterable[Mapping[str, Any]]) -> Promise:
        """The promise in the `slaProperties` of a contract; where one thing is promised twice, the stricter counts.

        Raises:
            DefinitionError: a value or unit that means nothing.
        """
        spans, shares, others = [], [], []
        for each in given:
            name = str(each.get("property"))
            if name == FRESHNESS:
                spans.append(_span(each))
            elif name == COMPLETENESS:
                shares.append(_share(each))
            else:
                others.append(name)
        return cls(min(spans, default=None), max(shares, default=None), tuple(others))

    @classmethod
    def of_tuning(cls, tuning: Mapping[str, Any]) -> Promise:
        """What history lets one promise: the JSON of `eventide tune`. Freshness is rounded up to whole seconds."""
        try:
            slowest = max((lane["lateness"]["p99"] for lane in tuning["lanes"] if lane["lateness"]), default=None)
            share = min(tuning["targets"]["in_the_end"], tuning["recommended"]["completeness"])
        except (KeyError, TypeError) as error:
            raise DefinitionError(f"this is no JSON of `eventide tune --json`: {error!r}") from error
        return cls(None if slowest is None else max(1, math.ceil(slowest / _SECOND)) * _SECOND, float(share))

    def as_properties(self) -> list[dict[str, Any]]:
        """As the `slaProperties` of a contract."""
        found: list[dict[str, Any]] = []
        if self.freshness is not None:
            span = self.freshness / _SECOND
            found.append({"property": FRESHNESS, "value": int(span) if span.is_integer() else span, "unit": "s"})
        if self.completeness is not None:
            found.append({"property": COMPLETENESS, "value": self.completeness})
        return found

    def judged(self, measured: Lateness) -> list[tuple[bool, str]]:
        """Each promise: whether it is kept, and what was found. What nobody measured is not kept."""
        found = []
        if self.freshness is not None:
            lanes = [line for line in measured.by("source", "lane") if line["p99"] is not None]
            slowest = max(lanes, key=lambda line: line["p99"], default=None)
            told = f"freshness: 99% within {self.freshness / _SECOND:g} s promised, "
            if slowest is None:
                found.append((False, told + "no row was measured"))
            else:
                lane = f"{slowest['source']} {slowest['lane']}"
                found.append((slowest["p99"] <= self.freshness, f"{told}{slowest['p99'] / _SECOND:,.2f} s in lane {lane}"))
        if self.completeness is not None:
            found += [self._complete(measured, output) for output in measured.outputs]
        return found

    def _complete(self, measured: Lateness, output: str) -> tuple[bool, str]:
        counts = measured.verdicts(output)
        total = sum(counts.values())
        told = f"completeness: {self.completeness:.4%} promised, "
        if not total:
            return False, f"{told}no row was judged in {output}"
        # Dead letters are in no result either.
        share = (total - counts["refused"]) / total * (1 - measured.shares["dead"])
        return share >= (self.completeness or 0), f"{told}{share:.4%} in {output}"


def _number(given: Mapping[str, Any]) -> float:
    try:
        value = float(given["value"])
    except (KeyError, TypeError, ValueError):
        value = math.nan
    if not math.isfinite(value) or value < 0:
        raise DefinitionError(f"{given.get('property')} is promised as {given.get('value')!r}; give a number")
    return value


def _span(given: Mapping[str, Any]) -> int:
    unit = str(given.get("unit") or "s").lower()
    short = _LONG.get(unit.removesuffix("s") if len(unit) > 2 else unit, unit)
    if short not in _UNITS:
        raise DefinitionError(f"freshness has the unit {given.get('unit')!r}; take one of {', '.join(_UNITS)}")
    return round(_number(given) * _UNITS[short])


def _share(given: Mapping[str, Any]) -> float:
    unit = str(given.get("unit") or "").lower()
    if unit and unit not in _SHARES:
        raise DefinitionError(
            f"completeness has the unit {given.get('unit')!r}; give a share from 0 to 1, or a number with the unit %"
        )
    share = round(_number(given) * _SHARES.get(unit, 1.0), 12)
    if share > 1:
        raise DefinitionError(f"completeness is promised as {given.get('value')!r}; give a share from 0 to 1, or the unit %")
    return share
