"""A pipeline as its user wrote it down: sources, streams, outputs, as plain values; nothing is opened, nothing runs."""
