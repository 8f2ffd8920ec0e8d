"""Values of the user's on their way into Spark's state and out of processors: as their column's type, or refused.

Spark would keep NULL for what is not of the very type, such as 5 in a column of doubles, and stop the query for what a
processor yields and cannot be.
"""

from typing import Any

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from headrace.streams.failing import error_text
from headrace.streams.processor_states import Fit
from headrace.streams.whole_numbers import has_whole_numbers, refuse_cut


def fitting(columns: StructType, what: str) -> Fit:
    """Of the values of all columns, in their order. What it makes raises ValueError for one that does not fit."""
    arrow = to_arrow_schema(columns, timezone="UTC")
    fields = [(field.name, field.type, has_whole_numbers(field.type)) for field in arrow]

    def fit(values: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(
            _as(type_, value, name, is_whole) for (name, type_, is_whole), value in zip(fields, values, strict=True)
        )

    def _as(type_: pa.DataType, value: Any, name: str, is_whole: bool) -> Any:
        if value is None:
            return None
        try:
            made = pa.scalar(value, type_).as_py(maps_as_pydicts="strict")
            if is_whole:
                refuse_cut((value,), type_)
        except Exception as error:  # whatever is said of it
            raise ValueError(f"{what}: {value!r} does not fit column {name!r}: {error_text(error)}") from error
        return made

    return fit
