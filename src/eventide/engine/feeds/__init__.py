"""The ways in which rows come in: one file for each kind of source, and how their records become columns."""
