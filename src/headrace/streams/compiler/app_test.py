"""A pipeline under test: rows in, micro-batches run, records out, without a cluster. Spark and its queries are real."""

import json
import shutil
import tempfile
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from os.path import join
from types import TracebackType
from typing import Any, Final, Self

from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from headrace.spark.spark_session import session
from headrace.streams.compiler.directory_topics import DirectoryTopics
from headrace.streams.compiler.manual_clock import ClockOfQueries
from headrace.streams.compiler.running import compiled_queries, own_session, started
from headrace.streams.durations import Duration, duration_ms
from headrace.streams.errors import PlanError
from headrace.streams.feeding import Record, encoded, source_of
from headrace.streams.plan import Plan
from headrace.streams.queries import Query, cut
from headrace.streams.rewrites import rewrite
from headrace.streams.runnable import check_runnable
from headrace.streams.table_topics import table_topics

_PARTITIONS: Final = 2
_LEAST_PAUSE_MS: Final = 50
_PAUSE_MS_PER_QUERY: Final = 50  # to look for records costs three: 6 % of a processor, however many queries there are
_POLL_SECONDS: Final = 0.05
_EPOCH: Final = datetime(2000, 1, 1, tzinfo=UTC)


class AppTest:
    """Made by `App.test`, for a `with` block.

    `feed` puts records into a topic, `run` works off what was fed, `read` gives what a topic got since it was last
    read. Time is that of the records: it moves when a later one is fed. The clock, by which timers in processing time
    and times to live go, is moved by `move_clock`.
    """

    def __init__(self, plan: Plan, spark: SparkSession | None, master: str) -> None:
        check_runnable(plan)
        self._plan = plan
        self._directory = tempfile.mkdtemp(prefix="headrace-test-")
        self._topics = DirectoryTopics(join(self._directory, "topics"))
        self._given = spark
        self._master = master
        self._queries: dict[str, StreamingQuery] = {}
        self._by_clock: dict[str, Query] = {}
        self._clock: ClockOfQueries | None = None
        self._read: dict[str, int] = {}
        self._fed: dict[str, list[Record]] = {}  # since the last run

    def feed(self, topic: str, *rows: object, key: object = None, at: datetime | str | None = None) -> None:
        """Add records to a topic of the app's sources: dicts of columns, bytes as they are, None for a tombstone.
        A `Record` stays as it is, with its own key and time.

        The key comes from the row's columns unless it is given. `at` is the time of the records, a datetime or an ISO
        text; else it is the first second of the year 2000.
        """
        source = source_of(self._plan, topic)
        when = _time(at)
        made = [row if isinstance(row, Record) else Record(*encoded(source, row, key), when) for row in rows]
        self._fed.setdefault(topic, []).extend(made)

    def run(self) -> None:
        """Work off everything that was fed. Raises StreamingQueryException if a query fails."""
        self._hand_over()
        if not self._queries:
            self._start()
        for name, query in self._queries.items():  # writers of internal topics come before their readers
            if name not in self._by_clock:
                query.processAllAvailable()
            elif any(map(self._topics.has_records, self._by_clock[name].sources)):
                _await_idle_batch(query)

    def move_clock(self, by: Duration) -> None:
        """Let time pass, for what goes by the clock, and work off what it brings. From then on, the clock stands."""
        self._hand_over()
        if not self._queries:
            self._start()
        if self._clock is None:
            self._clock = ClockOfQueries(self._queries.values())
        self._clock.advance(duration_ms(by, what="the time by which the clock moves"))
        self.run()

    def read(self, topic: str) -> list[Record]:
        """The records that the topic got since it was last read."""
        every = self._topics.records(topic)
        start = self._read.get(topic, 0)
        self._read[topic] = len(every)
        return every[start:]

    def table(self, name: str) -> dict[bytes | None, Any]:
        """A table, by its topic or its operator's name, also one that only other operators read, from a topic of the
        app's own: the last value of each key, read as JSON, without those that were deleted."""
        known = table_topics(self._plan)
        topic = known[name].topic if name in known else name
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

    def _hand_over(self) -> None:
        """All records of a topic at once: queries run all the time, and would see some of them before the others."""
        for topic, records in self._fed.items():
            self._topics.append(topic, records)
        self._fed.clear()

    def _start(self) -> None:
        base = self._given if self._given is not None else session(self._plan.app, self._master)
        own = own_session(base, self._plan.partitions or _PARTITIONS)
        queries = cut(rewrite(self._plan))
        # Without a pause idle queries take the processor, and the more of them there are, the longer it must be.
        pause_ms = max(_LEAST_PAUSE_MS, _PAUSE_MS_PER_QUERY * len(queries))
        often: Mapping[str, Any] = {"processingTime": f"{pause_ms} milliseconds"}
        for compiled in compiled_queries(self._plan, queries, own, self._topics):
            name = compiled.query.name
            self._queries[name] = started(compiled, join(self._directory, "state"), often)
            if compiled.query.by_clock:
                self._by_clock[name] = compiled.query
            else:
                # One after the other: before its first micro-batch, a query with state in Python starts a process for
                # each operator, which Spark gives ten seconds, however many there are at a time.
                self._queries[name].processAllAvailable()


def _await_idle_batch(query: StreamingQuery) -> None:
    """Of a query that goes by the clock, and thus never has nothing to do, which is what processAllAvailable waits for.

    The micro-batch after the next looks for records after this was called. If it finds none, all are worked off.
    """
    first = _last_batch(query).get("batchId", -1) + 2
    while (last := _last_batch(query)).get("batchId", -1) < first or last["numInputRows"] > 0:
        if (failed := query.exception()) is not None:
            raise failed
        time.sleep(_POLL_SECONDS)


def _last_batch(query: StreamingQuery) -> Mapping[str, Any]:
    last: Any = query.lastProgress
    return {} if last is None else json.loads(last.json)


def _time(given: datetime | str | None) -> datetime:
    if given is None:
        return _EPOCH
    made = datetime.fromisoformat(given) if isinstance(given, str) else given
    if made.tzinfo is None:
        raise PlanError(f"{given!r} has no time zone: write 2026-11-16T08:00:00Z, or give a datetime with one")
    return made
