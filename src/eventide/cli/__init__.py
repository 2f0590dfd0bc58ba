"""The `eventide` command, one file for each noun."""
