"""The micro-batch on Spark: decode, scan, advance, judge, store, fire, deliver, commit."""

from eventide.engine.hadoop_files import through_spark
from eventide.storage.files import reach_hadoop

reach_hadoop(through_spark)
