"""Python functions of the user's over rows: batches of Arrow columns become dicts, and dicts become columns again.

Theory. A function is tried for each row. What it makes of the row, any number of dicts, becomes columns; beside them
stay columns of the row itself, which never leave Arrow. With dead letters a row for which the function raises, or gives
what does not fit the schema, comes out as one row with NULL in what was to be made, and in ERROR and FUNCTION why;
whoever compiles the query separates the two. Without, it stops the query, with the operator's name, the function's and
the place of the record; what was made of earlier rows of the micro-batch is not written.

A vectorized function is tried for all rows of a batch at once, and what it gives are columns already. Only if that
fails, it is tried for each row, as a batch of one.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import BinaryType, BooleanType, StringType, StructField, StructType

from headrace.streams.compiler.calling import (
    FailedError,
    RefusedError,
    Row,
    called,
    columns_made,
    condition_made,
    is_vectorized,
)
from headrace.streams.compiler.columns import to_column
from headrace.streams.compiler.rows import DELETED, ERROR, FUNCTION, HIDDEN
from headrace.streams.expressions import Expression
from headrace.streams.failing import misfit_text
from headrace.streams.functions import Function
from headrace.streams.plan import Branch, Check, Filter, FlatMap, Map, Node, Peek, Sink
from headrace.streams.schema import Schema, names, schema_text
from headrace.streams.serdes import OwnSerde
from headrace.streams.shapes import Kind
from headrace.streams.whole_numbers import array_of

KEPT = "_kept"
BRANCH = "_branch"
ENCODED = {"key": "_encoded_key", "value": "_encoded_value"}

_FAILURE = (StructField(ERROR, StringType()), StructField(FUNCTION, StringType()))


class _Trial(NamedTuple):
    """What is tried for each row. `reads` are the columns that `make` gets; `made` are those of the dicts it gives.

    With a vectorized function there is `make_all` instead, from a batch of `reads` to the columns of `made`.
    """

    operator: str
    reads: tuple[str, ...]
    kept: tuple[str, ...]
    made: StructType
    make: Callable[[Row], list[Row]] | None
    make_all: Callable[[Any], list[Any]] | None = None


class _Made(NamedTuple):
    """Of one row: dicts, or why there are none, and which function did not give them."""

    rows: list[Row]
    error: str | None = None
    function: str | None = None


def attempted(df: DataFrame, node: Node, *, stops: bool) -> DataFrame:
    """What an operator's functions make of rows; unless a failure `stops` it, with ERROR and FUNCTION."""
    match node:
        case Filter():
            trial = _filter(df, node)
        case Check():
            trial = _check(df, node)
        case Branch():
            df, trial = _branch(df, node)
        case Peek():
            trial = _peek(df, node)
        case Map():
            trial = _map(df, node)
        case FlatMap():
            trial = _flat_map(df, node)
        case Sink():
            trial = _encode(df, node)
        case _:
            raise AssertionError(f"{node.name} calls no functions for single rows")
    return _tried(df, trial, stops=stops)


def _filter(df: DataFrame, node: Filter) -> _Trial:
    function = _function(node.condition)
    given = names(node.shape.columns)
    is_table = node.shape.kind is not Kind.STREAM

    def make(row: Row) -> list[Row]:
        if is_table and row[DELETED]:  # it is not there, whatever the function says of a row of NULLs
            return [{KEPT: False}]
        return [{KEPT: bool(called(function, {name: row[name] for name in given}))}]

    def make_all(rows: Any) -> list[Any]:
        return [condition_made(function, rows)]

    made = _struct((KEPT, BooleanType()))
    return _trial(function, node, (*given, DELETED), tuple(df.columns), made, make, make_all)


def _check(df: DataFrame, node: Check) -> _Trial:
    function = _function(node.condition)
    given = names(node.shape.columns)
    is_table, message = node.shape.kind is not Kind.STREAM, node.message

    def make(row: Row) -> list[Row]:
        if not (is_table and row[DELETED]) and not called(function, {name: row[name] for name in given}):
            raise RefusedError(message)
        return [{}]

    def make_all(rows: Any) -> list[Any]:
        if not pc.all(condition_made(function, rows), min_count=0).as_py():
            raise RefusedError(message)
        return []

    return _trial(function, node, (*given, DELETED), tuple(df.columns), StructType(), make, make_all)


def _branch(df: DataFrame, node: Branch) -> tuple[DataFrame, _Trial]:
    """A function is asked only if no choice before it is taken: it may rely on what they say."""
    given = names(node.shape.columns)
    kept = tuple(df.columns)
    flags = {
        f"{BRANCH}_{position}": to_column(condition)
        for position, (_, condition) in enumerate(node.choices)
        if isinstance(condition, Expression)
    }
    choices = [(f"{BRANCH}_{position}", *choice) for position, choice in enumerate(node.choices)]
    default = node.default

    def make(row: Row) -> list[Row]:
        columns = {name: row[name] for name in given}
        for flag, choice, condition in choices:
            if called(condition, columns) if isinstance(condition, Function) else row[flag]:
                return [{BRANCH: choice}]
        return [{BRANCH: default}]

    made = _struct((BRANCH, StringType()))
    return df.withColumns(flags), _Trial(node.name, (*given, *flags), kept, made, make)


def _peek(df: DataFrame, node: Peek) -> _Trial:
    function = node.function

    def make(row: Row) -> list[Row]:
        called(function, row)
        return [{}]

    return _Trial(node.name, names(node.shape.columns), tuple(df.columns), StructType(), make)


def _map(df: DataFrame, node: Map) -> _Trial:
    key = node.shape.key if node.values_only else ()
    columns = tuple(field for field in node.shape.columns if field.name not in key)
    function, wanted = node.function, names(columns)
    given, is_table = names(node.input.shape.columns), node.shape.kind is not Kind.STREAM

    def make(row: Row) -> list[Row]:
        if is_table and row[DELETED]:  # there is no row to make something of
            return [{}]
        return [_checked(function, called(function, {name: row[name] for name in given}), wanted)]

    made = _made_of(columns)
    arrow_made = to_arrow_schema(made, timezone="UTC")

    def make_all(rows: Any) -> list[Any]:
        return columns_made(function, rows, arrow_made)

    return _trial(function, node, (*given, DELETED), (*key, *_hidden(df)), made, make, make_all)


def _flat_map(df: DataFrame, node: FlatMap) -> _Trial:
    function, wanted = node.function, names(node.shape.columns)

    def make(row: Row) -> list[Row]:
        return [_checked(function, each, wanted) for each in _listed(function, called(function, row))]

    return _Trial(node.name, names(node.input.shape.columns), tuple(_hidden(df)), _made_of(node.shape.columns), make)


def _encode(df: DataFrame, sink: Sink) -> _Trial:
    """The bytes of a sink whose serdes are the user's own; a deletion has no value to be encoded."""
    serdes = {part: serde for part, serde in (("key", sink.key), ("value", sink.value)) if isinstance(serde, OwnSerde)}
    calls = [(part, _function(serde.encode), names(serde.columns)) for part, serde in serdes.items()]

    def make(row: Row) -> list[Row]:
        data = {}
        for part, function, wanted in calls:
            if part == "key" or not row[DELETED]:
                data[ENCODED[part]] = called(function, {name: row[name] for name in wanted})
        return [data]

    made = _struct(*((ENCODED[part], BinaryType()) for part in serdes))
    return _Trial(sink.name, (*names(sink.shape.columns), DELETED), tuple(df.columns), made, make)


def _trial(
    function: Function,
    node: Node,
    reads: tuple[str, ...],
    kept: tuple[str, ...],
    made: StructType,
    make: Callable[[Row], list[Row]],
    make_all: Callable[[Any], list[Any]],
) -> _Trial:
    """Row by row, or at once: then `make_all` gets the columns of the operator's input, without deletions of tables."""
    if not is_vectorized(function):
        return _Trial(node.name, reads, kept, made, make)
    given = names(node.inputs[0].shape.columns)
    is_table = node.shape.kind is not Kind.STREAM

    def make_of_those_there(batch: Any) -> list[Any]:
        rows = batch.select(given)
        if not is_table:
            return make_all(rows)
        there = pc.invert(batch.column(DELETED))
        place = pc.if_else(there, pc.subtract(pc.cumulative_sum(there.cast(pa.int64())), 1), None)
        return [column.take(place) for column in make_all(rows.filter(there))]

    return _Trial(node.name, reads, kept, made, None, make_of_those_there)


def _tried(df: DataFrame, trial: _Trial, *, stops: bool) -> DataFrame:
    # With their metadata, in which Spark keeps the watermark.
    kept = [StructField(name, df.schema[name].dataType, metadata=df.schema[name].metadata) for name in trial.kept]
    schema = StructType([*kept, *trial.made.fields, *(() if stops else _FAILURE)])
    arrow = to_arrow_schema(schema, timezone="UTC")
    arrow_made = to_arrow_schema(trial.made, timezone="UTC")
    place = [name for name in ("_topic", "_partition", "_offset") if name in df.columns]

    def run(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            given = batch.select(trial.reads)
            at_once = _at_once(trial, given)
            if at_once is not None:
                columns = [*batch.select(trial.kept).columns, *at_once, *([pa.nulls(len(batch))] * (0 if stops else 2))]
                yield _batch_of(columns, arrow)
                continue
            outcomes = _fitting(_one_by_one(trial, given), arrow_made)
            if stops:
                _stop_at_failure(trial, outcomes, batch.select(place))
            rows = [row for outcome in outcomes for row in outcome.rows]
            origin = pa.array([at for at, outcome in enumerate(outcomes) for _ in outcome.rows], pa.int64())
            columns = [batch.column(name).take(origin) for name in trial.kept]
            columns += [pa.array([row.get(field.name) for row in rows], field.type) for field in arrow_made]
            if not stops:
                columns.append(pa.array([each.error for each in outcomes for _ in each.rows], pa.string()))
                columns.append(pa.array([each.function for each in outcomes for _ in each.rows], pa.string()))
            yield _batch_of(columns, arrow)

    return df.mapInArrow(run, schema)


def _batch_of(columns: Sequence[Any], schema: Any) -> Any:
    fitting = [column.cast(field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(fitting, schema=schema)


def _at_once(trial: _Trial, batch: Any) -> list[Any] | None:
    """What a vectorized function makes of all rows; None if one of them fails, or there is no such function."""
    if trial.make_all is None:
        return None
    try:
        return trial.make_all(batch)
    except (FailedError, RefusedError):
        return None


def _one_by_one(trial: _Trial, batch: Any) -> list[_Made]:
    if trial.make is not None:
        make = trial.make
        return [_outcome(make, row) for row in batch.to_pylist()]
    make_all, made = trial.make_all, trial.made.names
    assert make_all is not None, trial.operator

    def make_one(slice_of_one: Any) -> list[Row]:
        columns = make_all(slice_of_one)
        return [dict(zip(made, (column[0].as_py() for column in columns), strict=True))]

    return [_outcome(make_one, batch.slice(at, 1)) for at in range(len(batch))]


def _outcome(make: Callable[[Any], list[Row]], row: Any) -> _Made:
    try:
        return _Made(make(row))
    except FailedError as failed:
        return _Made([{}], str(failed), failed.function.name)
    except RefusedError as refused:
        return _Made([{}], str(refused))


def _fitting(outcomes: list[_Made], schema: Any) -> list[_Made]:
    """With an error for each row of which was made what does not fit the schema. As a rule, all of it does."""

    def convert(rows: Sequence[Row]) -> None:
        for field in schema:
            array_of([row.get(field.name) for row in rows], field.type)

    def judged(outcome: _Made) -> _Made:
        try:
            convert(outcome.rows)
        except Exception as error:  # whatever is said of a value that a user's function made
            return _Made([{}], misfit_text(error))
        return outcome

    try:
        convert([row for outcome in outcomes for row in outcome.rows])
    except Exception:  # one of them, so all are judged
        return [judged(outcome) for outcome in outcomes]
    return outcomes


def _stop_at_failure(trial: _Trial, outcomes: list[_Made], places: Any) -> None:
    for at, outcome in enumerate(outcomes):
        if outcome.error is not None:
            who = (
                f"{trial.operator} fails"
                if outcome.function is None
                else f"{trial.operator}: {_short(outcome.function)} raised"
            )
            (place,) = places.slice(at, 1).to_pylist() or ({},)
            raise RuntimeError(f"{who} for {_place(place)}: {outcome.error}")


def _listed(function: Function, results: Any) -> list[Any]:
    """All of them, or none: a generator may raise after its first rows."""
    try:
        return list(results)
    except Exception as error:
        raise FailedError(function, error) from error


def _checked(function: Function, result: Any, wanted: tuple[str, ...]) -> Row:
    if not isinstance(result, Mapping):
        raise FailedError(function, TypeError(f"it must give a dict of {', '.join(wanted)}, and gave {result!r}"))
    return {name: result.get(name) for name in wanted}


def _function(given: object) -> Function:
    assert isinstance(given, Function), given
    return given


def _hidden(df: DataFrame) -> list[str]:
    return [name for name in df.columns if name in HIDDEN]


def _made_of(columns: Schema) -> StructType:
    return StructType.fromDDL(schema_text(columns))


def _struct(*fields: tuple[str, Any]) -> StructType:
    return StructType([StructField(name, type_) for name, type_ in fields])


def _short(function: str) -> str:
    return str(Function(function))


def _place(at: Mapping[str, Any]) -> str:
    if at.get("_offset") is None:  # behind an operator with state, or of a DataFrame
        return "a row"
    return f"the record at offset {at['_offset']} of {at['_topic']}-{at['_partition']}"
