"""What flows between two operators: a stream or a table, its columns, its key, and how late a row may be.

Beside a user's columns each row has hidden ones, which expressions may read and which `select` neither needs nor drops:
of a stream of records those of `RECORD_COLUMNS`, after a stateful operator only `_time`. An empty key means that rows
keep the key of their record as it came, in `_key`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from headrace.streams.errors import PlanError, unknown_column
from headrace.streams.expressions import Expression
from headrace.streams.functions import Function
from headrace.streams.schema import Field, Schema, names, reject_duplicates, type_of

TIME_COLUMN: Final = "_time"
RECORD_COLUMNS: Final[Schema] = (
    Field("_key", "binary"),
    Field("_topic", "string"),
    Field("_partition", "int"),
    Field("_offset", "bigint"),
    Field(TIME_COLUMN, "timestamp"),
    Field("_headers", "array<struct<key:string,value:binary>>"),
)
WINDOW_COLUMNS: Final[Schema] = (Field("window_start", "timestamp"), Field("window_end", "timestamp"))
# Columns that the compiler puts beside those of users, between two operators or inside of one.
_OF_THE_COMPILER: Final = (
    "_branch _bucket _corrupt _deleted _encoded_key _encoded_value _end _error _function _gone _group _json_key "
    "_json_value _kept _keys _last _late _left_key _left_time _letter _operator _place _right_key _right_time _row "
    "_rows _side _source _stamp _start _sub _until _value _watermark _window"
)
RESERVED: Final = frozenset({*names(RECORD_COLUMNS), *_OF_THE_COMPILER.split()})


class Kind(StrEnum):
    STREAM = "stream"
    TABLE = "table"
    GLOBAL_TABLE = "global table"


@dataclass(frozen=True, slots=True)
class Shape:
    """`of_records` is whether each row still is one record of a topic, with all of its hidden columns."""

    kind: Kind
    columns: Schema
    key: tuple[str, ...]
    grace_ms: int
    of_records: bool = True

    def __post_init__(self) -> None:
        missing = set(self.key) - set(names(self.columns))
        assert not missing, (missing, self.columns)

    @property
    def readable(self) -> Schema:
        """All that an expression may name."""
        return self.columns + (RECORD_COLUMNS if self.of_records else (Field(TIME_COLUMN, "timestamp"),))


def check_expression(expression: Expression, shape: Shape, *, where: str) -> None:
    """Raises UnknownColumnError, which names the nearest, for a column that is not there."""
    known = names(shape.readable)
    for name in sorted(expression.columns()):
        if name not in known:
            raise unknown_column(name, known, where=where)


def check_condition(condition: Expression | Function, shape: Shape, *, where: str) -> None:
    if isinstance(condition, Function):
        return
    check_expression(condition, shape, where=where)
    found = condition.type_in(shape.readable)
    if found not in (None, "boolean"):
        raise PlanError(f"{where}: a condition must be true or false, and {condition} is a {found}")


def check_names(given: Iterable[str], shape: Shape, *, where: str) -> None:
    known = names(shape.columns)
    for name in given:
        if name not in known:
            raise unknown_column(name, known, where=where)


def check_new_columns(given: Iterable[str], *, where: str) -> None:
    """Names that a user gives to columns: different ones, and none of the hidden ones."""
    listed = tuple(given)
    reject_duplicates(listed, where=where)
    for name in listed:
        if name.lower() in RESERVED:
            raise PlanError(f"{where}: {name!r} is the name of a hidden column; choose another")


def source_shape(kind: Kind, key: Schema, value: Schema, *, grace_ms: int, where: str) -> Shape:
    """The columns of the key, then those of the value; a column of both is one, and is the key's."""
    for field in key:
        other = type_of(value, field.name)
        if other is not None and other != field.type:
            raise PlanError(
                f"{where}: column {field.name!r} is a {field.type} in the key and a {other} in the value; "
                "make them equal"
            )
    columns = key + tuple(field for field in value if field.name not in names(key))
    check_new_columns(names(columns), where=where)
    return Shape(kind, columns, names(key), grace_ms)


def projected(shape: Shape, columns: Sequence[tuple[str, Expression]]) -> Shape:
    """After a select of these columns."""
    return replace(shape, columns=typed(shape, columns))


def typed(shape: Shape, columns: Sequence[tuple[str, Expression]]) -> Schema:
    """Expressions over rows of this shape as columns, with the types that can be told."""
    return tuple(Field(name, value.type_in(shape.readable)) for name, value in columns)


def merged(shapes: Sequence[Shape], *, where: str) -> Shape:
    """Of streams with the same columns, in any order, and the same key."""
    first = shapes[0]
    columns = list(first.columns)
    for other in shapes[1:]:
        if set(names(other.columns)) != set(names(first.columns)):
            raise PlanError(
                f"{where}: the columns differ, {', '.join(names(first.columns))} here and "
                f"{', '.join(names(other.columns))} there; make them equal by select"
            )
        if other.key != first.key:
            raise PlanError(f"{where}: the keys differ, {_key(first)} here and {_key(other)} there; use select_key")
        for position, field in enumerate(columns):
            theirs = type_of(other.columns, field.name)
            if None not in (field.type, theirs) and field.type != theirs:
                raise PlanError(f"{where}: column {field.name!r} is a {field.type} here and a {theirs} there; use cast")
            columns[position] = Field(field.name, field.type if theirs is not None else None)
    grace_ms = max(shape.grace_ms for shape in shapes)
    return replace(
        first, columns=tuple(columns), grace_ms=grace_ms, of_records=all(shape.of_records for shape in shapes)
    )


def joined(left: Shape, right: Shape, *, shared: Sequence[tuple[str, str]], kind: Kind, where: str) -> Shape:
    """The left columns, then the right ones without those that were joined on under the same name."""
    same = {theirs for ours, theirs in shared if ours == theirs}
    added = tuple(field for field in right.columns if field.name not in same)
    for field in added:
        if field.name in names(left.columns):
            raise PlanError(
                f"{where}: both sides have a column {field.name!r}; rename one of them by select before the join"
            )
    return Shape(kind, left.columns + added, left.key, max(left.grace_ms, right.grace_ms), of_records=False)


def aggregated(
    shape: Shape, keys: Sequence[tuple[str, Expression]], results: Schema, *, windowed: bool, where: str
) -> Shape:
    """Keys, the window if there is one, and what was computed. The window is part of the key."""
    key = typed(shape, keys) + (WINDOW_COLUMNS if windowed else ())
    check_new_columns(names(key + results), where=where)
    return Shape(Kind.TABLE, key + results, names(key), shape.grace_ms, of_records=False)


def _key(shape: Shape) -> str:
    return f"({', '.join(shape.key)})" if shape.key else "that of the record"
