"""Which topic has a table of an app, and its records as rows of Python.

A table is in a topic if the app reads it from one, if it is written to one by `to`, or if the app has one of its own
for it, between two queries. Pure.
"""

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import cached_property
from typing import Any, Final

from headrace.streams.errors import PlanError, nearest
from headrace.streams.plan import DeadLetters, Plan, Sink, Source
from headrace.streams.queries import cut
from headrace.streams.rewrites import rewrite
from headrace.streams.schema import names
from headrace.streams.serdes import BytesSerde, JsonSerde, LongSerde, OwnSerde, Serde, StringSerde
from headrace.streams.shapes import WINDOW_COLUMNS, Kind, Shape

Row = dict[str, Any]
_WINDOW: Final = names(WINDOW_COLUMNS)
_INTEGERS: Final = frozenset({"tinyint", "smallint", "int", "bigint"})
_FLOATS: Final = frozenset({"float", "double"})
_NUMBER: Final = ((int, float, Decimal), "a number")
# By the type of a column: what its values, as `row_of` gives them, can be compared with. Others are not known well.
_COMPARABLE: Final[dict[str, tuple[type | tuple[type, ...], str]]] = {
    **dict.fromkeys((*_INTEGERS, *_FLOATS, "decimal"), _NUMBER),
    "string": (str, "a str"),
    "binary": (bytes, "bytes"),
    "boolean": (bool, "a bool"),
    "date": (date, "a date"),
    "timestamp": (datetime, "a datetime with a time zone"),
}


@dataclass(frozen=True)
class TableTopic:
    """`name` is the operator's. A serde that is None is what `to` does unless it is told otherwise."""

    name: str
    topic: str
    shape: Shape
    key: Serde | None
    value: Serde | None

    @property
    def group(self) -> tuple[str, ...]:
        """The columns of the key without those of a window."""
        return tuple(name for name in self.shape.key if name not in _WINDOW)

    @property
    def is_windowed(self) -> bool:
        return _WINDOW[0] in self.shape.key

    @cached_property
    def types(self) -> dict[str, str | None]:
        return {field.name: field.type for field in self.shape.columns}


def table_topics(plan: Plan) -> dict[str, TableTopic]:
    """All tables that are in a topic, by the names of their operators; written ones first, if there are several."""
    found: dict[str, TableTopic] = {}
    for node in plan.nodes():
        if isinstance(node, Sink) and node.input.shape.kind is Kind.TABLE and isinstance(node.topic, str):
            table = node.input
            found.setdefault(table.name, TableTopic(table.name, node.topic, table.shape, node.key, node.value))
    for query in cut(rewrite(plan)):
        for sink in query.sinks:
            if sink.internal and sink.shape.kind is Kind.TABLE:
                name = sink.input.name
                found.setdefault(name, TableTopic(name, str(sink.topic), sink.shape, sink.key, sink.value))
    for node in plan.nodes():
        if isinstance(node, Source) and node.shape.kind is not Kind.STREAM:
            found.setdefault(node.name, TableTopic(node.name, node.topics[0], node.shape, node.key, node.value))
    return found


def is_changelog(sink: Sink) -> bool:
    """Whether the last record of each key is a row of the table: what a compacted topic keeps, however old it is.

    Of a table with windows there are ever more keys, so that nobody wants to keep all of them.
    """
    if sink.shape.kind is not Kind.TABLE or _WINDOW[0] in sink.shape.key or isinstance(sink, DeadLetters):
        return False
    if isinstance(sink.key, OwnSerde):  # which may give no key at all, and such a record is refused there
        return False
    columns = None if sink.key is None else sink.key.columns
    return columns is None or set(names(columns)) == set(sink.shape.key)


def table_topic(plan: Plan, name: str) -> TableTopic:
    """By the operator's name or the topic's. Raises PlanError, which says what there is."""
    tables = table_topics(plan)
    if name in tables:
        return tables[name]
    by_topic = {table.topic: table for table in tables.values()}
    if name in by_topic:
        return by_topic[name]
    node = next((node for node in plan.nodes() if node.name == name), None)
    if node is not None and node.shape.kind is Kind.TABLE:
        raise PlanError(f"the table {name!r} is in no topic: write it to one with .to(topic), and ask for it there")
    if node is not None or any(sink.topic == name for sink in plan.sinks):
        raise PlanError(
            f"{name!r} is a stream, and has no row of each key: make a table of it by to_table() or agg(...)"
        )
    close = nearest(name, [*tables, *by_topic])
    listed = ", ".join(f"{table.name} (topic {table.topic})" for table in tables.values())
    hint = f"Did you mean {close!r}?" if close else f"The tables are: {listed or 'none that is in a topic'}"
    raise PlanError(f"app {plan.app!r} has no table {name!r}. {hint}")


def row_of(table: TableTopic, key: bytes | None, value: bytes) -> Row | None:
    """The columns of a record in Python's types; None if it cannot be decoded, so that the pipeline has no row either.

    A time is a datetime, a date a date, binary is bytes; all else is as JSON has it.
    """
    try:
        row = _decoded(table.value or JsonSerde(None), value, table)
        row |= _decoded_key(table, key)
    except Exception:  # a function of the user's may raise anything
        return None
    return {name: row.get(name) for name in table.types}


def key_of(table: TableTopic, values: tuple[Any, ...]) -> bytes | None:
    """The key of a record by the values of the key's columns; None if only its records can tell how they write it."""
    if len(table.shape.key) != 1 or len(values) != 1:
        return None
    (value,) = values
    if isinstance(table.key, LongSerde) and isinstance(value, int):
        return value.to_bytes(8, "big", signed=True)
    # Other types have several forms as text, such as 1.0 and 1.0E0.
    is_plain = table.types[table.shape.key[0]] in ("string", *_INTEGERS) and isinstance(value, str | int)
    is_text = table.key is None or isinstance(table.key, StringSerde)
    return str(value).encode() if is_plain and is_text else None


def refuse_bound(table: TableTopic, column: str, bound: object) -> None:
    """What the values of a column cannot be compared with; None is no bound. Raises PlanError."""
    column_type = table.types[column]
    wanted, said = _COMPARABLE.get((column_type or "").partition("(")[0], (object, ""))
    is_other = not isinstance(bound, wanted) or (column_type == "date" and isinstance(bound, datetime))
    if bound is not None and is_other:
        raise PlanError(f"{bound!r} is no bound of {column}: in the table {table.name!r} it is {said}")
    if column_type == "timestamp" and isinstance(bound, datetime) and bound.tzinfo is None:
        raise PlanError(f"{bound!r} has no time zone: give a datetime with one")


def from_text(text: str, column_type: str | None) -> Any:
    """A value that somebody has written on a command line. Raises ValueError."""
    if column_type in _INTEGERS:
        return int(text)
    if column_type in _FLOATS:
        return float(text)
    if column_type == "boolean":
        if text.lower() not in ("true", "false"):
            raise ValueError(f"{text!r} is neither true nor false")
        return text.lower() == "true"
    return _value(text, column_type)


def _decoded_key(table: TableTopic, key: bytes | None) -> Row:
    if key is None or not table.shape.key:
        return {}
    if table.key is not None:
        return _decoded(table.key, key, table)
    if len(table.shape.key) > 1:
        return _decoded(JsonSerde(None), key, table)
    (name,) = table.shape.key
    return {name: from_text(key.decode(), table.types[name])}


def _decoded(serde: Serde, data: bytes, table: TableTopic) -> Row:
    match serde:
        case JsonSerde():
            found = json.loads(data)
            if not isinstance(found, Mapping):
                raise TypeError("it is no JSON object")
            return {name: _value(value, table.types.get(name)) for name, value in found.items()}
        case StringSerde():
            return {serde.column: from_text(data.decode(), serde.type)}
        case LongSerde():
            return {serde.column: int.from_bytes(data, "big", signed=True)}
        case BytesSerde():
            return {serde.column: data}
        case OwnSerde():
            if serde.decode is None or serde.decode.call is None:
                raise PlanError(f"{serde} has no decode function, so that nobody can read what it writes")
            made: Row = serde.decode.call(data) or {}
            return made


def _value(value: Any, column_type: str | None) -> Any:
    if not isinstance(value, str):
        return value
    match column_type:
        case "timestamp":
            moment = datetime.fromisoformat(value)
            return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
        case "date":
            return date.fromisoformat(value)
        case "binary":
            return base64.b64decode(value)
    return value
