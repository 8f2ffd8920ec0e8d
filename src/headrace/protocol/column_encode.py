"""From Arrow columns to record batches: the lengths and deltas of all records as arrays, the bytes glued by Arrow.

A record is head, key, middle, value, tail. Head and middle hold nothing but varints, and are built for all records at
once: as a matrix with one column per possible byte, from which the bytes that are not needed are dropped.
`binary_join_element_wise` then copies the five pieces of every record behind one another, so that the records of a
batch lie ready to be compressed, or just to be put behind a header.

Where a batch ends is decided beforehand, from an upper bound of each record's size that is a byte or two from the
truth.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.protocol.batch import (
    HEADER_SIZE,
    MAGIC,
    MAX_INT64,
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    TRANSACTIONAL_FLAG,
    BatchHeader,
)
from headrace.protocol.column_headers import HEADERS
from headrace.protocol.column_varints import Positions, Varints, write_varints
from headrace.protocol.compression import Codec
from headrace.protocol.records import seal_batch

DEFAULT_BATCH_BYTES: Final = 1024 * 1024  # a little less than the 1,048,588 bytes that Kafka accepts by default

_GROUP_ROWS: Final = 8192
_GROUP_BYTES: Final = 4 * 1024 * 1024
_MILLISECONDS: Final = {"s": (1000, 1), "ms": (1, 1), "us": (1, 1000), "ns": (1, 1_000_000)}  # times, then divided by


def encode_batches(
    rows: Any,
    *,
    timestamp_ms: int | None = None,
    batch_bytes: int = DEFAULT_BATCH_BYTES,
    codec: int = Codec.NONE,
    level: int | None = None,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    transactional: bool = False,
) -> list[bytearray]:
    """The rows of a pyarrow Table or RecordBatch as record batches of at most `batch_bytes`, ready to be produced.

    Columns: `value`, and if there `key`, `headers` and `timestamp` (an Arrow timestamp, or milliseconds as integers);
    others are left alone. Where a timestamp is missing it is `timestamp_ms`. A record that is larger than a batch may
    be gets a batch of its own. With a producer id the sequences go on from batch to batch, beginning with
    `base_sequence`.
    """
    table = pa.Table.from_batches([rows]) if isinstance(rows, pa.RecordBatch) else rows
    template = BatchHeader(
        base_offset=0,
        batch_length=0,
        leader_epoch=NO_LEADER_EPOCH,
        magic=MAGIC,
        crc=0,
        attributes=codec | (TRANSACTIONAL_FLAG if transactional else 0),
        last_offset_delta=0,
        base_timestamp=0,
        max_timestamp=0,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=NO_SEQUENCE,
        record_count=0,
    )
    batches: list[bytearray] = []
    for part in table.combine_chunks().to_batches():  # more than one only where a column has more than 2 GiB
        pieces = _Pieces.of(part, timestamp_ms)
        for first, counts in _groups(pieces, _room(batch_bytes, codec)):
            for header, payload in _encode_group(pieces, first, counts, template):
                header = header._replace(base_sequence=base_sequence)
                batches.append(seal_batch(header, payload, level=level))
                if base_sequence != NO_SEQUENCE:
                    base_sequence = (header.last_sequence + 1) & 0x7FFFFFFF
    return batches


class _Pieces(NamedTuple):
    """The columns of some rows, with what their sizes are and take on the wire."""

    keys: Any
    values: Any
    tails: Any  # header count and headers, as on the wire; a scalar if no record has headers
    key_lengths: Varints
    value_lengths: Varints
    content: Positions  # bytes of key, value and tail
    timestamps: Positions

    @classmethod
    def of(cls, part: Any, timestamp_ms: int | None) -> "_Pieces":
        names = part.schema.names
        if "value" not in names:
            raise ValueError(f"no column 'value' among {', '.join(names) or 'no columns at all'}")
        values = _cast("value", part.column("value"), pa.binary())
        keys = _cast("key", part.column("key"), pa.binary()) if "key" in names else pa.nulls(len(part), pa.binary())
        tails = _tails(part.column("headers")) if "headers" in names else _NO_HEADERS
        timestamps = part.column("timestamp") if "timestamp" in names else pa.nulls(len(part), pa.int64())
        key_lengths, value_lengths = _lengths(keys), _lengths(values)
        content = np.maximum(key_lengths, 0) + np.maximum(value_lengths, 0)
        content += 1 if tails is _NO_HEADERS else _lengths(tails)
        return cls(
            keys=keys,
            values=values,
            tails=tails,
            key_lengths=Varints.of(key_lengths),
            value_lengths=Varints.of(value_lengths),
            content=content,
            timestamps=_milliseconds(timestamps, timestamp_ms),
        )


def _scalar(data: bytes) -> Any:
    """What `pa.scalar` gives, which would load pandas, for half a second of each process that loads this module."""
    bounds = np.array([0, len(data)], np.int32)
    return pa.Array.from_buffers(pa.binary(), 1, [None, pa.py_buffer(bounds), pa.py_buffer(data)])[0]


_NO_HEADERS: Final = _scalar(b"\0")
_NOTHING: Final = _scalar(b"")
_NULL_IS_NOTHING: Final = pc.JoinOptions(null_handling="replace", null_replacement="")


def _cast(name: str, column: Any, kind: Any) -> Any:
    if column.type == kind:
        return column
    try:
        return column.cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        raise ValueError(f"column {name!r} is {column.type}, and cannot become {kind}: {error}") from None


def _lengths(column: Any) -> Positions:
    """The length of each entry of a binary array, -1 for null."""
    edges = _edges(column)
    lengths = np.diff(edges).astype(np.int64)
    if column.null_count:
        lengths[_nulls(column)] = -1
    return lengths


def _nulls(column: Any) -> npt.NDArray[np.bool_]:
    bits = np.frombuffer(column.buffers()[0], np.uint8)
    valid = np.unpackbits(bits, count=column.offset + len(column), bitorder="little")[column.offset :]
    nulls: npt.NDArray[np.bool_] = valid == 0
    return nulls


def _edges(column: Any) -> npt.NDArray[np.int32]:
    """Where the entries of a binary or list array begin and end in its data."""
    if not len(column):
        return np.zeros(1, np.int32)
    return np.frombuffer(column.buffers()[1], np.int32, count=len(column) + 1, offset=4 * column.offset)


def _milliseconds(column: Any, missing_ms: int | None) -> Positions:
    if pa.types.is_null(column.type):
        column = column.cast(pa.int64())
    if pa.types.is_timestamp(column.type):
        times, divisor = _MILLISECONDS[column.type.unit]
    elif pa.types.is_integer(column.type):
        times, divisor = 1, 1
    else:
        raise ValueError(f"column 'timestamp' is {column.type}; it must be an Arrow timestamp or integer milliseconds")
    if column.null_count and missing_ms is None:
        raise ValueError("rows without a timestamp, and no timestamp_ms to give them")
    numbers: Positions = pc.fill_null(column.cast(pa.int64()), 0).to_numpy()
    if times > 1 and len(numbers) and max(-int(numbers.min()), int(numbers.max())) > MAX_INT64 // times:
        raise ValueError("timestamps in seconds that milliseconds cannot express")
    milliseconds = numbers * times // divisor if times != divisor else numbers
    if column.null_count:
        milliseconds = np.where(_nulls(column), np.int64(missing_ms or 0), milliseconds)
    return milliseconds


def _tails(column: Any) -> Any:
    """Header count and headers of each row, as they stand at the end of a record."""
    column = _cast("headers", column, HEADERS)
    entries = column.flatten()
    if not len(entries):
        return _NO_HEADERS
    keys, values = entries.field("key").cast(pa.binary()), entries.field("value")
    if keys.null_count or entries.null_count:
        raise ValueError("a header without a key")
    headers = _join(_varints(Varints.of(_lengths(keys))), keys, _varints(Varints.of(_lengths(values))), values)
    counts = np.diff(_edges(column)).astype(np.int64)
    if column.null_count:
        counts[_nulls(column)] = 0
    # The headers of one record lie side by side, so they are an array of their own with fewer edges.
    edges = _edges(headers)[np.concatenate(([0], np.cumsum(counts)))]
    blocks = pa.Array.from_buffers(pa.binary(), len(column), [None, pa.py_buffer(edges), headers.buffers()[2]])
    return _join(_varints(Varints.of(counts)), blocks)


def _room(batch_bytes: int, codec: int) -> int:
    """The bytes that the records of a batch may have. What is kept back is for data that grows when compressed."""
    room = batch_bytes - HEADER_SIZE
    return room if codec == Codec.NONE else room - room // 256 - 64


def _groups(pieces: _Pieces, room: int) -> Iterator[tuple[int, list[int]]]:
    """Batches to be encoded together: the first row, and the number of rows in each batch."""
    total = np.cumsum(_size_bounds(pieces))
    rows = len(total)
    first, start, counts = 0, 0, list[int]()
    while start < rows:
        before = int(total[start - 1]) if start else 0
        stop = max(start + 1, int(np.searchsorted(total, before + room, "right")))
        counts.append(stop - start)
        start = stop
        if start - first >= _GROUP_ROWS or total[start - 1] - total[first] >= _GROUP_BYTES or start == rows:
            yield first, counts
            first, counts = start, []


def _size_bounds(pieces: _Pieces) -> Positions:
    """The size that each record has at most: the deltas are not known before the batches are, but their range is."""
    rows = len(pieces.timestamps)
    if not rows:
        return np.zeros(0, np.int64)
    spread = int(pieces.timestamps.max()) - int(pieces.timestamps.min())
    if spread > MAX_INT64:
        raise ValueError(f"timestamps {spread} ms apart do not fit a batch")
    deltas = int(Varints.of(np.array([spread, rows], np.int64)).sizes.sum())
    bodies = pieces.content + pieces.key_lengths.sizes + pieces.value_lengths.sizes + (1 + deltas)
    sizes: Positions = bodies + Varints.of(bodies).sizes
    return sizes


def _encode_group(
    pieces: _Pieces, first: int, counts: Sequence[int], template: BatchHeader
) -> Iterator[tuple[BatchHeader, memoryview]]:
    """Header and records of each batch of a group."""
    batch_starts = np.concatenate(([0], np.cumsum(counts)))
    last = first + int(batch_starts[-1])
    timestamps = pieces.timestamps[first:last]
    base_timestamps = timestamps[batch_starts[:-1]]
    max_timestamps = np.maximum.reduceat(timestamps, batch_starts[:-1])
    timestamp_deltas = Varints.of(timestamps - np.repeat(base_timestamps, counts))
    offset_deltas = Varints.of(np.arange(last - first) - np.repeat(batch_starts[:-1], counts))
    key_lengths = pieces.key_lengths.slice(first, last)
    value_lengths = pieces.value_lengths.slice(first, last)
    deltas = timestamp_deltas.sizes + offset_deltas.sizes
    bodies = pieces.content[first:last] + (1 + deltas + key_lengths.sizes + value_lengths.sizes)
    size = last - first
    attributes = Varints(np.zeros(size, np.uint64), np.ones(size, np.uint8))
    records = _join(
        _varints(Varints.of(bodies), attributes, timestamp_deltas, offset_deltas, key_lengths),
        pieces.keys.slice(first, size),
        _varints(value_lengths),
        pieces.values.slice(first, size),
        pieces.tails if pieces.tails is _NO_HEADERS else pieces.tails.slice(first, size),
    )
    cuts = _edges(records)[batch_starts].tolist()
    content = memoryview(records.buffers()[2])
    for index, count in enumerate(counts):
        header = template._replace(
            last_offset_delta=count - 1,
            record_count=count,
            base_timestamp=int(base_timestamps[index]),
            max_timestamp=int(max_timestamps[index]),
        )
        yield header, content[cuts[index] : cuts[index + 1]]


def _join(*pieces: Any) -> Any:
    """The pieces of each row behind one another, null being nothing."""
    return pc.call_function("binary_join_element_wise", [*pieces, _NOTHING], _NULL_IS_NOTHING)


def _varints(*fields: Varints) -> Any:
    octets, edges = write_varints(*fields)
    return pa.Array.from_buffers(pa.binary(), len(edges) - 1, [None, pa.py_buffer(edges), pa.py_buffer(octets)])
