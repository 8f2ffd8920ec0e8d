"""A pipeline under test: rows in, micro-batches run, records out, without a cluster. Spark and its queries are real."""

import shutil
import tempfile
from collections.abc import Mapping
from datetime import UTC, datetime
from os.path import join
from types import TracebackType
from typing import Any, Final, Self

from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from headrace.spark.spark_session import session
from headrace.streams.compiler.directory_topics import DirectoryTopics
from headrace.streams.compiler.running import compiled_queries, own_session, started
from headrace.streams.errors import PlanError
from headrace.streams.feeding import Record, encoded, source_of
from headrace.streams.plan import Plan
from headrace.streams.queries import cut
from headrace.streams.rewrites import rewrite
from headrace.streams.runnable import check_runnable

_PARTITIONS: Final = 2
_LEAST_PAUSE_MS: Final = 50
_PAUSE_MS_PER_QUERY: Final = 20
_EPOCH: Final = datetime(2000, 1, 1, tzinfo=UTC)


class AppTest:
    """Made by `App.test`, for a `with` block.

    `feed` puts records into a topic, `run` works off what was fed, `read` gives what a topic got since it was last
    read. Time is that of the records: it moves when a later one is fed.
    """

    def __init__(self, plan: Plan, spark: SparkSession | None, master: str) -> None:
        check_runnable(plan)
        self._plan = plan
        self._directory = tempfile.mkdtemp(prefix="headrace-test-")
        self._topics = DirectoryTopics(join(self._directory, "topics"))
        self._given = spark
        self._master = master
        self._queries: dict[str, StreamingQuery] = {}
        self._read: dict[str, int] = {}

    def feed(self, topic: str, *rows: object, key: object = None, at: datetime | str | None = None) -> None:
        """Add records to a topic of the app's sources: dicts of columns, bytes as they are, None for a tombstone.
        A `Record` stays as it is, with its own key and time.

        The key comes from the row's columns unless it is given. `at` is the time of the records, a datetime or an ISO
        text; else it is the first second of the year 2000.
        """
        source = source_of(self._plan, topic)
        time = _time(at)
        made = [row if isinstance(row, Record) else Record(*encoded(source, row, key), time) for row in rows]
        self._topics.append(topic, made)

    def run(self) -> None:
        """Work off everything that was fed. Raises StreamingQueryException if a query fails."""
        if not self._queries:
            self._start()
        for query in self._queries.values():  # writers of internal topics come before their readers
            query.processAllAvailable()

    def read(self, topic: str) -> list[Record]:
        """The records that the topic got since it was last read."""
        every = self._topics.records(topic)
        start = self._read.get(topic, 0)
        self._read[topic] = len(every)
        return every[start:]

    def table(self, topic: str) -> dict[bytes | None, Any]:
        """The topic as a table: the last value of each key, read as JSON, without those that were deleted."""
        last = {record.key: record.json for record in self._topics.records(topic)}
        return {key: value for key, value in last.items() if value is not None}

    def close(self) -> None:
        for query in self._queries.values():
            query.stop()
        shutil.rmtree(self._directory, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _start(self) -> None:
        base = self._given if self._given is not None else session(self._plan.app, self._master)
        own = own_session(base, self._plan.partitions or _PARTITIONS)
        queries = cut(rewrite(self._plan))
        # Without a pause idle queries take the processor, and the more of them there are, the longer it must be.
        pause_ms = max(_LEAST_PAUSE_MS, _PAUSE_MS_PER_QUERY * len(queries))
        often: Mapping[str, Any] = {"processingTime": f"{pause_ms} milliseconds"}
        for compiled in compiled_queries(self._plan, queries, own, self._topics):
            self._queries[compiled.query.name] = started(compiled, join(self._directory, "state"), often)


def _time(given: datetime | str | None) -> datetime:
    if given is None:
        return _EPOCH
    made = datetime.fromisoformat(given) if isinstance(given, str) else given
    if made.tzinfo is None:
        raise PlanError(f"{given!r} has no time zone: write 2026-11-16T08:00:00Z, or give a datetime with one")
    return made
