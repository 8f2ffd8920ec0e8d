"""How functions of the user's are called: with a row, or with the columns of many.

What a function raises is a FailedError, and concerns the rows that it got. That a vectorized one gave too many values
or too few is a mistake of the function and of no row: it stops the query whatever becomes of rows that fail.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from headrace.streams.failing import error_text, misfit_text
from headrace.streams.functions import Function, Vectorized
from headrace.streams.whole_numbers import array_of

Row = dict[str, Any]


class FailedError(Exception):
    """Which function failed. What it raised is the cause, and `str` of this is its text."""

    def __init__(self, function: Function, error: BaseException) -> None:
        super().__init__(error_text(error))
        self.function = function


class RefusedError(Exception):
    """A row does not pass a check, or what was made of it does not fit; and why not."""


class WrongLengthError(Exception):
    """A vectorized function did not give a value for each row."""


def is_vectorized(function: Function) -> bool:
    return isinstance(function.call, Vectorized)


def called(function: Function, rows: Any) -> Any:
    """With a row as a dict, or with a batch. Raises FailedError."""
    assert function.call is not None, function
    try:
        return function.call(rows)
    except Exception as error:
        raise FailedError(function, error) from error


def columns_made(function: Function, batch: pa.RecordBatch, schema: pa.Schema) -> list[pa.Array]:
    """Columns of this schema, of the dict that a vectorized function gives; what is not in there is NULL."""
    result = called(function, batch)
    if isinstance(result, pa.RecordBatch | pa.Table):
        result = dict(zip(result.schema.names, result.columns, strict=True))
    if not isinstance(result, Mapping):
        wanted = ", ".join(schema.names)
        raise FailedError(function, TypeError(f"it must give a dict of columns {wanted}, and gave {type(result)}"))
    nothing = pa.nulls(len(batch))
    return [_fitting(function, result.get(field.name, nothing), field.type, len(batch)) for field in schema]


def condition_made(function: Function, batch: pa.RecordBatch) -> pa.BooleanArray:
    """Booleans, of the column that a vectorized function gives; NULL is not true."""
    return pc.fill_null(_fitting(function, called(function, batch), pa.bool_(), len(batch)), False)


def _fitting(function: Function, values: Any, type_: pa.DataType, count: int) -> pa.Array:
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    try:
        made = values.cast(type_) if isinstance(values, pa.Array) else array_of(_kept(values), type_)
    except Exception as error:  # whatever is said of what a user's function gave
        raise RefusedError(misfit_text(error)) from error
    if len(made) != count:
        raise WrongLengthError(f"{function} is vectorized, and gave {len(made)} values for {count} rows")
    return made


def _kept(values: Any) -> Any:
    """As a list what can be read once only."""
    return list(values) if isinstance(values, Iterator) else values
