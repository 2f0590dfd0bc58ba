"""Lateness as a number: sketches, the completeness curve, tuning, and bias by dimension."""
