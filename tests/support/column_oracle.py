"""Decoded columns as plain rows, and the same rows as the per-record reader finds them."""

from typing import Any

import pyarrow as pa

from headrace.protocol.batch import (
    check_header,
)
from headrace.protocol.columns import SCHEMA, decode_batches
from headrace.protocol.errors import CorruptBatchError
from headrace.protocol.records import (
    Headers,
    NewRecord,
    Record,
    iter_batches,
    read_records,
)

FIRST, END = -(2**63), 2**63 - 1
MAX_MILLISECONDS = (2**63 - 1) // 1000  # beyond that there are no microseconds
Row = tuple[bytes | None, bytes | None, Headers | None, str, int, int, int | None, int]


def rows_of(table: Any) -> list[Row]:
    """A decoded table as plain rows; timestamps in milliseconds."""
    assert table.schema == SCHEMA
    table.validate(full=True)
    columns = [table.column(name).to_pylist() for name in ("key", "value", "headers", "topic", "partition", "offset")]
    columns[2] = [None if row is None else tuple((item["key"], item["value"]) for item in row) for row in columns[2]]
    microseconds = table.column("timestamp").cast(pa.int64()).to_pylist()
    columns.append([None if number is None else number // 1000 for number in microseconds])
    columns.append(table.column("timestamp_type").to_pylist())
    return list(zip(*columns, strict=True))


def instant(record: Record) -> int | None:
    return record.timestamp if abs(record.timestamp) <= MAX_MILLISECONDS else None


def expected_rows(log: bytes, first_offset: int = FIRST, end_offset: int = END) -> list[Row]:
    """What the per-record reader finds. Raises CorruptBatchError where it does."""
    rows: list[Row] = []
    for position, header in iter_batches(log):
        check_header(log, position)
        if header.is_control:
            continue
        kind = int(header.is_log_append_time)
        rows += [
            (record.key, record.value, record.headers or None, "orders", 3, record.offset, instant(record), kind)
            for record in read_records(log, position, limit_bytes=1_000_000)
            if first_offset <= record.offset < end_offset
        ]
    return rows


def decoded_rows(log: bytes, **options: Any) -> list[Row]:
    options = {"first_offset": FIRST, "limit_bytes": 1_000_000} | options
    return rows_of(decode_batches(log, topic="orders", partition=3, **options).table)


def text_records(count: int) -> list[NewRecord]:
    return [NewRecord(1000 + i, b"key %d" % i, b"value %d, and more of it" % (i * i)) for i in range(count)]


def outcome(rows: Any, log: bytes, **options: Any) -> list[Row] | None:
    try:
        return rows(log, **options)  # type: ignore[no-any-return]
    except CorruptBatchError:
        return None
