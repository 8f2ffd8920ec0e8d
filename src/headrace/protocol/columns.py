"""Record batches as Arrow columns, and Arrow columns as record batches, without touching each record in Python.

This is how records travel between the log and everything that computes: fetch, `decode_batches`, Arrow, Spark or
whatever, Arrow, `encode_batches`, produce. The columns are those of Spark's Kafka source, so that a pipeline does not
notice which one it reads from: key, value, headers (null where a record has none), topic, partition, offset, timestamp
(microseconds, UTC), timestamp_type (0 CreateTime, 1 LogAppendTime).

Decoding takes a fetch as it comes: whole batches from the one that holds the wanted offset on, the last one cut
anywhere. It gives exactly the wanted offsets, without control batches and, for a reader of committed data, without
aborted transactions. Batches are gathered into groups and a group is decoded in one pass (`column_decode.py`), so that
batches of a hundred records cost little more than batches of ten thousand. Encoding is in `column_encode.py`.

numpy and pyarrow are imported here and in the `column_*` modules, nowhere else in this package.
"""

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

import pyarrow as pa

from headrace.protocol.batch import HEADER_SIZE, MAX_INT64, BatchHeader, Buffer, check_counts, check_crc
from headrace.protocol.column_decode import SCHEMA, Group, Window, decode_group
from headrace.protocol.column_encode import encode_batches
from headrace.protocol.compression import DEFAULT_LIMIT_BYTES, Codec
from headrace.protocol.errors import CorruptBatchError
from headrace.protocol.records import (
    MIN_RECORD_SIZE,
    ControlType,
    iter_batches,
    read_control_type,
    read_payload,
    read_records,
)

__all__ = ["SCHEMA", "Columns", "decode_batches", "encode_batches"]

_ROW_BYTES: Final = 64  # what a row costs however little is in it: a compressed record may be a fraction of a byte
_GROUP_RECORDS: Final = 16384
_GROUP_BYTES: Final = 4 * 1024 * 1024


class Columns(NamedTuple):
    """Decoded rows, and the offset to go on from, which is not the last row's plus one: not every offset is a row."""

    table: Any  # pyarrow.Table of SCHEMA
    next_offset: int


def decode_batches(
    buffer: Buffer,
    *,
    topic: str,
    partition: int,
    first_offset: int = 0,
    end_offset: int | None = None,
    aborted: Iterable[tuple[int, int]] = (),
    check_crcs: bool = True,
    limit_bytes: int = DEFAULT_LIMIT_BYTES,
    pause_bytes: int = DEFAULT_LIMIT_BYTES,
) -> Columns:
    """The records with offsets from `first_offset` up to, not including, `end_offset`. Raises CorruptBatchError.

    `aborted` are the aborted transactions of the fetch response, as (producer id, first offset); their records are left
    out. `limit_bytes` bounds what one compressed batch may become. The decoding stops once it has decoded more than
    that or than `pause_bytes`; there, and at the end of the buffer, the caller goes on from `next_offset`.
    """
    if end_offset is not None and end_offset < first_offset:
        raise ValueError(f"end offset {end_offset} is below the first offset {first_offset}")
    window = Window(first_offset, MAX_INT64 if end_offset is None else end_offset)
    transactions = _AbortedTransactions(aborted)
    decoded: list[Any] = []
    gathered = _Gathered(buffer)
    next_offset = first_offset
    left_bytes = min(limit_bytes, pause_bytes)
    for position, header in iter_batches(buffer):
        if header.base_offset >= window.end_offset:
            next_offset = window.end_offset
            break
        if left_bytes <= 0:
            break
        check_counts(header, position)
        if check_crcs:
            check_crc(buffer, position, header)
        visible = transactions.visible(buffer, position, header) and not header.is_control
        if header.last_offset < first_offset:
            continue
        next_offset = min(header.next_offset, window.end_offset)
        if visible:
            left_bytes -= gathered.add(position, header, limit_bytes)
            if gathered.is_full:
                decoded += gathered.decode(window, topic, partition)
    decoded += gathered.decode(window, topic, partition)
    return Columns(pa.Table.from_batches(decoded, SCHEMA), next_offset)


class _AbortedTransactions:
    """Which batches belong to aborted transactions, seen in the order of the log.

    A producer's batches are aborted from the first offset of its aborted transaction on, until its abort marker.
    """

    def __init__(self, aborted: Iterable[tuple[int, int]]) -> None:
        self._upcoming = sorted(((first_offset, producer_id) for producer_id, first_offset in aborted), reverse=True)
        self._producers: set[int] = set()

    def visible(self, buffer: Buffer, position: int, header: BatchHeader) -> bool:
        while self._upcoming and self._upcoming[-1][0] <= header.last_offset:
            self._producers.add(self._upcoming.pop()[1])
        if not header.is_transactional or header.producer_id not in self._producers:
            return True
        if header.is_control and _is_abort_marker(buffer, position):
            self._producers.remove(header.producer_id)
        return False


def _is_abort_marker(buffer: Buffer, position: int) -> bool:
    marker = next(read_records(buffer, position), None)  # none is left of a marker that compaction has emptied
    return marker is not None and read_control_type(marker.key) == ControlType.ABORT


class _Gathered:
    """Batches that wait to be decoded together. Uncompressed ones stay where they are; others bring their own bytes."""

    def __init__(self, buffer: Buffer) -> None:
        self._buffer = memoryview(buffer)
        self._clear()

    def _clear(self) -> None:
        self._positions: list[int] = []
        self._headers: list[BatchHeader] = []
        self._payloads: list[Buffer] = []
        self._records = 0
        self._bytes = 0
        self._compressed = False

    @property
    def is_full(self) -> bool:
        return self._records >= _GROUP_RECORDS or self._bytes >= _GROUP_BYTES

    def add(self, position: int, header: BatchHeader, limit_bytes: int) -> int:
        """Add a batch; the size of its records."""
        if header.codec == Codec.NONE:
            payload: Buffer = self._buffer[position + HEADER_SIZE : position + header.size_bytes]
        else:
            if header.record_count * _ROW_BYTES > limit_bytes:
                raise CorruptBatchError(f"{header.record_count} records need more than {limit_bytes} bytes, the limit")
            payload = read_payload(self._buffer, position, header, limit_bytes=limit_bytes)
            self._compressed = True
        size = len(payload)
        if header.record_count * MIN_RECORD_SIZE > size:
            raise CorruptBatchError(f"{header.record_count} records cannot be in {size} bytes")
        if header.record_count:
            self._positions.append(position)
            self._headers.append(header)
            self._payloads.append(payload)
            self._records += header.record_count
            self._bytes += size
        elif size:
            raise CorruptBatchError(f"{size} bytes in a batch without records")
        return size

    def decode(self, window: Window, topic: str, partition: int) -> list[Any]:
        """Decode and forget what is here."""
        if not self._headers:
            return []
        origin = self._positions[0]
        end = self._positions[-1] + self._headers[-1].size_bytes
        # Batches that were left out may lie in between; if it is many, the rest is better moved together.
        if not self._compressed and end - origin <= 2 * self._bytes + len(self._headers) * HEADER_SIZE:
            starts = [position + HEADER_SIZE - origin for position in self._positions]
            source: Buffer = self._buffer[origin:end]
        else:
            source = self._payloads[0] if len(self._payloads) == 1 else b"".join(self._payloads)
            starts, total = [], 0
            for payload in self._payloads:
                starts.append(total)
                total += len(payload)
        ends = [start + len(payload) for start, payload in zip(starts, self._payloads, strict=True)]
        decoded = decode_group(Group(source, starts, ends, self._headers), window, topic=topic, partition=partition)
        self._clear()
        return decoded
