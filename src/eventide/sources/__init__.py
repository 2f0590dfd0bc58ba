"""Where events come from, one file for each kind."""
