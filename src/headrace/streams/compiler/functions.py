"""Python functions of the user's over rows: batches of Arrow columns become dicts, and dicts become columns again.

A function that raises stops the query, with the operator's name, the function's and the place of the record; what it
did to earlier rows of the micro-batch is not written.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import BooleanType, StructField, StructType

from headrace.streams.compiler.rows import HIDDEN
from headrace.streams.functions import Function
from headrace.streams.plan import FlatMap, Map
from headrace.streams.schema import names, schema_text

Row = dict[str, Any]


def with_condition(df: DataFrame, function: Function, name: str, *, operator: str) -> DataFrame:
    """The rows with one more column: whether the function says yes."""
    schema = StructType([*df.schema.fields, StructField(name, BooleanType())])

    def change(row: Row, hidden: Row, call: Callable[..., Any]) -> Iterator[Row]:
        yield row | hidden | {name: bool(call(row))}

    return _each(df, function, schema, change, operator)


def mapped(df: DataFrame, node: Map) -> DataFrame:
    columns = tuple(field for field in node.shape.columns if not (node.values_only and field.name in node.shape.key))
    kept = node.shape.key if node.values_only else ()
    made = StructType.fromDDL(schema_text(columns))
    schema = StructType([*(df.schema[name] for name in kept), *made.fields, *_hidden_fields(df)])
    wanted = names(columns)

    def change(row: Row, hidden: Row, call: Callable[..., Any]) -> Iterator[Row]:
        result = call(row)
        yield {name: row[name] for name in kept} | {name: result.get(name) for name in wanted} | hidden

    return _each(df, node.function, schema, change, node.name)


def flat_mapped(df: DataFrame, node: FlatMap) -> DataFrame:
    schema = StructType([*StructType.fromDDL(schema_text(node.shape.columns)).fields, *_hidden_fields(df)])
    wanted = names(node.shape.columns)

    def change(row: Row, hidden: Row, call: Callable[..., Any]) -> Iterator[Row]:
        for result in call(row):
            yield {name: result.get(name) for name in wanted} | hidden

    return _each(df, node.function, schema, change, node.name)


def _hidden_fields(df: DataFrame) -> list[StructField]:
    return [field for field in df.schema.fields if field.name in HIDDEN]


def _each(
    df: DataFrame,
    function: Function,
    schema: StructType,
    change: Callable[[Row, Row, Callable[..., Any]], Iterator[Row]],
    operator: str,
) -> DataFrame:
    call, text = function.call, str(function)
    assert call is not None, function
    arrow = to_arrow_schema(schema, timezone="UTC")

    def run(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa

        for batch in batches:
            rows: list[Row] = []
            for whole in batch.to_pylist():
                hidden = {name: whole.pop(name) for name in HIDDEN if name in whole}
                try:
                    rows.extend(change(whole, hidden, call))
                except Exception as error:
                    raise RuntimeError(f"{operator}: {text} raised for {_place(hidden)}: {error!r}") from error
            yield pa.RecordBatch.from_pylist(rows, schema=arrow)

    return df.mapInArrow(run, schema)


def _place(hidden: Mapping[str, Any]) -> str:
    if "_offset" not in hidden:
        return "a row"
    return f"the record at offset {hidden['_offset']} of {hidden['_topic']}-{hidden['_partition']}"
