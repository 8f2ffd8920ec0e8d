"""Expressions as columns of Spark."""

import operator
from collections.abc import Callable
from typing import Any, Final

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 what everybody calls it

from headrace.streams.expressions import (
    Binary,
    Call,
    Case,
    Cast,
    ColumnRef,
    Expression,
    FieldRef,
    IsIn,
    IsNull,
    ItemRef,
    Literal,
    Unary,
)

_BINARY: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "OR": operator.or_,
    "AND": operator.and_,
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "<=>": lambda left, right: left.eqNullSafe(right),
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "%": operator.mod,
}


def column(name: str) -> Column:
    """A column by its name, whatever characters it has."""
    return F.col("`" + name.replace("`", "``") + "`")


def to_column(expression: Expression) -> Column:
    match expression:
        case ColumnRef():
            return column(expression.name)
        case Literal():
            return F.lit(expression.value)
        case Unary(operator="NOT"):
            return ~to_column(expression.of)
        case Unary():
            return -to_column(expression.of)
        case Binary():
            return _BINARY[expression.operator](to_column(expression.left), to_column(expression.right))
        case IsNull():
            return to_column(expression.of).isNull()
        case IsIn():
            return to_column(expression.of).isin(*(to_column(option) for option in expression.options))
        case Cast():
            return to_column(expression.of).cast(expression.type)
        case FieldRef():
            return to_column(expression.of).getField(expression.name)
        case ItemRef():
            return to_column(expression.of)[to_column(expression.at)]
        case Call():
            return F.call_function(expression.function, *(to_column(argument) for argument in expression.arguments))
        case Case():
            return _case(expression)
    raise AssertionError(f"{type(expression).__name__} has no column")


def _case(expression: Case) -> Column:
    (condition, result), *rest = expression.branches
    made = F.when(to_column(condition), to_column(result))
    for condition, result in rest:
        made = made.when(to_column(condition), to_column(result))
    return made if expression.otherwise is None else made.otherwise(to_column(expression.otherwise))
