"""The same change in a SQL table, step by step."""
