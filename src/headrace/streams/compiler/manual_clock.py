"""The clock of streaming queries, to be moved by tests: what timers in processing time and times to live go by.

Spark gives a query its clock when it is made, and has no door for another one; but it has one that stands until it is
moved, and the query looks at its clock anew for each micro-batch. So the one is put in the other's place.
"""

from collections.abc import Collection
from typing import Any, Final

from pyspark.sql.streaming import StreamingQuery

_OWNER: Final = "org.apache.spark.sql.execution.streaming.runtime.StreamExecution"
_FIELD: Final = "triggerClock"


class ClockOfQueries:
    """From when it is made, time stands at the time of that moment."""

    def __init__(self, queries: Collection[StreamingQuery]) -> None:
        from pyspark import SparkContext

        context: Any = SparkContext._active_spark_context
        jvm = context._jvm
        self._clock = jvm.org.apache.spark.util.ManualClock(jvm.java.lang.System.currentTimeMillis())
        for query in queries:
            _replace_clock(query, self._clock)

    def advance(self, milliseconds: int) -> None:
        self._clock.advance(milliseconds)


def _replace_clock(query: StreamingQuery, clock: Any) -> None:
    java: Any = query._jsq
    execution = java.streamingQuery() if hasattr(java, "streamingQuery") else java
    owner = execution.getClass()
    while owner.getName() != _OWNER:
        owner = owner.getSuperclass()
    field = owner.getDeclaredField(_FIELD)
    field.setAccessible(True)
    field.set(execution, clock)
