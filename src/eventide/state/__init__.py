"""What a run remembers, without Spark: journal, ledger, store, lease and archive."""
