"""Expressions over columns as data: what `col.amount > 100` makes, and what the plan keeps.

Nodes are frozen and equal by value. Their text is SQL, since that is what most readers know: `amount > 100 AND
upper(country) = 'DE'`. What users write is `headrace.streams.columns.Column`, which wraps a node and builds larger ones
by operators; there == makes an expression, here it compares.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Final

from headrace.streams.schema import Schema, quoted, type_of

LiteralValue = None | bool | int | float | str | bytes | date | datetime | timedelta | Decimal

# How tightly operators bind, loosest first: the text puts brackets only where they are needed.
_OR, _AND, _NOT, _COMPARE, _ADD, _MULTIPLY, _SIGN, _ATOM = range(8)
_BINARY: Final = {
    "OR": _OR,
    "AND": _AND,
    "=": _COMPARE,
    "<>": _COMPARE,
    "<": _COMPARE,
    "<=": _COMPARE,
    ">": _COMPARE,
    ">=": _COMPARE,
    "<=>": _COMPARE,
    "+": _ADD,
    "-": _ADD,
    "*": _MULTIPLY,
    "/": _MULTIPLY,
    "%": _MULTIPLY,
}
_BOOLEAN: Final = frozenset({"OR", "AND", "=", "<>", "<", "<=", ">", ">=", "<=>"})
# A call of these may answer otherwise the next time, so it must stay where it was written, and be made once per row.
_VOLATILE: Final = frozenset(
    {"rand", "randn", "random", "uniform", "randstr", "uuid", "shuffle"}
    | {"monotonically_increasing_id", "spark_partition_id", "input_file_name"}
    | {"current_timestamp", "now", "current_date", "curdate", "current_time", "localtimestamp", "unix_timestamp"}
)


@dataclass(frozen=True, slots=True)
class Expression:
    """One of the classes below. `binds` is how tightly its text holds together."""

    def children(self) -> Iterator["Expression"]:
        for field in fields(self):
            yield from _expressions_in(getattr(self, field.name))

    def columns(self) -> frozenset[str]:
        """The columns that it reads."""
        return frozenset(node.name for node in self.walk() if isinstance(node, ColumnRef))

    def walk(self) -> Iterator["Expression"]:
        yield self
        for child in self.children():
            yield from child.walk()

    def type_in(self, schema: Schema) -> str | None:  # noqa: ARG002 nothing is known unless a class says so
        """Its type if it is plain from `schema`; None when only Spark can know."""
        return None

    @property
    def binds(self) -> int:
        return _ATOM

    def __str__(self) -> str:
        raise NotImplementedError(type(self).__name__)


@dataclass(frozen=True, slots=True)
class ColumnRef(Expression):
    name: str

    def type_in(self, schema: Schema) -> str | None:
        return type_of(schema, self.name)

    def __str__(self) -> str:
        return quoted(self.name)


@dataclass(frozen=True, slots=True)
class FieldRef(Expression):
    """A field of a struct, or the value under a text in a map."""

    of: Expression
    name: str

    def __str__(self) -> str:
        return f"{_within(self.of, _ATOM)}.{quoted(self.name)}"


@dataclass(frozen=True, slots=True)
class ItemRef(Expression):
    """An element of an array, from 0 on, or the value under any key in a map."""

    of: Expression
    at: Expression

    def __str__(self) -> str:
        return f"{_within(self.of, _ATOM)}[{self.at}]"


@dataclass(frozen=True, slots=True)
class Literal(Expression):
    value: LiteralValue

    def __eq__(self, other: object) -> bool:
        # 1, 1.0 and True are equal to Python, and of different types to Spark.
        return isinstance(other, Literal) and type(self.value) is type(other.value) and self.value == other.value

    def __hash__(self) -> int:
        return hash((type(self.value), self.value))

    def type_in(self, schema: Schema) -> str | None:  # noqa: ARG002
        match self.value:
            case bool():
                return "boolean"
            case str():
                return "string"
            case float():
                return "double"
        return None

    def __str__(self) -> str:
        match self.value:
            case None:
                return "NULL"
            case bool():
                return "TRUE" if self.value else "FALSE"
            case str():
                return "'" + self.value.replace("\\", "\\\\").replace("'", "\\'") + "'"
            case bytes():
                return f"X'{self.value.hex().upper()}'"
            case datetime():
                return f"TIMESTAMP '{self.value.isoformat(sep=' ')}'"
            case date():
                return f"DATE '{self.value.isoformat()}'"
            case timedelta():
                return f"INTERVAL '{self.value}'"
        return str(self.value)

    @property
    def binds(self) -> int:
        negative = isinstance(self.value, int | float | Decimal) and str(self.value).startswith("-")
        return _SIGN if negative else _ATOM


@dataclass(frozen=True, slots=True)
class Unary(Expression):
    """`operator` is "NOT" or "-"."""

    operator: str
    of: Expression

    def type_in(self, schema: Schema) -> str | None:
        return "boolean" if self.operator == "NOT" else self.of.type_in(schema)

    @property
    def binds(self) -> int:
        return _NOT if self.operator == "NOT" else _SIGN

    def __str__(self) -> str:
        space = " " if self.operator == "NOT" else ""
        return f"{self.operator}{space}{_within(self.of, self.binds + (self.operator == '-'))}"


@dataclass(frozen=True, slots=True)
class Binary(Expression):
    """`operator` is SQL's: `=` compares, `<=>` compares and takes NULL for a value."""

    operator: str
    left: Expression
    right: Expression

    def type_in(self, schema: Schema) -> str | None:  # noqa: ARG002
        return "boolean" if self.operator in _BOOLEAN else None

    @property
    def binds(self) -> int:
        return _BINARY[self.operator]

    def __str__(self) -> str:
        # a - (b - c) needs its brackets, (a - b) - c does not; a comparison of comparisons always shows them.
        left = self.binds + 1 if self.binds == _COMPARE else self.binds
        right = self.binds if self.operator in ("AND", "OR") else self.binds + 1
        return f"{_within(self.left, left)} {self.operator} {_within(self.right, right)}"


@dataclass(frozen=True, slots=True)
class IsNull(Expression):
    of: Expression

    def type_in(self, schema: Schema) -> str | None:  # noqa: ARG002
        return "boolean"

    @property
    def binds(self) -> int:
        return _COMPARE

    def __str__(self) -> str:
        return f"{_within(self.of, _ADD)} IS NULL"


@dataclass(frozen=True, slots=True)
class IsIn(Expression):
    of: Expression
    options: tuple[Expression, ...]

    def type_in(self, schema: Schema) -> str | None:  # noqa: ARG002
        return "boolean"

    @property
    def binds(self) -> int:
        return _COMPARE

    def __str__(self) -> str:
        return f"{_within(self.of, _ADD)} IN ({', '.join(map(str, self.options))})"


@dataclass(frozen=True, slots=True)
class Cast(Expression):
    of: Expression
    type: str

    def type_in(self, schema: Schema) -> str | None:  # noqa: ARG002
        return self.type

    def __str__(self) -> str:
        return f"CAST({self.of} AS {self.type})"


@dataclass(frozen=True, slots=True)
class Call(Expression):
    """A function of Spark SQL by its name; Spark knows whether there is one."""

    function: str
    arguments: tuple[Expression, ...]

    def __str__(self) -> str:
        return f"{self.function}({', '.join(map(str, self.arguments))})"


@dataclass(frozen=True, slots=True)
class Case(Expression):
    """CASE WHEN: the first condition that is true decides; without `otherwise` the rest is NULL."""

    branches: tuple[tuple[Expression, Expression], ...]
    otherwise: Expression | None = None

    def type_in(self, schema: Schema) -> str | None:
        results = [result for _, result in self.branches] + ([self.otherwise] if self.otherwise is not None else [])
        types = {result.type_in(schema) for result in results}
        return types.pop() if len(types) == 1 else None

    def __str__(self) -> str:
        branches = " ".join(f"WHEN {condition} THEN {result}" for condition, result in self.branches)
        otherwise = "" if self.otherwise is None else f" ELSE {self.otherwise}"
        return f"CASE {branches}{otherwise} END"


def is_steady(expression: Expression) -> bool:
    """Whether it always gives the same for the same row, so that it may be moved or made twice."""
    return not any(isinstance(node, Call) and node.function in _VOLATILE for node in expression.walk())


def substitute(expression: Expression, columns: Mapping[str, Expression]) -> Expression:
    """The same expression with each column replaced by what it stands for; columns that are not named stay."""
    if isinstance(expression, ColumnRef):
        return columns.get(expression.name, expression)
    changed = {
        field.name: _map_expressions(getattr(expression, field.name), lambda child: substitute(child, columns))
        for field in fields(expression)
    }
    return replace(expression, **changed)


def both(left: Expression, right: Expression) -> Expression:
    return Binary("AND", left, right)


def _expressions_in(value: object) -> Iterator[Expression]:
    if isinstance(value, Expression):
        yield value
    elif isinstance(value, tuple):
        for part in value:
            yield from _expressions_in(part)


def _map_expressions(value: object, change: Callable[[Expression], Expression]) -> object:
    if isinstance(value, Expression):
        return change(value)
    if isinstance(value, tuple):
        return tuple(_map_expressions(part, change) for part in value)
    return value


def _within(expression: Expression, tightness: int) -> str:
    """The text, in brackets if it holds together less tightly than where it stands."""
    return f"({expression})" if expression.binds < tightness else str(expression)
