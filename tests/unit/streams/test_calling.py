"""Vectorized functions: what they may give, and whose fault it is if that does not fit."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from headrace.streams import PlanError, vectorized
from headrace.streams.compiler.calling import (
    FailedError,
    RefusedError,
    WrongLengthError,
    columns_made,
    condition_made,
    is_vectorized,
)
from headrace.streams.functions import Function, function_of
from tests.unit.streams.pipelines import new_app, orders_of

ROWS = pa.record_batch({"n": pa.array([1, 2, None], pa.int64())})
SCHEMA = pa.schema([("twice", pa.int64()), ("text", pa.string())])


def made_by(function: Callable[[Any], Any]) -> Function:
    return function_of(vectorized(function), where="here", may_be_vectorized=True)


def _give(given: Any, _: Any) -> Any:
    return given


def test_it_is_known_by_the_name_of_the_function_it_was_made_of() -> None:
    @vectorized
    def in_cents(rows: Any) -> Any:
        return rows

    function = function_of(in_cents, where="here", may_be_vectorized=True)
    assert str(function) == "in_cents()"
    assert function.name.startswith(f"{__name__}.test_it_is_known")
    assert is_vectorized(function)
    assert not is_vectorized(function_of(print, where="here"))


@pytest.mark.parametrize(
    "twice",
    [
        lambda rows: pc.multiply(rows["n"], 2),
        lambda rows: pa.chunked_array([pc.multiply(rows["n"], 2)]),
        lambda rows: [None if n is None else 2 * n for n in rows["n"].to_pylist()],
        lambda rows: rows.to_pandas()["n"].astype("Int64") * 2,
        lambda rows: pc.cast(pc.multiply(rows["n"], 2), pa.int32()),
    ],
    ids=["array", "chunks", "list", "series", "another type"],
)
def test_columns_may_be_given_in_many_forms(twice: Callable[[Any], Any]) -> None:
    columns = columns_made(made_by(lambda rows: {"twice": twice(rows)}), ROWS, SCHEMA)
    assert [column.to_pylist() for column in columns] == [[2, 4, None], [None] * 3], "what is not given is NULL"
    assert [column.type for column in columns] == SCHEMA.types


def test_columns_may_come_as_a_batch_or_a_table() -> None:
    for given in (pa.record_batch({"text": ["a", "b", "c"]}), pa.table({"text": ["a", "b", "c"]})):
        columns = columns_made(made_by(partial(_give, given)), ROWS, SCHEMA)
        assert columns[1].to_pylist() == ["a", "b", "c"]


def test_a_condition_is_a_column_and_what_is_null_is_not_true() -> None:
    assert condition_made(made_by(lambda rows: pc.greater(rows["n"], 1)), ROWS).to_pylist() == [False, True, False]
    assert condition_made(made_by(lambda _: np.array([True, False, True])), ROWS).to_pylist() == [True, False, True]
    assert condition_made(made_by(lambda _: pd.Series([True, None, False])), ROWS).to_pylist() == [True, False, False]


def test_what_it_raises_and_what_it_should_not_give_is_its_failure() -> None:
    with pytest.raises(FailedError, match="ArrowInvalid: divide by zero"):
        columns_made(made_by(lambda rows: {"twice": pc.divide(rows["n"], 0)}), ROWS, SCHEMA)
    with pytest.raises(FailedError, match="must give a dict of columns twice, text, and gave <class 'list'>"):
        columns_made(made_by(lambda _: [1, 2, 3]), ROWS, SCHEMA)


@pytest.mark.parametrize("values", [["a", "b", "c"], pa.array(["a", "b", "c"]), [1, 2, "3"], [1, 2, 5.5]])
def test_what_does_not_fit_the_schema_is_told(values: Any) -> None:
    with pytest.raises(RefusedError, match="what it gave does not fit the schema"):
        columns_made(made_by(lambda _: {"twice": values}), ROWS, SCHEMA)


def test_what_can_be_read_once_only_is_looked_at_too() -> None:
    with pytest.raises(RefusedError, match=r"5\.5 is not a whole number"):
        columns_made(made_by(lambda _: {"twice": iter([1, 2, 5.5])}), ROWS, SCHEMA)


def test_a_value_for_each_row_is_wanted_and_anything_else_is_the_fault_of_no_row() -> None:
    with pytest.raises(WrongLengthError, match=r"<lambda>\(\) is vectorized, and gave 1 values for 3 rows"):
        columns_made(made_by(lambda rows: {"twice": [pc.sum(rows["n"]).as_py()]}), ROWS, SCHEMA)
    with pytest.raises(WrongLengthError, match="gave 4 values for 3 rows"):
        condition_made(made_by(lambda _: [True] * 4), ROWS)


def test_operators_that_need_rows_refuse_it_where_it_is_written() -> None:
    orders = orders_of(new_app())
    function = vectorized(lambda rows: rows)
    refusals: list[Callable[[], object]] = [
        lambda: orders.flat_map(function, "a long"),
        lambda: orders.peek(function),
        lambda: orders.branch(some=function),
        lambda: orders.select_key("user").process(function, "user string"),
        lambda: orders.group_by("user").reduce(function),
    ]
    for refused in refusals:
        with pytest.raises(PlanError, match="filter, check, map and map_values take vectorized ones"):
            refused()
    with pytest.raises(PlanError, match="vectorized needs a function, and was given 3"):
        vectorized(3)  # type: ignore[arg-type]
