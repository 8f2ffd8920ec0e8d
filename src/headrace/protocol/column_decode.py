"""From the bytes of many record batches to Arrow columns, in one pass of arrays over all their records.

Each field of all records is read together: the timestamp deltas, then the offset deltas, the key lengths, and so on,
every step giving the places where the next one reads. No step checks whether it has left its record; at the end the
place that each record's fields reached is compared with the place where the record ends, and since places only grow,
that one comparison finds whatever went wrong before. Only then are the bytes of keys and values touched, by Arrow.

Rows are decoded in slices of a few thousand: arrays of that size stay in the processor's cache and out of the kernel's
hands.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from headrace.protocol.batch import MAX_INT64, BatchHeader, Buffer
from headrace.protocol.column_headers import HEADERS, header_column, read_headers, take_spans, validity
from headrace.protocol.column_starts import Payloads, find_records
from headrace.protocol.column_varints import Octets, Positions, read_varints
from headrace.protocol.errors import CorruptBatchError

# Microseconds in UTC are what Spark has for a timestamp, and so what its Kafka source gives. Kafka's are milliseconds.
SCHEMA: Final = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", HEADERS),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("timestamp_type", pa.int32()),
    ]
)

_SLICE_ROWS: Final = 8192
_SLICE_BYTES: Final = 8 * 1024 * 1024
_MAX_MILLISECONDS: Final = MAX_INT64 // 1000


class Group(NamedTuple):
    """Batches to decode together: their bytes, where in them each batch's records lie, and their headers."""

    source: Buffer
    starts: Sequence[int]
    ends: Sequence[int]
    headers: Sequence[BatchHeader]


class Window(NamedTuple):
    """The offsets that are wanted: first_offset, inclusive, to end_offset, exclusive."""

    first_offset: int
    end_offset: int


class _Decoder:
    """One group: what all its slices share."""

    def __init__(self, group: Group, window: Window, *, topic: str, partition: int) -> None:
        headers = group.headers
        self.octets: Octets = np.frombuffer(group.source, np.uint8)
        self.source = pa.py_buffer(group.source)
        self.window = window
        counts = _array([header.record_count for header in headers])
        self.records = find_records(self.octets, Payloads(_array(group.starts), _array(group.ends), counts))
        self.batch_of_row = np.repeat(np.arange(len(headers)), counts)
        self.base_offsets = _array([header.base_offset for header in headers])
        self.last_offset_deltas = _array([header.last_offset_delta for header in headers])
        self.base_timestamps = _array([header.base_timestamp for header in headers])
        self.max_timestamps = _array([header.max_timestamp for header in headers])
        self.log_append_time = np.array([header.is_log_append_time for header in headers], np.bool_)
        rows = min(len(self.batch_of_row), _SLICE_ROWS)
        self.topics = _repeat(topic.encode(), rows)
        self.partitions = pa.array(np.full(rows, partition, np.int32))
        self.no_headers = pa.nulls(rows, HEADERS)

    def decode(self) -> Iterator[Any]:
        """The wanted rows, slice by slice."""
        starts, ends = self.records
        first, total = 0, len(starts)
        while first < total:
            within_bytes = int(np.searchsorted(ends, starts[first] + _SLICE_BYTES))
            last = min(first + _SLICE_ROWS, max(within_bytes, first + 1), total)
            batch = self._decode_slice(starts[first:last], ends[first:last], self._batches(first, last))
            if batch is not None:
                yield batch
            first = last

    def _batches(self, first: int, last: int) -> Any:
        """The batch of each row, or just its number if it is the same for all, as it is in large batches."""
        batches = self.batch_of_row[first:last]
        return batches[0] if batches[0] == batches[-1] else batches

    def _decode_slice(self, starts: Positions, ends: Positions, batches: Any) -> Any | None:
        octets = self.octets
        timestamp_deltas, at = read_varints(octets, starts + 1, bits=64)  # the attributes byte has no meaning yet
        offset_deltas, at = read_varints(octets, at)
        key_lengths, key_starts = read_varints(octets, at)
        value_lengths, value_starts = read_varints(octets, key_starts + np.maximum(key_lengths, 0))
        header_counts, at = read_varints(octets, value_starts + np.maximum(value_lengths, 0))
        spans = None
        if header_counts.any():
            spans, at = read_headers(octets, at, ends, header_counts)
        if not np.array_equal(at, ends):
            raise CorruptBatchError("a record does not end where its length says")
        if min(key_lengths.min(), value_lengths.min()) < -1:
            raise CorruptBatchError("a length below zero; only -1, for null, is allowed")
        offsets = self._offsets(offset_deltas, batches)
        timestamps = self._timestamps(timestamp_deltas, batches)

        count = len(starts)
        wanted = (offsets >= self.window.first_offset) & (offsets < self.window.end_offset)
        if not wanted.any():
            return None
        batch = pa.RecordBatch.from_arrays(
            [
                take_spans(self.source, key_starts, key_lengths),
                take_spans(self.source, value_starts, value_lengths),
                self.no_headers.slice(0, count) if spans is None else header_column(self.source, spans, header_counts),
                self.topics.slice(0, count),
                self.partitions.slice(0, count),
                pa.array(offsets),
                _microseconds(timestamps),
                pa.array(np.broadcast_to(self.log_append_time[batches], count).astype(np.int32)),
            ],
            schema=SCHEMA,
        )
        return batch if wanted.all() else batch.filter(pa.array(wanted))

    def _offsets(self, deltas: Positions, batches: Any) -> Positions:
        if deltas.min() < 0 or (deltas > self.last_offset_deltas[batches]).any():
            raise CorruptBatchError("an offset delta below zero or above the last one of its batch")
        offsets: Positions = self.base_offsets[batches] + deltas  # in range, since the last offset of every batch is
        return offsets

    def _timestamps(self, deltas: Positions, batches: Any) -> Positions:
        bases = self.base_timestamps[batches]
        timestamps: Positions = bases + deltas
        log_append_time = self.log_append_time[batches]
        overflow = ((bases ^ timestamps) & (deltas ^ timestamps)) < 0
        if (overflow & ~log_append_time).any():
            raise CorruptBatchError("a timestamp is out of range")
        if log_append_time.any():
            timestamps = np.where(log_append_time, self.max_timestamps[batches], timestamps)
        return timestamps


def decode_group(group: Group, window: Window, *, topic: str, partition: int) -> list[Any]:
    """The wanted rows of a group as Arrow record batches. Raises CorruptBatchError."""
    return list(_Decoder(group, window, topic=topic, partition=partition).decode())


def _array(numbers: Sequence[int]) -> Positions:
    return np.array(numbers, np.int64)


def _repeat(text: bytes, rows: int) -> Any:
    """An Arrow array of the same string in every row."""
    edges = np.arange(rows + 1, dtype=np.int32) * len(text)
    return pa.Array.from_buffers(pa.string(), rows, [None, pa.py_buffer(edges), pa.py_buffer(text * rows)])


def _microseconds(timestamps: Positions) -> Any:
    """Milliseconds as Arrow timestamps; null where they do not fit, which is beyond the year 294,000."""
    bitmap = None
    if timestamps.max() > _MAX_MILLISECONDS or timestamps.min() < -_MAX_MILLISECONDS:
        fits = (timestamps <= _MAX_MILLISECONDS) & (timestamps >= -_MAX_MILLISECONDS)
        bitmap = validity(fits)
        timestamps = np.where(fits, timestamps, 0)
    return pa.Array.from_buffers(
        SCHEMA.field("timestamp").type, len(timestamps), [bitmap, pa.py_buffer(timestamps * 1000)]
    )
