"""Where a run's files are kept: on a disk of this machine, in an object store, or on a Hadoop file system; without Spark."""
