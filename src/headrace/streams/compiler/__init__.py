"""From a plan to Spark: the only part of `headrace.streams` that imports PySpark."""
