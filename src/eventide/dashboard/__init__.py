"""A page that shows what the journal and the stores say; never needs Spark."""
