"""An app: a name, where its topics are, and the streams and tables that it is made of."""

import os
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Literal

from headrace.streams.columns import Column
from headrace.streams.durations import Duration, duration_ms
from headrace.streams.errors import PlanError
from headrace.streams.expressions import ColumnRef, Expression
from headrace.streams.handle import Handle, N
from headrace.streams.loose_ends import ends, loose_ends
from headrace.streams.naming import Names, checked_name, checked_topic
from headrace.streams.plan import PROCESSING_TIME, RECORD_TIME, Late, Node, Plan, Sink, Source
from headrace.streams.ranges import Bound, target_of
from headrace.streams.schema import Field, Schema, type_of
from headrace.streams.serdes import JsonSerde, Serde, StringSerde, reading, writing
from headrace.streams.shapes import Kind, check_expression, check_names, source_shape
from headrace.streams.state_directory import state_path
from headrace.streams.stream import Stream
from headrace.streams.table import GlobalTable, Table

if TYPE_CHECKING:
    from headrace.streams.compiler.app_test import AppTest
    from headrace.streams.compiler.running import Deployment, Running, Session
    from headrace.streams.feeding import Record
    from headrace.streams.table_view import TableView

# Rows of several partitions never come in the order of their time; a default of nothing would lose them silently.
DEFAULT_GRACE: Final = "10s"
# Below this an idle query costs more than it is faster (measured: 13 % of a core without any, 1.4 % with this).
DEFAULT_TRIGGER: Final = "200ms"
GUARANTEES: Final = ("exactly_once", "at_least_once")

record_time: Final = RECORD_TIME
processing_time: Final = PROCESSING_TIME


class App:
    """A pipeline. Its name is the prefix of its groups, its transactions and its own topics, and names its state.

    guarantee        "exactly_once" from topic to topic, or "at_least_once"
    dead_letters     the topic for records that cannot be decoded or for which a function raises; without one, the first
                     of them stops the pipeline
    late             "drop", or "dead_letters" for records that come too late for an operator with state
    lost             "stop" or "skip" if records are gone before they were read, by retention or with their topic
    state            the directory of its progress and state; by default one of its name in the user's state directory.
                     On a cluster, one that the driver and all workers see under the same path
    grace            how late a row may be, unless its source says otherwise
    trigger          the least time from one micro-batch to the next
    max_per_trigger  how many records of each stream a micro-batch takes at most; if not said, all that wait. Of tables
                     it takes all, so that rows find what was there before them
    master           where Spark runs: this machine with all its cores, or a cluster such as "spark://host:7077"
    partitions       over how many partitions state is spread; decided by the first run if not said
    """

    def __init__(
        self,
        name: str,
        bootstrap: str,
        *,
        guarantee: Literal["exactly_once", "at_least_once"] = "exactly_once",
        dead_letters: str | None = None,
        late: Late = "drop",
        lost: Literal["stop", "skip"] = "stop",
        state: str | os.PathLike[str] | None = None,
        grace: Duration = DEFAULT_GRACE,
        trigger: Duration = DEFAULT_TRIGGER,
        max_per_trigger: int | None = None,
        master: str = "local[*]",
        partitions: int | None = None,
    ) -> None:
        if guarantee not in GUARANTEES:
            raise PlanError(f"guarantee is {guarantee!r}: it must be one of {', '.join(GUARANTEES)}")
        if late not in ("drop", "dead_letters"):
            raise PlanError(f'late is {late!r}: it must be "drop" or "dead_letters"')
        if lost not in ("stop", "skip"):
            raise PlanError(f'lost is {lost!r}: it must be "stop" or "skip"')
        if late == "dead_letters" and dead_letters is None:
            raise PlanError('late="dead_letters" needs dead_letters=, the topic for them')
        for option, number in (("partitions", partitions), ("max_per_trigger", max_per_trigger)):
            if number is not None and number < 1:
                raise PlanError(f"{option} is {number}: it must be above 0")
        self.name: Final = checked_name(name, what="the name of the app")
        self.bootstrap: Final = bootstrap
        self.guarantee: Final = guarantee
        self.dead_letters: Final = (
            None if dead_letters is None else checked_topic(dead_letters, what="the topic of dead letters")
        )
        self.late: Final = late
        self.lost: Final = lost
        self.state: Final = state_path(state) if state is not None else default_state(self.name)
        self.grace_ms: Final = duration_ms(grace, what="grace")
        self.trigger_ms: Final = duration_ms(trigger, what="trigger")
        self.max_per_trigger: Final = max_per_trigger
        self.master: Final = master
        self.partitions: Final = partitions
        self.names: Final = Names()
        self._written: dict[str, Node] = {}
        self._left: tuple[Node, ...] = ()
        self._sinks: tuple[Sink, ...] = ()

    def stream(
        self,
        topics: str | Sequence[str] | re.Pattern[str],
        *,
        value: Serde,
        key: Serde | str | None = None,
        time: str | Column = record_time,
        grace: Duration | None = None,
        start: Literal["earliest", "latest"] = "earliest",
        name: str | None = None,
    ) -> Stream:
        """The records of a topic, of several, or of all whose names match a compiled pattern.

        `key` is a serde, or the name of a column for keys that are text. `time` is a column or expression, or
        `record_time`, the record's own, which the topic's settings make that of creation or of arrival; or
        `processing_time`. `start` is where the very first run begins.
        """
        return Stream(self, self._source(Kind.STREAM, topics, key, value, time, grace, start, name))

    def table(
        self, topic: str, *, key: Serde | str, value: Serde, grace: Duration | None = None, name: str | None = None
    ) -> Table:
        """The latest value of each key of a topic, which should be compacted; a tombstone deletes its key."""
        return Table(self, self._source(Kind.TABLE, topic, key, value, record_time, grace, "earliest", name))

    def global_table(self, topic: str, *, key: Serde | str, value: Serde, name: str | None = None) -> GlobalTable:
        """A table small enough for every task to have it whole."""
        return GlobalTable(
            self, self._source(Kind.GLOBAL_TABLE, topic, key, value, record_time, None, "earliest", name)
        )

    def from_df(
        self,
        df: Any,
        *,
        key: str | None = None,
        time: str | Column = processing_time,
        grace: Duration | None = None,
        name: str | None = None,
    ) -> Stream:
        """The rows of a streaming DataFrame, from whatever source of Spark's, as a stream; `time` is a column of it.

        Run the app on the session of the DataFrame: `app.start(df.sparkSession)`. In `app.test()` the rows are fed, to
        the topic "df:<name>". Exactly once holds if the DataFrame's source can be read again.
        """
        if not df.isStreaming:
            raise PlanError("from_df takes a streaming DataFrame, of spark.readStream; this one is a batch")
        columns = tuple(Field(field.name, field.dataType.simpleString()) for field in df.schema.fields)
        source = self._source(Kind.STREAM, "df", key, JsonSerde(columns), time, grace, "earliest", name)
        # A name that no topic can have: nobody looks for it in the cluster, and a test can feed it.
        return Stream(self, replace(source, topics=(f"df:{source.name}",), frame=df))

    @property
    def plan(self) -> Plan:
        """What has been written so far: everything that ends in a topic, or is run for what its functions do."""
        sinks = (*self._sinks, *ends(self._written, self._sinks))
        loose = loose_ends(self._written, (*sinks, *self._left))
        return Plan(self.name, sinks, self.partitions, self.dead_letters, self.late, loose)

    def explain(self, style: Literal["text", "mermaid"] = "text") -> str:
        """The plan and the queries that it is run as, as text or as a Mermaid picture; Spark is not started."""
        from headrace.streams.explain import explain_mermaid, explain_text

        if style not in ("text", "mermaid"):
            raise PlanError(f'explain takes "text" or "mermaid", and was given {style!r}')
        return explain_text(self.plan) if style == "text" else explain_mermaid(self.plan)

    def start(self, spark: "Session | None" = None) -> "Running":
        """Run it on Spark, in the background: `with app.start() as running: ...`; `running.stop()` ends it.

        `spark` is a session that is there already; else one is made for `master`. Raises CannotRunError if the plan has
        operators that cannot be run yet, PlanError if its state is that of another plan.
        """
        from headrace.streams.compiler import running

        return running.start(self.deployment(), spark)

    def run(self, spark: "Session | None" = None) -> None:
        """Run it on Spark until it is stopped or fails."""
        with self.start(spark) as running:
            running.wait()

    def catch_up(self, spark: "Session | None" = None) -> None:
        """Run it over what its topics hold now, and come back. It goes on from there the next time, in either way."""
        from headrace.streams.compiler import running

        running.catch_up(self.deployment(), spark)

    def query(self, table: str | Table) -> "TableView":
        """A table of the app, also by its operator's name or its topic: `with app.query(sales) as it: it.get("DE")`.

        It may be asked while the app runs, here or elsewhere, and when it does not. Raises PlanError.
        """
        from headrace.streams.table_view import table_view

        return table_view(self.plan, table if isinstance(table, str) else table.name, self.bootstrap)

    def replay(
        self, start: Bound = None, end: Bound = None, spark: "Session | None" = None
    ) -> "dict[str, list[Record]]":
        """What it would write for a part of its topics, by topic: run as a batch, which changes nothing.

        `start` and `end`, which is not included, are a datetime, an offset of all partitions, or offsets by topic and
        partition; else the beginning and the end. Of each row of a table only the last change is seen, and every window
        is closed by the end. Raises PySparkException, KafkaError.
        """
        from headrace.streams.compiler.replaying import replayed

        return replayed(self.plan, self.bootstrap, target_of(start), target_of(end), master=self.master, spark=spark)

    def test(self, spark: "Session | None" = None) -> "AppTest":
        """The app on topics of a test, without a cluster: `with app.test() as test: test.feed(...); test.run()`."""
        from headrace.streams.compiler.app_test import AppTest

        return AppTest(self.plan, spark, self.master)

    def deployment(self) -> "Deployment":
        """How it is to be run, as data."""
        from headrace.streams.compiler.running import Deployment

        return Deployment(
            plan=self.plan,
            bootstrap=self.bootstrap,
            exactly_once=self.guarantee == "exactly_once",
            state=self.state,
            trigger_ms=self.trigger_ms,
            max_per_trigger=self.max_per_trigger,
            skips_lost=self.lost == "skip",
            master=self.master,
        )

    def note(self, node: N) -> N:
        """Remember an operator, so that it can be told whether it leads to a topic."""
        self._written[node.name] = node
        return node

    def leave_by(self, node: Node) -> None:
        """The operator's rows leave the app as a DataFrame."""
        self._left += (node,)

    def add_sink(
        self, handle: Handle, topic: str | Column, *, key: Serde | str | None, value: Serde | None, name: str | None
    ) -> None:
        """What `to` of a stream or table does."""
        shape, where = handle.node.shape, "to"
        target: str | Expression
        if isinstance(topic, Column):
            check_expression(topic.expression, shape, where=where)
            target = topic.expression
        else:
            target = checked_topic(topic, what="the topic of to()")
        if isinstance(key, str):
            key = StringSerde(key)
        for serde, part in ((key, "key"), (value, "value")):
            if serde is not None:
                check_names(writing(serde, where=f"{part} of to()") or (), shape, where=f"{part} of to()")
        sink = Sink(
            name=self.names.take(Sink.kind, name),
            inputs=(handle.node,),
            shape=shape,
            topic=target,
            key=key,
            value=value,
        )
        self._sinks += (sink,)

    def _source(
        self,
        kind: Kind,
        topics: str | Sequence[str] | re.Pattern[str],
        key: Serde | str | None,
        value: Serde,
        time: str | Column,
        grace: Duration | None,
        start: Literal["earliest", "latest"],
        name: str | None,
    ) -> Source:
        where = {Kind.STREAM: "stream", Kind.TABLE: "table", Kind.GLOBAL_TABLE: "global_table"}[kind]
        if start not in ("earliest", "latest"):
            raise PlanError(f'{where}: start is {start!r}: it must be "earliest" or "latest"')
        values = reading(value, where=f"value of {where}()")
        key_serde = _text_key(key, values) if isinstance(key, str) else key
        keys = () if key_serde is None else reading(key_serde, where=f"key of {where}()")
        grace_ms = self.grace_ms if grace is None else duration_ms(grace, what="grace")
        shape = source_shape(kind, keys, values, grace_ms=grace_ms, where=where)
        pattern = topics.pattern if isinstance(topics, re.Pattern) else None
        expression: Expression | str = time.expression if isinstance(time, Column) else time
        if isinstance(expression, str) and expression not in (RECORD_TIME, PROCESSING_TIME):
            expression = ColumnRef(expression)
        if isinstance(expression, Expression):
            check_expression(expression, shape, where=f"time of {where}()")
        return Source(
            name=self.names.take(Source.kind, name),
            shape=shape,
            topics=() if isinstance(topics, re.Pattern) else _topics(topics, where=where),
            pattern=pattern,
            key=key_serde,
            value=value,
            time=expression,
            start=start,
        )


def default_state(name: str) -> str:
    """Where the state of an app is unless it says so."""
    return os.path.join(state_home(), name)


def state_home() -> str:
    """The directory of the states of all apps: the user's state directory, as the XDG rules have it."""
    home = os.environ.get("XDG_STATE_HOME") or os.path.join(os.path.expanduser("~"), ".local", "state")
    return os.path.join(home, "headrace", "streams")


def _text_key(column: str, values: Schema) -> StringSerde:
    """`key="id"`: text, of the type that the value says this column has."""
    return StringSerde(column, type_of(values, column) or "string")


def _topics(given: str | Sequence[str], *, where: str) -> tuple[str, ...]:
    listed = (given,) if isinstance(given, str) else tuple(given)
    if not listed:
        raise PlanError(f"{where} needs a topic")
    if len(set(listed)) < len(listed):
        raise PlanError(f"{where}: a topic is named twice: {', '.join(listed)}")
    return tuple(checked_topic(topic, what=f"the topic of {where}()") for topic in listed)
