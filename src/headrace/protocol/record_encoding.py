"""New records become a batch: one loop for all of them, since each costs what the loop costs.

For those who write batches all day, producers and coordinators. `records.py` does the same for one record after the
other, with names for everything, and is the judge in the tests.
"""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from headrace.protocol.batch import (
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    TRANSACTIONAL_FLAG,
    pack_header_values,
    write_crc,
)
from headrace.protocol.compression import Codec, compress
from headrace.protocol.varints import NULL, varint

Headers: TypeAlias = Sequence[tuple[str, bytes | None]]

# Key, value, timestamp, headers. A plain tuple: one is made for every record that is sent.
Row: TypeAlias = tuple[bytes | None, bytes | None, int, Headers | None]

_SMALL: Final = 2_048  # lengths, offsets and time differences below it are looked up
_VARINTS: Final = [varint(number) for number in range(_SMALL)]
_KEYLESS: Final = [NULL + number for number in _VARINTS]  # no key, and the size of a value
_SMALL_VALUE: Final = _SMALL - 32  # with its frame, the record is small as well
_NO_HEADERS: Final = varint(0)
_NO_ATTRIBUTES: Final = b"\0"
_FIRST: Final = _NO_ATTRIBUTES + varint(0) + varint(0)  # how the first record of a batch begins
# A record's own frame: its length, attributes, deltas and the lengths of key, value and headers, at their longest.
OVERHEAD_BYTES: Final = 5 + 1 + 10 + 5 + 5 + 5 + 5
# The same of a record without headers, of less than a megabyte, that comes within a day of the first of its batch.
USUAL_OVERHEAD_BYTES: Final = 3 + 1 + 4 + 3 + 3 + 3 + 1
USUAL_BYTES: Final = (1 << 20) - USUAL_OVERHEAD_BYTES
HEADER_OVERHEAD_BYTES: Final = 10


class Payload(NamedTuple):
    """The records of a batch as bytes, and what its header says of them.

    Records that follow one another mostly have the same timestamp: `places` are those of the records that differ from
    the one before, the first of all included, and `timestamps` what they have.
    """

    data: bytes
    record_count: int
    max_timestamp: int
    places: Sequence[int]
    timestamps: Sequence[int]
    codec: int = Codec.NONE

    def compressed(self, codec: int, level: int | None = None) -> "Payload":
        return self._replace(data=compress(codec, self.data, level), codec=codec) if codec else self


def size_bound(key: bytes | None, value: bytes | None, headers: Headers | None) -> int:
    """At least as many bytes as the record takes."""
    size = OVERHEAD_BYTES
    if key is not None:
        size += len(key)
    if value is not None:
        size += len(value)
    if headers:
        for name, content in headers:
            size += HEADER_OVERHEAD_BYTES + 4 * len(name) + (0 if content is None else len(content))
    return size


def encode_rows(rows: Sequence[Row]) -> Payload:
    """All rows, at consecutive offsets. Values are copied once, when all pieces are joined."""
    small, small_value = _SMALL, _SMALL_VALUE
    numbers, keyless, no_headers = _VARINTS, _KEYLESS, _NO_HEADERS
    base_timestamp = max_timestamp = last_timestamp = rows[0][2]
    places, timestamps = [0], [base_timestamp]
    start = _NO_ATTRIBUTES + numbers[0]
    start_size = len(start)
    pieces: list[bytes] = []
    add = pieces.extend
    for delta, (key, value, timestamp, headers) in enumerate(rows):
        if timestamp != last_timestamp:  # rare: records of a batch come within few milliseconds
            last_timestamp = timestamp
            if timestamp > max_timestamp:
                max_timestamp = timestamp
            places.append(delta)
            timestamps.append(timestamp)
            later = timestamp - base_timestamp
            start = _NO_ATTRIBUTES + (numbers[later] if 0 <= later < small else varint(later))
            start_size = len(start)
        offset = numbers[delta] if delta < small else varint(delta)
        if key is None and headers is None and value is not None and (size := len(value)) < small_value:
            sizes = keyless[size]  # the usual record: three quarters of the time
            size += start_size + len(offset) + len(sizes) + 1
            add((numbers[size], start, offset, sizes, value, no_headers))
            continue
        if key is None:
            key_part = NULL
        else:
            size = len(key)
            key_part = (numbers[size] if size < small else varint(size)) + key
        if value is None:
            size = 0
            value_size, value = NULL, b""
        else:
            size = len(value)
            value_size = numbers[size] if size < small else varint(size)
        tail = _encode_headers(headers) if headers else no_headers
        size += start_size + len(offset) + len(key_part) + len(value_size) + len(tail)
        add((numbers[size] if size < small else varint(size), start, offset, key_part, value_size, value, tail))
    return Payload(b"".join(pieces), len(rows), max_timestamp, places, timestamps)


def seal_rows(rows: Sequence[Row], *, codec: int = Codec.NONE, level: int | None = None, **identity: Any) -> bytearray:
    """The rows as a batch, ready to be sent or appended; the producer's identity as in `seal`."""
    return seal(encode_rows(rows).compressed(codec, level), **identity)


def seal_row(key: bytes, value: bytes | None, timestamp: int) -> bytearray:
    """The same batch as `seal_rows` gives for one row without headers: what coordinators write most of the time."""
    small, numbers = _SMALL, _VARINTS
    size = len(key)
    key_size = numbers[size] if size < small else varint(size)
    if value is None:
        value_size, value = NULL, b""
    else:
        size = len(value)
        value_size = numbers[size] if size < small else varint(size)
    body = b"".join((_FIRST, key_size, key, value_size, value, _NO_HEADERS))
    size = len(body)
    length = numbers[size] if size < small else varint(size)
    head = pack_header_values(
        *(0, HEADER_SIZE - LOG_OVERHEAD + len(length) + size, NO_LEADER_EPOCH, MAGIC, 0, Codec.NONE, 0),
        *(timestamp, timestamp, NO_PRODUCER_ID, NO_PRODUCER_EPOCH, NO_SEQUENCE, 1),
    )
    batch = bytearray(b"".join((head, length, body)))
    write_crc(batch, 0, len(batch))
    return batch


def seal(
    payload: Payload,
    *,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    transactional: bool = False,
) -> bytearray:
    """A batch of the records that are encoded already."""
    data, count, max_timestamp, _, timestamps, attributes = payload
    if transactional:
        attributes |= TRANSACTIONAL_FLAG
    batch = bytearray(
        pack_header_values(
            *(0, HEADER_SIZE - LOG_OVERHEAD + len(data), NO_LEADER_EPOCH, MAGIC, 0, attributes, count - 1),
            *(timestamps[0], max_timestamp, producer_id, producer_epoch, base_sequence, count),
        )
    )
    batch += data
    write_crc(batch, 0, len(batch))
    return batch


def _encode_headers(headers: Headers) -> bytes:
    pieces = [varint(len(headers))]
    for name, content in headers:
        encoded = name.encode()
        pieces += (varint(len(encoded)), encoded)
        pieces += (NULL,) if content is None else (varint(len(content)), content)
    return b"".join(pieces)
