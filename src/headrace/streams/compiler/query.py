"""One query of a plan as Spark runs it: a streaming part, and a tail that is run on each micro-batch.

The streaming part goes up to the stateful operator in which the query ends. What stands behind that, up to the sinks,
is computed on each micro-batch in `foreachBatch`, all sinks in one write; so one read serves many sinks. A stateless
query has no such operator: its streaming part is the records of its sources, as they came.

An operator in which rows may fail is compiled to rows that say whether they have. The next operator gets those which
have not, the sink of its dead letters the others.
"""

from dataclasses import dataclass, field
from functools import reduce
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StructType

from headrace.streams.compiler.checks import checked
from headrace.streams.compiler.columns import column
from headrace.streams.compiler.dead_letters import dead_records, good_rows, with_original
from headrace.streams.compiler.decoding import decoded
from headrace.streams.compiler.encoding import records
from headrace.streams.compiler.folds import folded
from headrace.streams.compiler.functions import attempted
from headrace.streams.compiler.joins import joined_streams
from headrace.streams.compiler.keyed_joins import joined_by_foreign_key, joined_tables, joined_with_table
from headrace.streams.compiler.late import beside, late_of, parted, results_of, tell_watermark
from headrace.streams.compiler.lookups import latest_rows, looked_up
from headrace.streams.compiler.processes import processed
from headrace.streams.compiler.rows import DELETED, ERROR, STAMP, TIME, VALUE, user_columns
from headrace.streams.compiler.stateful import aggregated, deduplicated
from headrace.streams.compiler.stateless import compile_stateless
from headrace.streams.compiler.stopping import stopped_by
from headrace.streams.compiler.topics import Topics
from headrace.streams.expressions import Expression
from headrace.streams.failing import judges_rows, may_fail
from headrace.streams.lateness import judged_inputs
from headrace.streams.plan import (
    Aggregate,
    Check,
    DeadLetters,
    Deduplicate,
    End,
    ForeignKeyJoin,
    GlobalLookup,
    Grouping,
    LateLetters,
    Node,
    Plan,
    Process,
    Sink,
    Source,
    StreamJoin,
    TableJoin,
    TableLookup,
)
from headrace.streams.queries import Query, has_own_windows, traits
from headrace.streams.schema import names
from headrace.streams.shapes import Kind
from headrace.streams.walks import consumers

_SOURCE: Final = "_source"
Schemas = dict[str, StructType]  # of topics between two queries, by their names


@dataclass
class _Rows:
    """What is compiled so far, by the operators' names. `tried` are rows that may have failed; `late` are those which
    came too late for an operator; `kept` are in memory."""

    made: dict[str, DataFrame] = field(default_factory=dict)
    tried: dict[str, DataFrame] = field(default_factory=dict)
    late: list[DataFrame] = field(default_factory=list)
    kept: list[DataFrame] = field(default_factory=list)


class CompiledQuery:
    """`stream` is what Spark runs; `write` is for its foreachBatch."""

    def __init__(
        self, query: Query, spark: SparkSession, topics: Topics, schemas: Schemas, *, app: str, has_dead_letters: bool
    ) -> None:
        self.query = query
        self._spark = spark
        self._topics = topics
        self._schemas = schemas
        self._app = app
        self._has_dead_letters = has_dead_letters
        self._readers = _readers(query)
        self._wants_late = any(isinstance(sink, LateLetters) for sink in query.sinks)
        judged = judged_inputs(query.nodes()) if self._wants_late else ()
        self._judged = tuple(each for each in judged if not has_own_windows(each.node))  # those judge for themselves
        self._has_late = False
        self._end = next((node for node in reversed(query.stateful)), None)
        if self._end is None:
            self.stream = self._raw_sources()
            self._remember_schemas()
        else:
            rows = _Rows()
            self.stream = self._tried(self._end, rows) if judges_rows(self._end) else self._compiled(self._end, rows)
            self._remember_schemas(self.stream)
            if rows.late:
                self.stream = beside(self.stream, rows.late)
            self._has_late = bool(rows.late) or self._gives_late(self._end, self.stream)

    def write(self, batch: DataFrame, batch_id: int) -> None:
        sinks = [sink for sink in self.query.sinks if self._has_late or not isinstance(sink, LateLetters)]
        rows = _Rows()
        if self._has_late and self._judged:
            tell_watermark(batch, batch_id)
        # More than one reader of a micro-batch would compute it, and what it does to the state, more than once.
        if len(sinks) > 1:
            rows.kept.append(batch.persist())
        try:
            self._give(batch, rows)
            outputs = [self._output(sink, rows) for sink in sinks]
            self._topics.write(reduce(DataFrame.unionByName, outputs), batch_id, self.query.name)
        finally:
            for kept in rows.kept:
                kept.unpersist()

    def _give(self, batch: DataFrame, rows: _Rows) -> None:
        """What the tail starts from: the result of the stateful operator, or the rows of each source."""
        if self._has_late:
            rows.late.append(late_of(batch))
            batch = results_of(batch)
        if self._end is not None:
            self._give_end(batch, rows)
            return
        sources = self._stream_sources()
        for source in sources:
            own = batch if len(sources) == 1 else batch.where(F.col(_SOURCE) == source.name)
            rows.tried[source.name] = self._decoded(own, source)

    def _give_end(self, results: DataFrame, rows: _Rows) -> None:
        assert self._end is not None, self.query
        (rows.tried if judges_rows(self._end) else rows.made)[self._end.name] = results

    def _output(self, sink: Sink, rows: _Rows) -> DataFrame:
        if isinstance(sink, LateLetters):
            return dead_records(rows.late[0], sink, self._app)
        if isinstance(sink, DeadLetters):
            return dead_records(self._tried(sink.input, rows), sink, self._app)
        if isinstance(sink, End):
            # None of them; but Spark must not know that before, or it would not compute them.
            return records(self._compiled(sink.input, rows), sink).where(F.monotonically_increasing_id() < 0)
        if judges_rows(sink):
            return records(self._good(self._tried(sink, rows)), sink)
        return records(self._compiled(sink.input, rows), sink)

    def rows(self, node: Node) -> DataFrame:
        """The rows of one of its operators, for those who go on in plain Spark."""
        return self._compiled(node, _Rows())

    def _compiled(self, node: Node, rows: _Rows) -> DataFrame:
        if node.name not in rows.made:
            rows.made[node.name] = self._made(node, rows)
        return rows.made[node.name]

    def _made(self, node: Node, rows: _Rows) -> DataFrame:
        if isinstance(node, Source):
            return self._good_records(self._tried(node, rows), node)
        if judges_rows(node):
            good = self._good(self._tried(node, rows))
            if node.stateful:  # rows are no records any more, only those are that have failed
                return good.select(*user_columns(node.shape), TIME, DELETED)
            return self._operator(node, [good])
        inputs = [self._compiled(below, rows) for below in node.inputs]
        for judged in self._judged:
            if judged.node.name == node.name and inputs[judged.side].isStreaming:
                inputs[judged.side], late = parted(inputs[judged.side], judged)
                rows.late.append(late)
        return self._operator(node, inputs)

    def _tried(self, node: Node, rows: _Rows) -> DataFrame:
        """The rows of a source, or what functions make of rows, with those that have failed."""
        if node.name not in rows.tried:
            rows.tried[node.name] = self._source(node) if isinstance(node, Source) else self._attempted(node, rows)
        return rows.tried[node.name]

    def _attempted(self, node: Node, rows: _Rows) -> DataFrame:
        if isinstance(node, Grouping):
            return self._folded(node, [self._compiled(below, rows) for below in node.inputs])
        before = self._compiled(node.input, rows)
        if self._has_dead_letters:
            before = with_original(before, node.input.shape)
        stops = not self._has_dead_letters
        if isinstance(node, Process):
            return processed(before, node, mode=self.query.mode, stops=stops)
        if isinstance(node, Check) and isinstance(node.condition, Expression):
            return checked(before, node, stops=stops)
        tried = attempted(before, node, stops=stops)
        # A function is called once for a row of a micro-batch, however many there are who read what it makes. In the
        # streaming part nothing can be kept.
        if self._readers[node.name] > 1 and not before.isStreaming:
            rows.kept.append(tried.persist())
        return tried

    def _folded(self, node: Grouping, inputs: list[DataFrame]) -> DataFrame:
        letters = self._has_dead_letters and judges_rows(node)
        late_letters = any(self._gives_late(node, df) for df in inputs)
        if letters or late_letters:
            inputs = [with_original(df, below.shape) for df, below in zip(inputs, node.inputs, strict=True)]
        return folded(inputs, node, self.query.mode, letters=letters, late_letters=late_letters)

    def _gives_late(self, node: Node, rows: DataFrame) -> bool:
        """Whether it gives late rows beside its results."""
        return self._wants_late and has_own_windows(node) and rows.isStreaming

    def _good(self, tried: DataFrame) -> DataFrame:
        return good_rows(tried) if self._has_dead_letters else tried

    def _operator(self, node: Node, inputs: list[DataFrame]) -> DataFrame:
        match node:
            case Aggregate() if traits(node).native:
                return aggregated(inputs[0], node, followed=node is not self._end)
            case Grouping():
                return self._folded(node, inputs)
            case Deduplicate():
                return deduplicated(inputs[0], node)
            case StreamJoin():
                return joined_streams(inputs[0], inputs[1], node, followed=node is not self._end)
            case GlobalLookup():
                return looked_up(inputs[0], inputs[1], node)
            case TableLookup():
                return joined_with_table(inputs[0], inputs[1], node, self.query.mode)
            case TableJoin():
                return joined_tables(inputs[0], inputs[1], node, self.query.mode)
            case ForeignKeyJoin():
                return joined_by_foreign_key(inputs[0], inputs[1], node, self.query.mode)
        done = compile_stateless(node, inputs)
        assert done is not None, f"{node.name} has no compiler"
        return done

    def _source(self, node: Source) -> DataFrame:
        if node.shape.kind is Kind.GLOBAL_TABLE:
            return latest_rows(self._decoded(self._topics.read_table(self._spark, node), node))
        return self._decoded(self._topics.read_stream(self._spark, node, self.query.name), node)

    def _decoded(self, raw: DataFrame, source: Source) -> DataFrame:
        return decoded(raw, source, self._schemas[source.topics[0]] if source.internal else None)

    def _good_records(self, rows: DataFrame, source: Source) -> DataFrame:
        """Without the poison pills, which go to the dead letters; without dead letters, the first of them stops it."""
        if source.shape.kind is Kind.GLOBAL_TABLE:
            return rows
        if source.internal:  # what has gone through an operator with state is no record of anybody's any more
            rows = rows.drop(VALUE, STAMP)
        if self._has_dead_letters and may_fail(source):
            return good_rows(rows)
        return stopped_by(rows, F.col(ERROR), verdict="cannot be decoded").drop(ERROR)

    def _raw_sources(self) -> DataFrame:
        sources = self._stream_sources()
        raws = [self._topics.read_stream(self._spark, source, self.query.name) for source in sources]
        if len(raws) == 1:
            return raws[0]
        tagged = [raw.withColumn(_SOURCE, F.lit(source.name)) for raw, source in zip(raws, sources, strict=True)]
        return reduce(DataFrame.unionByName, tagged)

    def _stream_sources(self) -> list[Source]:
        return [source for source in self.query.sources if source.shape.kind is not Kind.GLOBAL_TABLE]

    def _remember_schemas(self, results: DataFrame | None = None) -> None:
        """For the queries that read what this one writes to topics of the app's own; of its state, if it has any."""
        rows = _Rows()
        if results is not None:
            self._give_end(results, rows)
        for sink in self.query.sinks:
            if sink.internal:
                assert isinstance(sink.topic, str), sink
                written = self._compiled(sink.input, rows)
                self._schemas[sink.topic] = written.select(*map(column, names(sink.shape.columns))).schema
        for kept in rows.kept:
            kept.unpersist()


def _readers(query: Query) -> dict[str, int]:
    """How many times the rows of each operator would be computed, if none were kept: on how many ways to sinks."""
    plan = Plan("", query.sinks)
    readers = consumers(plan)
    ways: dict[str, int] = {}
    for node in reversed(plan.nodes()):
        ways[node.name] = sum(ways[reader.name] for reader in readers[node.name]) + isinstance(node, Sink)
    return ways
