"""Rows of a DataFrame as records: which columns count, of which types, and which rows are for which topic.

The columns are those of Spark's own Kafka sink: `value`, and if they are there `key`, `topic`, `headers`, `partition`
and `timestamp`. A row without a partition goes to that of its key, as with Java's producer; one without a timestamp
gets the time at which it is written. An option `topic` counts more than the column.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from headrace.client.errors import ConfigError
from headrace.protocol.column_headers import HEADERS

_RECORD: Final = ("key", "value", "headers", "partition", "timestamp")
_WANTED: Final = {
    "value": "binary or string",
    "key": "binary or string",
    "topic": "string",
    "headers": "array<struct<key: string, value: binary>>",
    "partition": "int",
    "timestamp": "timestamp, or the milliseconds since 1970 as bigint",
}
COLUMNS: Final = frozenset(_WANTED)


def check_schema(schema: Any, topic: str | None, *, columns: Sequence[str] | None = None) -> None:
    """Of an Arrow schema; `columns` are all that there are. Raises ConfigError that lists everything that is wrong."""
    names = schema.names
    problems = []
    if "value" not in names:
        among = names if columns is None else columns
        problems.append(f"there is no column value among {', '.join(among) or 'no columns at all'}")
    if "topic" not in names and topic is None:
        problems.append("there is neither an option topic nor a column topic that says where the rows go")
    for name, wanted in _WANTED.items():
        if name in names:
            if names.count(name) > 1:
                problems.append(f"there are {names.count(name)} columns {name}")
            elif not _fits(name, schema.field(name).type):
                problems.append(f"column {name} is {schema.field(name).type}; it must be {wanted}")
    if problems:
        raise ConfigError(problems)


def _fits(name: str, kind: Any) -> bool:
    if pa.types.is_null(kind):
        return True
    match name:
        case "value" | "key":
            return _is_bytes(kind)
        case "topic":
            return _is_text(kind)
        case "headers":
            return _is_headers(kind)
        case "partition":
            return bool(pa.types.is_integer(kind))
        case _:
            return bool(pa.types.is_timestamp(kind) or pa.types.is_integer(kind))


def _is_text(kind: Any) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _is_bytes(kind: Any) -> bool:
    return bool(_is_text(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def _is_headers(kind: Any) -> bool:
    if not (pa.types.is_list(kind) or pa.types.is_large_list(kind)) or not pa.types.is_struct(kind.value_type):
        return False
    entry = {field.name: field.type for field in kind.value_type}
    return entry.keys() == {"key", "value"} and _is_text(entry["key"]) and _is_bytes(entry["value"])


def by_topic(rows: Any, topic: str | None, *, with_headers: bool = True) -> Iterator[tuple[str, Any]]:
    """The rows of each topic, in their order, with the columns that a record has. Raises ValueError."""
    records = _records(rows, with_headers=with_headers)
    if not records.num_rows:
        return
    if topic is not None:
        yield topic, records
        return
    topics = rows.column("topic")
    if topics.null_count:
        raise ValueError(f"{topics.null_count} rows have no topic: fill the column, or give an option topic")
    found = pc.unique(topics).to_pylist()
    if len(found) == 1:
        yield found[0], records
        return
    for name in found:
        yield name, records.filter(pc.equal(topics, name))


def _records(rows: Any, *, with_headers: bool) -> Any:
    columns = {}
    for name in _RECORD:
        if name not in rows.schema.names or (name == "headers" and not with_headers):
            continue
        column = rows.column(name)
        if pa.types.is_null(column.type):
            if name != "value":
                continue
            column = column.cast(pa.binary())
        elif name == "headers":
            column = column.cast(HEADERS)
        elif name == "partition":
            column = column.cast(pa.int32())
        columns[name] = column
    return pa.table(columns)


def in_pieces(batches: Iterable[Any], *, rows: int, size_bytes: int) -> Iterator[Any]:
    """Record batches as tables of about so many rows or bytes, whichever comes first: small ones are sent together."""
    gathered: list[Any] = []
    count = size = 0
    for batch in batches:
        if not batch.num_rows:
            continue
        gathered.append(batch)
        count += batch.num_rows
        size += batch.nbytes
        if count >= rows or size >= size_bytes:
            yield pa.Table.from_batches(gathered)
            gathered, count, size = [], 0, 0
    if gathered:
        yield pa.Table.from_batches(gathered)
