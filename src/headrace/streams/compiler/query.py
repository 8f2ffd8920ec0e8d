"""One query of a plan as Spark runs it: a streaming part, and a tail that is run on each micro-batch.

The streaming part goes up to the stateful operator in which the query ends. What stands behind that, up to the sinks,
is computed on each micro-batch in `foreachBatch`, all sinks in one write; so one read serves many sinks. A stateless
query has no such operator: its streaming part is the records of its sources, as they came.
"""

from collections.abc import Mapping
from functools import reduce
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StructType

from headrace.streams.compiler.columns import column
from headrace.streams.compiler.decoding import decoded
from headrace.streams.compiler.encoding import dead_records, records
from headrace.streams.compiler.joins import joined_streams
from headrace.streams.compiler.lookups import latest_rows, looked_up
from headrace.streams.compiler.rows import ERROR
from headrace.streams.compiler.stateful import aggregated, deduplicated
from headrace.streams.compiler.stateless import compile_stateless
from headrace.streams.compiler.topics import Topics
from headrace.streams.plan import Aggregate, DeadLetters, Deduplicate, GlobalLookup, Node, Sink, Source, StreamJoin
from headrace.streams.queries import Query
from headrace.streams.schema import names
from headrace.streams.shapes import Kind

_SOURCE: Final = "_source"
Schemas = dict[str, StructType]  # of topics between two queries, by their names


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
        self._end = next((node for node in reversed(query.stateful)), None)
        if self._end is None:
            self.stream = self._raw_sources()
        else:
            self.stream = self._compiled(self._end, {})
            self._remember_schema(self._end, self.stream)

    def write(self, batch: DataFrame, batch_id: int) -> None:
        sinks = self.query.sinks
        # More than one reader of a micro-batch would compute it, and what it does to the state, more than once.
        if len(sinks) > 1:
            batch.persist()
        try:
            made = self._given(batch)
            outputs = [self._output(sink, made) for sink in sinks]
            self._topics.write(reduce(DataFrame.unionByName, outputs), batch_id, self.query.name)
        finally:
            batch.unpersist()

    def _given(self, batch: DataFrame) -> dict[str, DataFrame]:
        """What the tail starts from: the result of the stateful operator, or the rows of each source."""
        if self._end is not None:
            return {self._end.name: batch}
        sources = self._stream_sources()
        if len(sources) == 1:
            return {sources[0].name: self._decoded(batch, sources[0])}
        return {source.name: self._decoded(batch.where(F.col(_SOURCE) == source.name), source) for source in sources}

    def _output(self, sink: Sink, made: Mapping[str, DataFrame]) -> DataFrame:
        if isinstance(sink, DeadLetters):
            return dead_records(made[sink.input.name], sink, self._app)
        return records(self._compiled(sink.input, dict(made)), sink)

    def rows(self, node: Node) -> DataFrame:
        """The rows of one of its operators, for those who go on in plain Spark."""
        return self._compiled(node, {})

    def _compiled(self, node: Node, made: dict[str, DataFrame]) -> DataFrame:
        """`made` are the nodes that are there already, by name."""
        if isinstance(node, Source):
            rows = made[node.name] if node.name in made else self._source(node)
            return self._good(rows, node)
        if node.name not in made:
            made[node.name] = self._operator(node, [self._compiled(below, made) for below in node.inputs])
        return made[node.name]

    def _operator(self, node: Node, inputs: list[DataFrame]) -> DataFrame:
        match node:
            case Aggregate():
                return aggregated(inputs[0], node, followed=node is not self._end)
            case Deduplicate():
                return deduplicated(inputs[0], node)
            case StreamJoin():
                return joined_streams(inputs[0], inputs[1], node, followed=node is not self._end)
            case GlobalLookup():
                return looked_up(inputs[0], inputs[1], node)
        done = compile_stateless(node, inputs)
        assert done is not None, f"{node.name} has no compiler"
        return done

    def _source(self, node: Source) -> DataFrame:
        if node.shape.kind is Kind.GLOBAL_TABLE:
            return latest_rows(self._decoded(self._topics.read_table(self._spark, node), node))
        return self._decoded(self._topics.read_stream(self._spark, node, self.query.name), node)

    def _decoded(self, raw: DataFrame, source: Source) -> DataFrame:
        return decoded(raw, source, self._schemas[source.topics[0]] if source.internal else None)

    def _good(self, rows: DataFrame, source: Source) -> DataFrame:
        """Without the poison pills, which go to the dead letters; without dead letters, the first of them stops it."""
        if source.shape.kind is Kind.GLOBAL_TABLE:
            return rows
        error = F.col(ERROR)
        if self._has_dead_letters and not source.internal:
            return rows.where(error.isNull()).drop(ERROR)
        place = [F.lit("the record at offset "), F.col("_offset"), F.lit(" of "), F.col("_topic"), F.lit("-")]
        advice = F.lit(". Give the app dead_letters=, a topic for such records, to go on without them")
        sentence = F.concat(*place, F.col("_partition"), F.lit(" cannot be decoded: "), error, advice)
        stops = F.when(error.isNotNull(), F.raise_error(sentence).cast("boolean")).otherwise(F.lit(True))
        return rows.where(stops).drop(ERROR)

    def _raw_sources(self) -> DataFrame:
        sources = self._stream_sources()
        raws = [self._topics.read_stream(self._spark, source, self.query.name) for source in sources]
        if len(raws) == 1:
            return raws[0]
        tagged = [raw.withColumn(_SOURCE, F.lit(source.name)) for raw, source in zip(raws, sources, strict=True)]
        return reduce(DataFrame.unionByName, tagged)

    def _stream_sources(self) -> list[Source]:
        return [source for source in self.query.sources if source.shape.kind is not Kind.GLOBAL_TABLE]

    def _remember_schema(self, end: Node, rows: DataFrame) -> None:
        """For the queries that read what this one writes to a topic of the app's own."""
        for sink in self.query.sinks:
            if sink.internal:
                assert isinstance(sink.topic, str), sink
                self._schemas[sink.topic] = rows.select(*map(column, names(end.shape.columns))).schema
