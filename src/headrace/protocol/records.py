"""The records inside a batch: one by one, when somebody asks for them.

A broker leaves records closed. Compaction, coordinators, tools and the per-record client open them here; what moves
millions of records reads columns (`columns.py`), and is tested against this reader.

A record, after its own length: attributes (unused), timestamp delta, offset delta, key, value, headers. Every number is
a zigzag varint; a length of -1 is null. Reading is strict: each length is checked against what is left before it is
believed, a record ends exactly where its length says, and a batch holds exactly as many records as its header says.

A record's timestamp is the batch's base timestamp plus the record's delta, except under LogAppendTime, where it is the
batch's max timestamp. When the delete horizon flag is set the base timestamp *is* the delete horizon (KIP-534), and the
deltas of all records count from there, mostly below zero. So timestamps are always read in the same way, and setting
the horizon means to write the records anew.
"""

from collections.abc import Iterator, Sequence
from enum import IntEnum
from struct import Struct
from typing import Final, NamedTuple, TypeAlias

from headrace.protocol.batch import (
    CODEC_MASK,
    CONTROL_FLAG,
    DELETE_HORIZON_FLAG,
    HEADER_SIZE,
    LOG_APPEND_TIME_FLAG,
    LOG_OVERHEAD,
    MAGIC,
    MAX_INT64,
    MIN_INT64,
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    TRANSACTIONAL_FLAG,
    BatchHeader,
    Buffer,
    check_header,
    pack_header,
    pack_header_values,
    unpack_header,
    write_crc,
)
from headrace.protocol.compression import DEFAULT_LIMIT_BYTES, Codec, compress, decompress
from headrace.protocol.errors import CorruptBatchError
from headrace.protocol.primitives import new
from headrace.protocol.varints import NULL, read_varint, read_varlong, varint

Headers: TypeAlias = tuple[tuple[str, bytes | None], ...]

MIN_RECORD_SIZE: Final = 7  # seven fields, none shorter than a byte
MAX_HEADERS: Final = 65536  # per record; a header may take 2 bytes on the wire, and 70 times that as an object


class Record(NamedTuple):
    """A record as it is read, with its place in the log."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


_new_record: Final = tuple.__new__  # half the time of Record(...)
(_NULL_LENGTH,) = NULL
(_NO_HEADERS,) = varint(0)


class NewRecord(NamedTuple):
    """A record to be written; its offset comes from its place in the batch."""

    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


# Reading


def iter_batches(buffer: Buffer) -> Iterator[tuple[int, BatchHeader]]:
    """Position and header of each whole batch. A partial batch at the end is left out: fetches are cut at any byte.

    The CRC is not checked; see `batch.verify`. Raises CorruptBatchError where no batch can begin.
    """
    position = 0
    end = len(buffer)
    while end - position >= HEADER_SIZE:
        header = new(BatchHeader, unpack_header(buffer, position))
        if header.magic != MAGIC:
            raise CorruptBatchError(f"magic {header.magic} at byte {position}, only {MAGIC} is known")
        if header.batch_length < HEADER_SIZE - LOG_OVERHEAD:
            raise CorruptBatchError(f"batch length {header.batch_length} at byte {position}, less than a header has")
        size_bytes = header.size_bytes
        if size_bytes > end - position:
            return
        yield position, header
        position += size_bytes


def read_payload(
    buffer: Buffer, position: int, header: BatchHeader, *, limit_bytes: int = DEFAULT_LIMIT_BYTES
) -> bytes:
    """The records of the batch at `position`, decompressed. Raises CorruptBatchError if they cannot be in there."""
    payload = memoryview(buffer)[position + HEADER_SIZE : position + header.size_bytes]
    if not payload and not header.record_count:
        return b""  # compaction keeps the header of an emptied batch, whatever its codec says
    if header.codec == Codec.NONE:
        data = bytes(payload)
    else:
        data = decompress(header.codec, payload, limit_bytes=limit_bytes)
    if header.record_count * MIN_RECORD_SIZE > len(data):
        raise CorruptBatchError(f"{header.record_count} records cannot be in {len(data)} bytes")
    return data


def read_records(buffer: Buffer, position: int = 0, *, limit_bytes: int = DEFAULT_LIMIT_BYTES) -> Iterator[Record]:
    """The records of the batch at `position`. Raises CorruptBatchError, at the latest after the last good record.

    The CRC is not checked; see `batch.verify`. `limit_bytes` bounds what a compressed batch may become.
    """
    header = check_header(buffer, position)
    payload = read_payload(buffer, position, header, limit_bytes=limit_bytes)
    place = 0
    try:
        for _ in range(header.record_count):
            record, place = _read_record(payload, place, header)
            yield record
    except IndexError:
        raise CorruptBatchError("a number goes beyond the end of the batch") from None
    if place != len(payload):
        raise CorruptBatchError(f"{len(payload) - place} bytes follow the last of {header.record_count} records")


def _read_record(payload: bytes, place: int, header: BatchHeader) -> tuple[Record, int]:
    """The record at `place` and where it ends. Raises IndexError if a varint goes beyond the payload."""
    length, place = read_varint(payload, place)
    end = place + length
    if length < 0 or end > len(payload):
        raise CorruptBatchError(f"a record of {length} bytes, {len(payload) - place} are left")
    timestamp_delta, place = read_varlong(payload, place + 1)  # the attributes byte has no meaning yet
    offset_delta, place = read_varint(payload, place)
    if payload[place] == _NULL_LENGTH:  # as the keys of all records of the metadata log
        key, place = None, place + 1
    else:
        key, place = _read_bytes(payload, place, end)
    value, place = _read_bytes(payload, place, end)
    headers: Headers = ()
    if payload[place] == _NO_HEADERS:
        place += 1
    else:
        header_count, place = read_varint(payload, place)
        headers, place = _read_headers(payload, place, end, header_count)
    if place != end:
        raise CorruptBatchError(f"a record ends {place - end:+d} bytes from where its length says")
    if not 0 <= offset_delta <= header.last_offset_delta:
        raise CorruptBatchError(f"offset delta {offset_delta}, the last of the batch is {header.last_offset_delta}")
    if header.attributes & LOG_APPEND_TIME_FLAG:
        timestamp = header.max_timestamp
    else:
        timestamp = header.base_timestamp + timestamp_delta
        if not MIN_INT64 <= timestamp <= MAX_INT64:
            raise CorruptBatchError(f"timestamp {timestamp} is out of range")
    return _new_record(Record, (header.base_offset + offset_delta, timestamp, key, value, headers)), end


def _read_headers(payload: bytes, place: int, end: int, count: int) -> tuple[Headers, int]:
    if not 0 <= count <= min((end - place) // 2, MAX_HEADERS):
        raise CorruptBatchError(f"{count} headers in a record with {end - place} bytes left, {MAX_HEADERS} at most")
    headers = []
    for _ in range(count):
        key, place = _read_bytes(payload, place, end)
        if key is None:
            raise CorruptBatchError("a header without a key")
        value, place = _read_bytes(payload, place, end)
        try:
            headers.append((key.decode(), value))
        except UnicodeDecodeError as error:
            raise CorruptBatchError(f"a header's key is not UTF-8: {error.reason}") from None
    return tuple(headers), place


def _read_bytes(payload: bytes, place: int, end: int) -> tuple[bytes | None, int]:
    length, place = read_varint(payload, place)
    if length < 0:
        if length == -1:
            return None, place
        raise CorruptBatchError(f"a length of {length}; only -1, for null, is below zero")
    stop = place + length
    if stop > end:
        raise CorruptBatchError(f"{length} bytes in a record with {end - place} bytes left")
    return payload[place:stop], stop


# Building


def build_batch(
    records: Sequence[NewRecord],
    *,
    base_offset: int = 0,
    codec: int = Codec.NONE,
    level: int | None = None,
    log_append_time_ms: int | None = None,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    transactional: bool = False,
    control: bool = False,
    leader_epoch: int = NO_LEADER_EPOCH,
) -> bytearray:
    """A batch of new records at consecutive offsets. Under LogAppendTime give `log_append_time_ms`."""
    if not records:
        raise ValueError("a batch of new records needs at least one; only compaction leaves empty batches")
    base_timestamp = records[0].timestamp
    payload = bytearray()
    for delta, record in enumerate(records):
        _write_record(payload, delta, record.timestamp - base_timestamp, record.key, record.value, record.headers)
    if log_append_time_ms is None:
        max_timestamp = max(record.timestamp for record in records)
        flags = codec
    else:
        max_timestamp = log_append_time_ms
        flags = codec | LOG_APPEND_TIME_FLAG
    if transactional:
        flags |= TRANSACTIONAL_FLAG
    if control:
        flags |= CONTROL_FLAG
    header = BatchHeader(
        base_offset=base_offset,
        batch_length=0,
        leader_epoch=leader_epoch,
        magic=MAGIC,
        crc=0,
        attributes=flags,
        last_offset_delta=len(records) - 1,
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        record_count=len(records),
    )
    return seal_batch(header, payload, level=level)


def rebuild_batch(
    header: BatchHeader,
    kept: Sequence[Record],
    *,
    delete_horizon_ms: int | None = None,
    level: int | None = None,
) -> bytearray:
    """What compaction leaves of a batch: the records in `kept` with their offsets and timestamps, all else as it was.

    Base offset, last offset, producer and sequences stay, so that a replay of the log restores the producer's state. A
    delete horizon that was set stays, too, unless a new one is given. Without records an empty, uncompressed batch
    remains: base timestamp -1, no horizon, and the max timestamp that it had.
    """
    if not kept:
        attributes = header.attributes & ~(DELETE_HORIZON_FLAG | CODEC_MASK)
        return seal_batch(header._replace(attributes=attributes, base_timestamp=NO_TIMESTAMP, record_count=0), b"")
    attributes = header.attributes
    if delete_horizon_ms is not None:
        attributes |= DELETE_HORIZON_FLAG
        base_timestamp = delete_horizon_ms
    elif header.delete_horizon_ms is not None:
        base_timestamp = header.base_timestamp
    else:
        base_timestamp = kept[0].timestamp
    payload = bytearray()
    for offset, timestamp, key, value, headers in kept:
        _write_record(payload, offset - header.base_offset, timestamp - base_timestamp, key, value, headers)
    rebuilt = header._replace(
        attributes=attributes,
        base_timestamp=base_timestamp,
        max_timestamp=max(record.timestamp for record in kept),  # under LogAppendTime it is that of each record
        record_count=len(kept),
    )
    return seal_batch(rebuilt, payload, level=level)


def seal_batch(header: BatchHeader, payload: Buffer, *, level: int | None = None) -> bytearray:
    """Header and records as one batch: compressed as the header's attributes say, length and CRC filled in."""
    if header.codec:
        payload = compress(header.codec, payload, level)
    batch = bytearray(pack_header(header._replace(batch_length=HEADER_SIZE - LOG_OVERHEAD + len(payload))))
    batch += payload
    write_crc(batch, 0, len(batch))
    return batch


def _write_record(
    out: bytearray, offset_delta: int, timestamp_delta: int, key: bytes | None, value: bytes | None, headers: Headers
) -> None:
    parts = [b"\0", varint(timestamp_delta), varint(offset_delta)]
    _add_bytes(parts, key)
    _add_bytes(parts, value)
    parts.append(varint(len(headers)))
    for name, content in headers:
        _add_bytes(parts, name.encode())
        _add_bytes(parts, content)
    body = b"".join(parts)
    out += varint(len(body))
    out += body


def _add_bytes(parts: list[bytes], content: bytes | None) -> None:
    if content is None:
        parts.append(NULL)
    else:
        parts.append(varint(len(content)))
        parts.append(content)


# Control batches


class ControlType(IntEnum):
    """What a control record says, from the second number of its key; UNKNOWN for the types of a newer version."""

    UNKNOWN = -1
    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


_CONTROL_KEY: Final = Struct(">hh")  # version, type
_MARKER_VALUE: Final = Struct(">hi")  # version, coordinator epoch
_MARKER_ATTRIBUTES: Final = TRANSACTIONAL_FLAG | CONTROL_FLAG
# A record with a marker always has the same form, but for its type and the coordinator's epoch.
_MARKER_RECORD: Final = Struct(">7sh3sis")
_MARKER_HEAD: Final = bytes((2 * 16, 0, 0, 0, 2 * 4, 0, 0))  # lengths are zigzag: 16 bytes, a key of 4; its version
_MARKER_MIDDLE: Final = bytes((2 * 6, 0, 0))  # a value of 6 bytes; its version
_MARKER_END: Final = bytes(1)  # no headers


def control_key(control_type: ControlType) -> bytes:
    return _CONTROL_KEY.pack(0, control_type)


def read_control_type(record_key: bytes | None) -> ControlType:
    """The type in a control record's key. Later versions of the key may add fields, but begin with the same two."""
    if record_key is None or len(record_key) < _CONTROL_KEY.size:
        raise CorruptBatchError("a control record without a version and a type in its key")
    version, control_type = _CONTROL_KEY.unpack_from(record_key)
    if version < 0:
        raise CorruptBatchError(f"a control record with version {version}")
    return ControlType(control_type) if control_type in _KNOWN_CONTROL_TYPES else ControlType.UNKNOWN


_KNOWN_CONTROL_TYPES: Final = frozenset(ControlType)


def build_end_transaction_marker(
    *,
    commit: bool,
    coordinator_epoch: int,
    producer_id: int,
    producer_epoch: int,
    timestamp: int,
    base_offset: int = 0,
    leader_epoch: int = NO_LEADER_EPOCH,
) -> bytearray:
    """The batch that ends a producer's transaction in one partition."""
    record = _MARKER_RECORD.pack(_MARKER_HEAD, commit, _MARKER_MIDDLE, coordinator_epoch, _MARKER_END)
    batch = bytearray(
        pack_header_values(
            *(base_offset, HEADER_SIZE - LOG_OVERHEAD + len(record), leader_epoch, MAGIC, 0, _MARKER_ATTRIBUTES, 0),
            *(timestamp, timestamp, producer_id, producer_epoch, NO_SEQUENCE, 1),
        )
    )
    batch += record
    write_crc(batch, 0, len(batch))
    return batch


def read_usual_marker(batch: Buffer) -> tuple[bool, int, int] | None:
    """Is it a commit, the coordinator's epoch, the timestamp; None for a batch that is not in the form from above."""
    if len(batch) != HEADER_SIZE + _MARKER_RECORD.size:
        return None
    header = unpack_header(batch)
    head, is_commit, middle, epoch, end = _MARKER_RECORD.unpack_from(batch, HEADER_SIZE)
    is_usual = (head, middle, end) == (_MARKER_HEAD, _MARKER_MIDDLE, _MARKER_END) and is_commit in (0, 1)
    is_usual = is_usual and header[5] == _MARKER_ATTRIBUTES and header[12] == 1
    return (is_commit == 1, epoch, header[7]) if is_usual else None


def read_coordinator_epoch(record_value: bytes | None) -> int:
    """The coordinator's epoch in the value of a marker that ends a transaction."""
    if record_value is None or len(record_value) < _MARKER_VALUE.size:
        raise CorruptBatchError("an end-of-transaction marker without a version and a coordinator epoch in its value")
    version, coordinator_epoch = _MARKER_VALUE.unpack_from(record_value)
    if version < 0:
        raise CorruptBatchError(f"an end-of-transaction marker with version {version}")
    return int(coordinator_epoch)
