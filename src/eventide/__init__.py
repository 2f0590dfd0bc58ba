"""Exact late-data semantics on Spark Structured Streaming."""

__version__ = "0.1.0"
