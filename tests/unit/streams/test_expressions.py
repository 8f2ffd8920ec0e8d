import operator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pytest

from headrace.streams import Column, PlanError, col, fn, lit, when
from headrace.streams.expressions import Binary, ColumnRef, Literal, is_steady, substitute
from headrace.streams.schema import parse_schema


@pytest.mark.parametrize(
    ("column", "text"),
    [
        (col.amount > 100, "amount > 100"),
        (operator.lt(100, col.amount), "amount > 100"),
        (col["odd name"] + 1, "`odd name` + 1"),
        ((col.a + col.b) * col.c, "(a + b) * c"),
        (col.a + col.b * col.c, "a + b * c"),
        (col.a - (col.b - col.c), "a - (b - c)"),
        (col.a - col.b - col.c, "a - b - c"),
        (1 - col.a, "1 - a"),
        (2 / col.a % 3, "2 / a % 3"),
        (-(col.a + 1), "-(a + 1)"),
        (operator.neg(-col.a), "-(-a)"),
        (col.a * -1, "a * -1"),
        ((col.a == 1) & (col.b != 2) | ~(col.c <= 3), "a = 1 AND b <> 2 OR NOT c <= 3"),
        ((col.a == 1) & ((col.b == 2) | col.c), "a = 1 AND (b = 2 OR c)"),
        (~(col.a & col.b), "NOT (a AND b)"),
        ((col.a == 1) == (col.b == 2), "(a = 1) = (b = 2)"),
        (col.a.same_value(None), "a <=> NULL"),
        (col.a.is_null() | col.b.is_not_null(), "a IS NULL OR NOT b IS NULL"),
        ((col.a == 1).is_null(), "(a = 1) IS NULL"),
        (col.a.isin("x", "it's"), r"a IN ('x', 'it\'s')"),
        (col.a.isin([1, 2]), "a IN (1, 2)"),
        (col.a.between(1, 2), "a >= 1 AND a <= 2"),
        (col.a.cast("long") + 1, "CAST(a AS bigint) + 1"),
        (fn.upper(fn.concat(col.a, "-", 1)), "upper(concat(a, '-', 1))"),
        (when(col.a > 1, 1).when(col.b, 2).otherwise(None), "CASE WHEN a > 1 THEN 1 WHEN b THEN 2 ELSE NULL END"),
        (when(col.a, 1), "CASE WHEN a THEN 1 END"),
        (col.a["city"]["zip"], "a.city.zip"),
        (col.tags[0] == "x", "tags[0] = 'x'"),
        (lit(True) & col.a, "TRUE AND a"),
        (lit(b"\x01\xff"), "X'01FF'"),
        (lit(date(2026, 11, 16)), "DATE '2026-11-16'"),
        (lit(datetime(2026, 11, 16, 1, 2, 3, tzinfo=UTC)), "TIMESTAMP '2026-11-16 01:02:03+00:00'"),
        (lit(timedelta(minutes=1)), "INTERVAL '0:01:00'"),
        (lit(Decimal("-1.50")) * 2, "-1.50 * 2"),
    ],
)  # fmt: skip
def test_the_text_of_an_expression_is_sql_with_the_brackets_that_it_needs(column: Column, text: str) -> None:
    assert str(column.expression) == text


def test_an_expression_knows_its_columns_wherever_they_stand() -> None:
    made = when(col.a.isin(col.b, 1), col.c["x"]).otherwise(fn.f(col.d[col.e]))
    assert made.expression.columns() == {"a", "b", "c", "d", "e"}


def test_equality_of_columns_builds_an_expression_and_same_as_compares() -> None:
    made = col.a == col.b
    assert isinstance(made, Column)
    assert made.same_as(col.a == col.b)
    assert not made.same_as(col.b == col.a)
    assert not col.a.same_as(col.a.alias("b"))
    assert (col.a > 1).expression == Binary(">", ColumnRef("a"), Literal(1))


def test_values_that_python_takes_for_equal_are_different_literals() -> None:
    assert lit(1).expression != lit(True).expression
    assert lit(1).expression != lit(1.0).expression
    assert len({lit(1).expression, lit(True).expression, lit(1.0).expression, lit(1).expression}) == 3


@pytest.mark.parametrize(
    "use", [bool, lambda it: it and 1, lambda it: not it, lambda it: it in [col.b, col.c], lambda it: 1 < it < 2]
)
def test_a_column_has_no_truth_and_says_what_to_write(use: object) -> None:
    with pytest.raises(TypeError, match="write & for and"):
        use(col.a)  # type: ignore[operator]


def test_a_column_cannot_be_walked_through_nor_be_in_a_set() -> None:
    with pytest.raises(TypeError, match="no elements"):
        iter(col.a)
    with pytest.raises(TypeError, match="unhashable"):
        hash(col.a)


def test_a_time_without_a_zone_is_refused_since_it_would_be_that_of_the_driver() -> None:
    with pytest.raises(PlanError, match="has no time zone"):
        col.at > datetime(2026, 1, 1)  # noqa: B015
    assert str((col.at > datetime(2026, 1, 1, tzinfo=UTC)).expression) == "at > TIMESTAMP '2026-01-01 00:00:00+00:00'"


def test_what_is_no_value_for_spark_is_refused_where_it_is_written() -> None:
    with pytest.raises(PlanError, match="neither a column nor a value"):
        lit(object())  # type: ignore[arg-type]
    with pytest.raises(PlanError, match="at least one value"):
        col.a.isin()
    with pytest.raises(PlanError, match="not a type"):
        col.a.cast("lnog")


@pytest.mark.parametrize(
    ("column", "type_"),
    [
        (col.a, "bigint"),
        (col.a > 1, "boolean"),
        (col.a + 1, None),
        (-col.a, "bigint"),
        (col.a.cast("double"), "double"),
        (fn.upper(col.b), None),
        (when(col.a > 1, "x").otherwise("y"), "string"),
        (when(col.a > 1, "x").otherwise(1), None),
        (lit("x"), "string"),
        (lit(1), None),
        (col.b.is_null(), "boolean"),
    ],
)
def test_types_are_told_where_they_are_plain(column: Column, type_: str | None) -> None:
    assert column.expression.type_in(parse_schema("a long, b string")) == type_


def test_substitution_replaces_columns_everywhere_and_leaves_others() -> None:
    made = when(col.a > 1, fn.f(col.b)).otherwise(col.a)
    swapped = substitute(made.expression, {"a": (col.x + 1).expression})
    assert str(swapped) == "CASE WHEN x + 1 > 1 THEN f(b) ELSE x + 1 END"


def test_functions_that_differ_from_call_to_call_are_not_steady() -> None:
    assert is_steady((fn.upper(col.a) == "X").expression)
    assert not is_steady((fn.concat(fn.uuid(), col.a)).expression)
