"""Why a row is late, in the words in which it is told."""

DISORDER, IDLENESS = "behind its own lane", "its lane had been idle"
"""Its lane had gone on without it, or W had gone on without its lane."""
