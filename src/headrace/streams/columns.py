"""Expressions as users write them: `col.amount > 100`, `fn.upper(col.country)`, `when(...).otherwise(...)`.

    big = orders.filter((col.amount > 100) & ~col.country.isin("DE", "FR"))
    named = orders.select("id", country=fn.upper(col.country), cents=(col.amount * 100).cast("long"))

The operators of a `Column` build larger expressions, == and != among them. So two columns are compared by `same_as`,
and a column has no truth: `and`, `or`, `not` and `if` raise, since Python would evaluate them once for all rows. A
column whose name is not a Python name, or is one of a method, is `col["odd name"]`.
"""

from collections.abc import Callable
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Final

from headrace.streams.errors import PlanError
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
    LiteralValue,
    Unary,
)
from headrace.streams.schema import parse_type

_LITERALS: Final = (bool, int, float, str, bytes, date, datetime, timedelta, Decimal)


class Column:
    """A handle of an expression. `name` is what `alias` gave, or the column's own; None for anything computed."""

    __slots__ = ("expression", "name")
    __hash__ = None  # type: ignore[assignment]  # == makes an expression, so no set or dict could hold columns

    def __init__(self, expression: Expression, name: str | None = None) -> None:
        self.expression: Final = expression
        self.name: Final = name

    def alias(self, name: str) -> "Column":
        """The same under a name, for `select`."""
        return Column(self.expression, name)

    def cast(self, type_: str) -> "Column":
        return Column(Cast(self.expression, parse_type(type_)), self.name)

    def is_null(self) -> "Column":
        return Column(IsNull(self.expression))

    def is_not_null(self) -> "Column":
        return Column(Unary("NOT", IsNull(self.expression)))

    def isin(self, *options: object) -> "Column":
        """Whether it is one of them; they may also come as one list, tuple or set."""
        if len(options) == 1 and isinstance(options[0], list | tuple | set | frozenset):
            options = tuple(options[0])
        if not options:
            raise PlanError(f"isin() of {self.expression} needs at least one value")
        return Column(IsIn(self.expression, tuple(expression_of(option) for option in options)))

    def between(self, low: object, high: object) -> "Column":
        """Both ends included, as in SQL."""
        return (self >= low) & (self <= high)

    def same_value(self, other: object) -> "Column":
        """Like ==, but two NULLs are the same and one is not: never NULL itself."""
        return self._binary("<=>", other)

    def same_as(self, other: object) -> bool:
        """Whether `other` is the same expression under the same name: what == is for other objects."""
        return isinstance(other, Column) and (self.expression, self.name) == (other.expression, other.name)

    def __eq__(self, other: object) -> "Column":  # type: ignore[override]
        return self._binary("=", other)

    def __ne__(self, other: object) -> "Column":  # type: ignore[override]
        return self._binary("<>", other)

    def __lt__(self, other: object) -> "Column":
        return self._binary("<", other)

    def __le__(self, other: object) -> "Column":
        return self._binary("<=", other)

    def __gt__(self, other: object) -> "Column":
        return self._binary(">", other)

    def __ge__(self, other: object) -> "Column":
        return self._binary(">=", other)

    def __and__(self, other: object) -> "Column":
        return self._binary("AND", other)

    def __rand__(self, other: object) -> "Column":
        return self._reversed("AND", other)

    def __or__(self, other: object) -> "Column":
        return self._binary("OR", other)

    def __ror__(self, other: object) -> "Column":
        return self._reversed("OR", other)

    def __invert__(self) -> "Column":
        return Column(Unary("NOT", self.expression))

    def __neg__(self) -> "Column":
        return Column(Unary("-", self.expression))

    def __add__(self, other: object) -> "Column":
        return self._binary("+", other)

    def __radd__(self, other: object) -> "Column":
        return self._reversed("+", other)

    def __sub__(self, other: object) -> "Column":
        return self._binary("-", other)

    def __rsub__(self, other: object) -> "Column":
        return self._reversed("-", other)

    def __mul__(self, other: object) -> "Column":
        return self._binary("*", other)

    def __rmul__(self, other: object) -> "Column":
        return self._reversed("*", other)

    def __truediv__(self, other: object) -> "Column":
        return self._binary("/", other)

    def __rtruediv__(self, other: object) -> "Column":
        return self._reversed("/", other)

    def __mod__(self, other: object) -> "Column":
        return self._binary("%", other)

    def __rmod__(self, other: object) -> "Column":
        return self._reversed("%", other)

    def __getitem__(self, at: object) -> "Column":
        """`col.address["city"]` is a field of a struct or a value of a map, `col.tags[0]` an element of an array."""
        if isinstance(at, str):
            return Column(FieldRef(self.expression, at), at)
        return Column(ItemRef(self.expression, expression_of(at)))

    def __iter__(self) -> None:
        # Without this, `for x in column` would ask for column[0], column[1], ... without an end.
        raise TypeError(f"{self.expression} is an expression over rows and has no elements in Python")

    def __bool__(self) -> bool:
        raise TypeError(
            f"{self.expression} is an expression over rows and is neither true nor false: write & for and, | for or, "
            "~ for not, with brackets around comparisons; columns are compared by same_as()"
        )

    def __repr__(self) -> str:
        return f"<column {self.expression}>" if self.name is None else f"<column {self.expression} as {self.name}>"

    def _binary(self, operator: str, other: object) -> "Column":
        return Column(Binary(operator, self.expression, expression_of(other)))

    def _reversed(self, operator: str, other: object) -> "Column":
        return Column(Binary(operator, expression_of(other), self.expression))


class CaseColumn(Column):
    """What `when` makes: more branches by `when`, the rest by `otherwise`."""

    __slots__ = ()

    def when(self, condition: object, result: object) -> "CaseColumn":
        case = self.expression
        assert isinstance(case, Case), case
        return CaseColumn(Case((*case.branches, (expression_of(condition), expression_of(result)))))

    def otherwise(self, result: object) -> Column:
        case = self.expression
        assert isinstance(case, Case), case
        return Column(Case(case.branches, expression_of(result)))


class _Columns:
    """`col.amount`, `col["odd name"]`, `col("amount")`."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Column:
        if name.startswith("__"):  # Python and its tools ask objects for these
            raise AttributeError(name)
        return Column(ColumnRef(name), name)

    def __getitem__(self, name: str) -> Column:
        return Column(ColumnRef(name), name)

    __call__ = __getitem__


class _Functions:
    """`fn.upper(col.country)`: any function of Spark SQL by its name. A text is a value: columns are col.x."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Callable[..., Column]:
        if name.startswith("__"):
            raise AttributeError(name)

        def call(*arguments: object) -> Column:
            return Column(Call(name, tuple(expression_of(argument) for argument in arguments)))

        call.__name__ = name
        return call


def lit(value: LiteralValue) -> Column:
    """A value as a column."""
    return Column(expression_of(value))


def when(condition: object, result: object) -> CaseColumn:
    """`when(col.amount > 100, "big").otherwise("small")`."""
    return CaseColumn(Case(((expression_of(condition), expression_of(result)),)))


def expression_of(given: object) -> Expression:
    """What a user gave, as an expression: a column, or a value that becomes a literal."""
    if isinstance(given, Column):
        return given.expression
    if isinstance(given, datetime) and given.tzinfo is None:
        # Spark would take it for one of the place where the driver happens to stand.
        raise PlanError(f"{given!r} has no time zone: give a datetime with one")
    if given is None or isinstance(given, _LITERALS):
        return Literal(given)
    raise PlanError(
        f"{given!r} is neither a column nor a value that Spark knows: use col.name, fn.name(...) or a plain value"
    )


col: Final = _Columns()
fn: Final = _Functions()
