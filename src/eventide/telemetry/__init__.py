"""Runs told to other systems, in their own words: OpenTelemetry, OpenLineage."""
