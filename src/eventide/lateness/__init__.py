"""Lateness as a number: what the scan's witness sees of a lane, and what a pipeline has measured of itself."""

from eventide.lateness.bias import Bias, bias
from eventide.lateness.measured import Lateness, read_lateness
from eventide.lateness.promise import Promise

__all__ = ["Bias", "Lateness", "Promise", "bias", "read_lateness"]
