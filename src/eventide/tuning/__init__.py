"""What waiting buys: history asked in one Spark job, the curve of bounds, and what they recommend."""
