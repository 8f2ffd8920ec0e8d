"""Values of the user's in columns of whole numbers and times: none of them is cut, or taken for what it is not."""

from collections import deque
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import pyarrow as pa
import pytest

from headrace.streams.whole_numbers import array_of

LONG = pa.int64()
TIME = pa.timestamp("us", "UTC")
LISTS = pa.list_(LONG)
STRUCT = pa.struct([("text", pa.string()), ("n", pa.int32())])


@pytest.mark.parametrize("cut", [5.5, np.float64(5.5), np.float32(5.5), Decimal("5.5"), Fraction(11, 2), 0.29 * 100])
@pytest.mark.parametrize("type_", [LONG, pa.int32(), pa.int16(), pa.int8()])
def test_a_number_that_is_not_whole_is_refused(cut: Any, type_: pa.DataType) -> None:
    with pytest.raises(ValueError, match=f"is not a whole number, which {type_} needs"):
        array_of([1, None, cut], type_)


@pytest.mark.parametrize(
    ("values", "type_"),
    [
        ([[1], None, [2, 5.5]], LISTS),
        ([(5.5,)], LISTS),
        ([deque([5.5])], LISTS),
        ([np.array([5.5])], LISTS),
        ([pd.Series([5.5])], LISTS),
        ([None, {"n": 1}, {}, {"text": "a", "n": 5.5}], STRUCT),
        ([("a", 5.5)], STRUCT),
        ([[("text", "a"), ("n", 5.5)]], STRUCT),
        ([{"a": 1}, None, {"b": 5.5}], pa.map_(pa.string(), LONG)),
        ([[("a", 5.5)]], pa.map_(pa.string(), LONG)),
        ([{5.5: "a"}], pa.map_(LONG, pa.string())),
        ([{"a": [None, {"n": 5.5}]}], pa.map_(pa.string(), pa.list_(STRUCT))),
        (np.array([1, 5.5], dtype=object), LONG),
        (np.array([1, 5.5]), LONG),
        (pd.Series([1, 5.5], dtype=object), LONG),
        (pd.Series([1, 5.5]), LONG),
    ],
)
def test_wherever_it_is(values: Any, type_: pa.DataType) -> None:
    with pytest.raises(ValueError, match=r"is not a whole number|was truncated"):
        array_of(values, type_)


def test_whole_numbers_of_any_kind_pass() -> None:
    given = [1, None, 2.0, np.int64(3), np.float64(4.0), Decimal(5), 2**62 + 1]
    assert array_of(given, LONG).to_pylist() == [1, None, 2, 3, 4, 5, 2**62 + 1]
    assert array_of([{"a": [None, {"n": 2.0}]}, None], pa.map_(pa.string(), pa.list_(STRUCT))).to_pylist() == [
        [("a", [None, {"text": None, "n": 2}])],
        None,
    ]


@pytest.mark.parametrize("number", [1_700_000_000.5, 17.0, 1_700_000_000, 1_700_000_000_123])
@pytest.mark.parametrize("type_", [TIME, pa.timestamp("us"), pa.date32(), pa.duration("us")])
def test_a_number_is_no_time(number: float, type_: pa.DataType) -> None:
    for values, whole in (
        ([None, number], type_),
        ([[number]], pa.list_(type_)),
        ([{"at": number}], pa.struct([("at", type_)])),
        (pd.Series([number], dtype=object), type_),
    ):
        with pytest.raises((ValueError, pa.ArrowException), match=r"is a number, and|cannot be converted|too large"):
            array_of(values, whole)


def test_times_pass() -> None:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    assert array_of([at, None, pd.Timestamp(at)], TIME).to_pylist() == [at, None, at]
    assert array_of([{"at": at}, {}], pa.struct([("at", TIME)])).to_pylist() == [{"at": at}, {"at": None}]
    assert array_of(pd.Series([at, float("nan")], dtype=object), TIME).to_pylist() == [at, None]
    assert array_of([date(2026, 1, 1), at], pa.date32()).to_pylist() == [date(2026, 1, 1)] * 2
    assert array_of([timedelta(seconds=1)], pa.duration("us")).to_pylist() == [timedelta(seconds=1)]
    assert array_of(np.array([5], "M8[us]"), TIME)[0].value == 5


def test_what_pandas_has_for_null_is_no_number() -> None:
    assert array_of(pd.Series([1.0, None]), LONG).to_pylist() == [1, None]
    assert array_of(pd.Series([1, pd.NA, float("nan")], dtype=object), LONG).to_pylist() == [1, None, None]
    assert array_of(pd.Series([[1], float("nan")], dtype=object), LISTS).to_pylist() == [[1], None]
    assert array_of(pd.Series([{"n": 1}, float("nan")], dtype=object), STRUCT)[1].as_py() is None


def test_columns_of_other_types_are_left_to_arrow() -> None:
    assert array_of([5.5, 1], pa.float64()).to_pylist() == [5.5, 1.0]
    with pytest.raises(pa.ArrowException):
        array_of([5.5], pa.string())
