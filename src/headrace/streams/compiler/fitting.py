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


def fitting(columns: StructType, what: str) -> Fit:
    """Of the values of all columns, in their order. What it makes raises ValueError for one that does not fit."""
    fields = [(field.name, field.type) for field in to_arrow_schema(columns, timezone="UTC")]

    def fit(values: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(_as(type_, value, name) for (name, type_), value in zip(fields, values, strict=True))

    def _as(type_: pa.DataType, value: Any, name: str) -> Any:
        if value is None:
            return None
        try:
            return pa.scalar(value, type_).as_py(maps_as_pydicts="strict")
        except Exception as error:  # whatever Arrow says of it
            raise ValueError(f"{what}: {value!r} does not fit column {name!r}: {error_text(error)}") from error

    return fit
