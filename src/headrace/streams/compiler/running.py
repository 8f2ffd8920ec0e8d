"""Starting an app on Spark, and what can be done with one that runs."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from os.path import exists, join
from types import TracebackType
from typing import Any, Final, Self, TypeAlias, cast

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from headrace.client.admin import Admin
from headrace.client.admin_topics import BROKER_DEFAULT
from headrace.client.errors import TopicExistsError
from headrace.spark.datasource import register
from headrace.spark.spark_session import session
from headrace.streams.compiler.query import CompiledQuery, Schemas
from headrace.streams.compiler.reporting import Reporter
from headrace.streams.compiler.topics import ClusterTopics, Topics
from headrace.streams.plan import Plan
from headrace.streams.progress import AppProgress
from headrace.streams.queries import Query, cut
from headrace.streams.resetting import forget_internal_topics, refuse_unfinished
from headrace.streams.rewrites import rewrite
from headrace.streams.runnable import check_runnable
from headrace.streams.saved_plan import agree_on_plan
from headrace.streams.shapes import Kind
from headrace.streams.starting import complete_starts, read_starts
from headrace.streams.state_directory import RunLock
from headrace.streams.table_topics import is_changelog
from headrace.streams.table_view import TableView, table_view

Session: TypeAlias = SparkSession  # for `App`, which must not know PySpark

_PARTITIONS: Final = "spark.sql.shuffle.partitions"
_EMPTY_BATCHES: Final = "spark.sql.streaming.noDataMicroBatches.enabled"
_POLL_SECONDS: Final = 0.2
# So long a query is waited for before the next one is started. By then its Python processes run, if they ever will,
# though its first micro-batch may have hours of work.
_FIRST_BATCH_SECONDS: Final = 60.0
_IDLE: Final = "Waiting"  # begins what Spark says of a query that has nothing to do: for data, for the next trigger
_SETTINGS: Final = {
    # What cannot be computed is NULL. Otherwise one row with an amount of 'x' or a division by 0 would stop the app.
    "spark.sql.ansi.enabled": "false",
    # Of a session that somebody else has made. Otherwise keys and times without a zone would mean what they mean where
    # the driver stands, and what keeps state of our own would be refused.
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
}


@dataclass(frozen=True)
class Deployment:
    """What an app says about how it is run."""

    plan: Plan
    bootstrap: str
    exactly_once: bool
    state: str
    trigger_ms: int
    max_per_trigger: int | None
    skips_lost: bool
    master: str


class Running:
    """An app that runs. Leaving its `with` block stops it."""

    def __init__(self, deployment: Deployment) -> None:
        """Takes the app's lock. Raises AlreadyRunningError, PlanError."""
        self.queries: Final[dict[str, StreamingQuery]] = {}
        self._deployment = deployment
        self._lock = RunLock(deployment.state, app=deployment.plan.app)
        try:
            refuse_unfinished(deployment.state)  # under the lock: until then a reset may be at work, and be interrupted
        except BaseException:
            self._lock.release()
            raise
        self._reporter = Reporter(deployment.plan.app, deployment.bootstrap, deployment.master, deployment.state)
        self._views: dict[str, TableView] = {}

    def stop(self) -> None:
        """Stop all queries; what they have not committed, the next run does again."""
        try:
            for query in self.queries.values():
                query.stop()
        finally:
            self._reporter.stop()
            for view in self._views.values():
                view.close()
            self._lock.release()

    def wait(self, timeout: float | None = None) -> bool:
        """Until all queries have ended, or for so many seconds; whether they have. One that fails stops the others.

        Raises StreamingQueryException.
        """
        end = None if timeout is None else time.monotonic() + timeout
        while active := [query for query in self.queries.values() if query.isActive]:
            if end is not None and time.monotonic() >= end:
                return False
            with suppress(StreamingQueryException):  # which is raised below, when the others are stopped
                active[0].awaitTermination(_POLL_SECONDS)
            self._raise_failure()
        self._raise_failure()
        return True

    def progress(self) -> AppProgress:
        """Rates, lag, watermark and size of the state of each query."""
        return self._reporter.now()

    def table(self, name: str) -> TableView:
        """A table of the app, by its operator's name or its topic, to be asked for keys, ranges and windows.

        It is closed when the app is stopped.
        """
        if name not in self._views:
            self._views[name] = table_view(self._deployment.plan, name, self._deployment.bootstrap)
        return self._views[name]

    def _begin(self, compiled: CompiledQuery, trigger: Mapping[str, Any]) -> StreamingQuery:
        name = compiled.query.name
        self.queries[name] = started(compiled, self._deployment.state, trigger)
        self._reporter.add(name, self.queries[name])
        return self.queries[name]

    def _raise_failure(self) -> None:
        failed: StreamingQueryException | None = next(
            (query.exception() for query in self.queries.values() if query.exception() is not None), None
        )
        if failed is not None:
            self.stop()
            raise failed

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()


OnProgress = Callable[[AppProgress], object]


def start(deployment: Deployment, spark: SparkSession | None = None, on_progress: OnProgress | None = None) -> Running:
    """Start all queries, which then run until they are stopped.

    One after the other: with its first micro-batch a query starts Python processes, which Spark gives ten seconds to
    answer, however many there are at a time. What is done so far is told to `on_progress`, which may raise to end it.
    """
    every = {"processingTime": f"{deployment.trigger_ms} milliseconds"}
    check_runnable(deployment.plan)
    running = Running(deployment)
    try:
        running._reporter.start()
        last: StreamingQuery | None = None
        for compiled in _prepared(deployment, spark):
            end = time.monotonic() + _FIRST_BATCH_SECONDS
            while last is not None and _is_starting(last) and time.monotonic() < end:
                time.sleep(_POLL_SECONDS)
                if on_progress is not None:
                    on_progress(running.progress())
            last = running._begin(compiled, every)
    except BaseException:
        running.stop()
        raise
    return running


def _is_starting(query: StreamingQuery) -> bool:
    """Whether its first micro-batch is still to come or at work. If it has failed, `Running.wait` will say so."""
    return query.isActive and query.lastProgress is None and not query.status["message"].startswith(_IDLE)


def catch_up(
    deployment: Deployment, spark: SparkSession | None = None, on_progress: OnProgress | None = None
) -> AppProgress:
    """Run each query over what is there now, one after the other, as they read one another's topics.

    What was done is told at the end, and to `on_progress` while it is done, which may raise to end it.
    """
    check_runnable(deployment.plan)
    with Running(deployment) as running:
        running._reporter.start()
        for compiled in _prepared(deployment, spark):
            running._begin(compiled, {"availableNow": True})
            while not running.wait(timeout=_POLL_SECONDS):
                if on_progress is not None:
                    on_progress(running.progress())
        return running.progress()


def _prepared(deployment: Deployment, spark: SparkSession | None) -> Iterator[CompiledQuery]:
    base = spark if spark is not None else session(deployment.plan.app, deployment.master)
    plan = agree_on_plan(deployment.plan, deployment.state, default_partitions=int(base.conf.get(_PARTITIONS) or 1))
    assert plan.partitions is not None, plan
    own = own_session(base, plan.partitions)
    queries = cut(rewrite(plan))
    with Admin(deployment.bootstrap) as admin:
        forget_internal_topics(admin, deployment.state)
        _make_topics(admin, queries, plan.partitions)
        starts = complete_starts(admin, _of_new(queries, deployment.state), read_starts(deployment.state))
    topics = ClusterTopics(
        deployment.bootstrap,
        plan.app,
        exactly_once=deployment.exactly_once,
        starts=starts,
        max_per_trigger=deployment.max_per_trigger,
        skips_lost=deployment.skips_lost,
    )
    yield from compiled_queries(plan, queries, own, topics)


def _of_new(queries: tuple[Query, ...], state: str) -> tuple[Query, ...]:
    """Those without a checkpoint, which would know better where to go on."""
    return tuple(query for query in queries if not exists(join(state, query.name, "offsets")))


def compiled_queries(
    plan: Plan, queries: tuple[Query, ...], spark: SparkSession, topics: Topics
) -> Iterator[CompiledQuery]:
    """One after the other, since each may need to know the columns that those before it write."""
    schemas: Schemas = {}
    for query in queries:
        has_dead_letters = plan.dead_letters is not None
        yield CompiledQuery(query, spark, topics, schemas, app=plan.app, has_dead_letters=has_dead_letters)


def own_session(spark: SparkSession, partitions: int) -> SparkSession:
    """Settings and queries of the app's own, in the Spark of the process."""
    register(spark)
    # A clone, since a new session would not know the format, and Spark refuses to learn its name a second time.
    own = SparkSession(spark.sparkContext, cast("Any", spark)._jsparkSession.cloneSession())
    for name, value in (_SETTINGS | {_PARTITIONS: str(partitions)}).items():
        own.conf.set(name, value)
    return own


def started(compiled: CompiledQuery, state: str, trigger: Mapping[str, Any]) -> StreamingQuery:
    # What goes by the clock always has a micro-batch more to run, and would never come to the end of what is there now.
    ends = "availableNow" in trigger and compiled.query.by_clock
    compiled.stream.sparkSession.conf.set(_EMPTY_BATCHES, str(not ends).lower())
    writer = compiled.stream.writeStream.outputMode(compiled.query.mode).foreachBatch(compiled.write)
    return writer.option("checkpointLocation", join(state, compiled.query.name)).trigger(**trigger).start()


def _make_topics(admin: Admin, queries: tuple[Query, ...], partitions: int) -> None:
    """Those of the app's own, and those of tables that are not there: the brokers would make them as for streams, and
    forget rows that have not changed for a week."""
    known = {topic.name for topic in admin.list_topics()}
    for sink in (sink for query in queries for sink in query.sinks if sink.topic not in known):
        # Of a table only the last row of each key counts, so its topic need not grow for ever.
        is_table = sink.shape.kind is Kind.TABLE if sink.internal else is_changelog(sink)
        if isinstance(sink.topic, str) and (sink.internal or is_table):
            configs = {"cleanup.policy": "compact"} if is_table else {}
            with suppress(TopicExistsError):
                admin.create_topic(sink.topic, partitions if sink.internal else BROKER_DEFAULT, configs=configs)
