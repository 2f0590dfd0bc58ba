"""One pass over a lane's rows, on Polars and Arrow; knows nothing of Spark."""
