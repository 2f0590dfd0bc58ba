"""The micro-batch on Spark: decode, scan, advance, judge, store, fire, deliver, commit."""
