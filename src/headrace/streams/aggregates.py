"""What is computed over a group: `agg(n=count(), total=sum_(col.amount))`. Data; Spark's own operators do the work."""

from dataclasses import dataclass
from typing import Final

from headrace.streams.columns import Column, expression_of
from headrace.streams.errors import PlanError
from headrace.streams.expressions import Expression
from headrace.streams.schema import Schema

# kind -> the type of its result if that is plain
_TYPES: Final = {"count": "bigint", "avg": "double"}
KINDS: Final = ("count", "sum", "min", "max", "avg", "collect", "first", "latest")


@dataclass(frozen=True, slots=True)
class Aggregation:
    """`of` is None only for the count of all rows."""

    kind: str
    of: Expression | None = None

    def __post_init__(self) -> None:
        assert self.kind in KINDS, self.kind

    def columns(self) -> frozenset[str]:
        return frozenset() if self.of is None else self.of.columns()

    def type_in(self, schema: Schema) -> str | None:
        if self.kind in ("min", "max", "first", "latest"):
            assert self.of is not None, self
            return self.of.type_in(schema)
        if self.kind == "sum":
            assert self.of is not None, self
            return {"double": "double", "float": "double", "bigint": "bigint", "int": "bigint"}.get(
                self.of.type_in(schema) or ""
            )
        return _TYPES.get(self.kind)

    def __str__(self) -> str:
        return f"{self.kind}({'*' if self.of is None else self.of})"


def count(column: Column | None = None) -> Aggregation:
    """How many rows there are, or in how many of them `column` is not NULL."""
    return Aggregation("count") if column is None else _over("count", column)


def sum_(column: Column) -> Aggregation:
    return _over("sum", column)


def min_(column: Column) -> Aggregation:
    return _over("min", column)


def max_(column: Column) -> Aggregation:
    return _over("max", column)


def avg(column: Column) -> Aggregation:
    return _over("avg", column)


def collect(column: Column) -> Aggregation:
    """All values that are not NULL, as an array; their order is not promised."""
    return _over("collect", column)


def first(column: Column) -> Aggregation:
    """The value of the earliest row by event time; of rows with one time, that of the lowest offset."""
    return _over("first", column)


def latest(column: Column) -> Aggregation:
    """The value of the latest row by event time; of rows with one time, that of the highest offset."""
    return _over("latest", column)


def _over(kind: str, column: Column) -> Aggregation:
    if not isinstance(column, Column):
        raise PlanError(f"{kind} takes a column, such as col.amount, and was given {column!r}")
    return Aggregation(kind, expression_of(column))
