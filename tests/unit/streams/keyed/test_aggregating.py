from decimal import Decimal
from itertools import pairwise
from math import inf, isnan, nan
from typing import Any

import pyarrow as pa
import pytest

from headrace.streams.keyed.aggregating import Aggregating, Part, Totals

LONG, DOUBLE, TEXT = pa.int64(), pa.float64(), pa.string()


def folded(part: Part, values: list[Any], *, kind: type[Aggregating] | type[Totals] = Aggregating) -> Any:
    """The result over these values, each a little later than the one before, by way of what is kept in Arrow."""
    folding = kind((part,))
    value = None
    for number, given in enumerate(values):
        value = folding.add(value, *(0, {part.name: given}, (number, 0, number)))
    kept = pa.array([value], folding.value_type).to_pylist()[0]
    return pa.array([folding.result(kept)[part.name]], part.result).to_pylist()[0]


@pytest.mark.parametrize(
    ("part", "values", "result"),
    [
        (Part("n", "count", None, LONG), [None, 1], 2),
        (Part("n", "count", LONG, LONG), [None, 1], 1),
        (Part("n", "count", LONG, LONG), [None], 0),
        (Part("n", "sum", LONG, LONG), [None, 1, 2], 3),
        (Part("n", "sum", LONG, LONG), [None], None),
        (Part("n", "sum", LONG, LONG), [2**63 - 1, 1], -(2**63)),
        (Part("n", "min", LONG, LONG), [3, None, 1], 1),
        (Part("n", "max", TEXT, TEXT), ["b", "a", None], "b"),
        (Part("n", "min", DOUBLE, DOUBLE), [nan, inf], inf),
        (Part("n", "avg", LONG, DOUBLE), [1, None, 2], 1.5),
        (Part("n", "avg", LONG, DOUBLE), [None], None),
        (Part("n", "collect", LONG, pa.list_(LONG)), [2, None, 1], [2, 1]),
        (Part("n", "collect", LONG, pa.list_(LONG)), [None], []),
        (Part("n", "first", TEXT, TEXT), ["x", "y"], "x"),
        (Part("n", "latest", TEXT, TEXT), ["x", None], None),
    ],
)
def test_results_are_those_of_spark(part: Part, values: list[Any], result: Any) -> None:
    assert folded(part, values) == result


def test_nan_is_the_greatest_number() -> None:
    assert isnan(folded(Part("n", "max", DOUBLE, DOUBLE), [nan, inf]))


PAIR = pa.struct([("x", DOUBLE), ("of", pa.struct([("ns", pa.list_(LONG))]))])


@pytest.mark.parametrize(
    "ordered",
    [
        ([1, 5], [2]),
        ([], [None], [None, 1], [1], [1, None], [1, 0]),
    ],
)
def test_arrays_are_ordered_as_by_spark(ordered: tuple[list[int | None], ...]) -> None:
    type_ = pa.list_(LONG)
    for lower, upper in pairwise(ordered):
        for values in ([lower, upper], [upper, lower]):
            assert folded(Part("n", "min", type_, type_), values) == lower
            assert folded(Part("n", "max", type_, type_), values) == upper


def test_structs_are_ordered_as_by_spark_by_their_fields_with_null_first_and_nan_last() -> None:
    ordered = [
        {"x": None, "of": {"ns": [9]}},
        {"x": -0.0, "of": None},
        {"x": 0.0, "of": {"ns": None}},
        {"x": 0.0, "of": {"ns": [1, 2]}},
        {"x": 0.0, "of": {"ns": [1, 3]}},
        {"x": inf, "of": {"ns": [0]}},
        {"x": nan, "of": {"ns": [0]}},
        {"x": float("nan"), "of": {"ns": [1]}},
    ]
    for lower, upper in pairwise(ordered):
        for values in ([lower, None, upper], [upper, lower]):
            made = (folded(Part("n", kind, PAIR, PAIR), values) for kind in ("min", "max"))
            assert [str(each) for each in made] == [str(lower), str(upper)]


def test_decimals_are_exact_and_averages_of_them_are_rounded_as_spark_does() -> None:
    type_ = pa.decimal128(38, 2)
    large = Decimal("123456789012345678901234567890123456.78")
    assert folded(Part("n", "sum", type_, type_), [large, Decimal("0.01")]) == Decimal(f"{str(large)[:-1]}9")
    average = Part("n", "avg", pa.decimal128(10, 2), pa.decimal128(14, 6))
    assert folded(average, [Decimal("0.01"), Decimal("0.01"), Decimal("0.00")]) == Decimal("0.006667")


@pytest.mark.parametrize(("kind", "result"), [("first", "early"), ("latest", "late")])
def test_first_and_latest_go_by_time_and_not_by_arrival(kind: str, result: str) -> None:
    folding = Aggregating((Part("n", kind, TEXT, TEXT),))
    value = folding.add(None, *(0, {"n": "middle"}, (5, 0, 0)))
    value = folding.add(value, *(0, {"n": "late"}, (9, 0, 1)))
    value = folding.add(value, *(0, {"n": "early"}, (1, 0, 2)))
    assert value is not None
    assert folding.result(value) == {"n": result}


def test_two_sessions_become_one() -> None:
    parts = (Part("n", "count", None, LONG), Part("mean", "avg", LONG, DOUBLE), Part("all", "collect", LONG, LONG))
    folding = Aggregating(parts)
    values = [folding.add(None, *(0, {"mean": n, "all": n}, (n, 0, n))) for n in (1, 2)]
    assert values[0] is not None
    assert values[1] is not None
    merged = folding.merge(values[0], values[1])
    assert merged is not None
    assert folding.result(merged) == {"n": 2, "mean": 1.5, "all": [1, 2]}


TOTALS = Totals(
    (
        Part("n", "count", None, LONG),
        Part("known", "count", DOUBLE, LONG),
        Part("total", "sum", DOUBLE, DOUBLE),
        Part("mean", "avg", DOUBLE, DOUBLE),
    )
)


def totalled(*changes: tuple[int, float | None]) -> dict[str, Any]:
    value = None
    for sign, given in changes:
        row = {"known": given, "total": given, "mean": given}
        value = TOTALS.add(value, *(0 if sign > 0 else 1, row, (0, 0, 0)))
        value = pa.array([value], TOTALS.value_type).to_pylist()[0]
    assert value is not None
    return TOTALS.result(value)


def test_rows_are_taken_out_of_totals_again() -> None:
    assert totalled((1, 2.0), (1, None), (1, 4.0), (-1, 2.0)) == {"n": 2, "known": 1, "total": 4.0, "mean": 4.0}


def test_a_group_without_rows_has_zeros_and_no_rest() -> None:
    changes = ((1, 0.1), (1, 0.2), (1, 0.3), (-1, 0.1), (-1, 0.2), (-1, 0.3))
    assert totalled(*changes) == {"n": 0, "known": 0, "total": 0.0, "mean": None}


def test_a_sum_over_nothing_but_nulls_is_null() -> None:
    assert totalled((1, None)) == {"n": 1, "known": 0, "total": None, "mean": None}
