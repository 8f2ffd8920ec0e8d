"""Values for Spark's state, and of processors: what becomes of those which are not of the very type."""

from datetime import UTC, datetime
from typing import Any

import pytest
from pyspark.sql.types import (
    ArrayType,
    DoubleType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from headrace.streams.compiler.fitting import fitting

COLUMNS = StructType(
    [
        StructField("n", LongType()),
        StructField("x", DoubleType()),
        StructField("at", TimestampType()),
        StructField("of", StructType([StructField("xs", ArrayType(DoubleType()))])),
        StructField("by", MapType(StringType(), DoubleType())),
    ]
)


def test_values_become_what_their_columns_hold() -> None:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    fit = fitting(COLUMNS, "state 'it'")
    made = fit((5, 5, at, {"xs": [1, None]}, {"a": 1}))
    assert made == (5, 5.0, at, {"xs": [1.0, None]}, {"a": 1.0})
    assert [type(made[1]), type(made[3]["xs"][0]), type(made[4]["a"])] == [float] * 3
    assert fit((None,) * 5) == (None,) * 5


def test_numbers_are_not_cut() -> None:
    fit = fitting(StructType([StructField("ns", ArrayType(LongType())), StructField("n", LongType())]), "state 'it'")
    assert fit(([1, 2.0], 3.0)) == ([1, 2], 3)
    for column, values in (("n", (None, 5.5)), ("ns", ([1, 5.5], None))):
        with pytest.raises(ValueError, match=rf"does not fit column '{column}': ValueError: 5.5 is not a whole number"):
            fit(values)


@pytest.mark.parametrize(("column", "value"), [(0, "one"), (1, "one"), (2, "soon"), (3, [1]), (4, {"a": "b"})])
def test_what_does_not_fit_is_refused_with_its_column(column: int, value: Any) -> None:
    values = [None] * 5
    values[column] = value
    with pytest.raises(ValueError, match=rf"^state 'it': .* does not fit column '{COLUMNS[column].name}': pyarrow"):
        fitting(COLUMNS, "state 'it'")(tuple(values))
