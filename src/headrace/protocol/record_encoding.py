"""New records become a batch: one loop for all of them, since each costs what the loop costs.

For those who write batches all day, producers and coordinators. `records.py` does the same for one record after the
other, with names for everything, and is the judge in the tests.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple, TypeAlias

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
_NO_HEADERS: Final = varint(0)
# A record's own frame: its length, attributes, deltas and the lengths of key, value and headers, at their longest.
OVERHEAD_BYTES: Final = 5 + 1 + 10 + 5 + 5 + 5 + 5
HEADER_OVERHEAD_BYTES: Final = 10


class Payload(NamedTuple):
    """The records of a batch as bytes, and what its header says of them."""

    data: bytes
    base_timestamp: int
    max_timestamp: int


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
    """All rows, at consecutive offsets."""
    small = _SMALL
    numbers = _VARINTS
    base_timestamp = rows[0][2]
    max_timestamp = base_timestamp
    pieces: list[bytes] = []
    add = pieces.append
    for delta, (key, value, timestamp, headers) in enumerate(rows):
        if timestamp > max_timestamp:
            max_timestamp = timestamp
        later = timestamp - base_timestamp
        time = numbers[later] if 0 <= later < small else varint(later)
        offset = numbers[delta] if delta < small else varint(delta)
        if key is None:
            key_part = NULL
        else:
            size = len(key)
            key_part = (numbers[size] if size < small else varint(size)) + key
        if value is None:
            value_part = NULL
        else:
            size = len(value)
            value_part = (numbers[size] if size < small else varint(size)) + value
        header_part = _encode_headers(headers) if headers else _NO_HEADERS
        body = b"\0" + time + offset + key_part + value_part + header_part
        size = len(body)
        add(numbers[size] if size < small else varint(size))
        add(body)
    return Payload(b"".join(pieces), base_timestamp, max_timestamp)


def seal_rows(
    rows: Sequence[Row],
    *,
    codec: int = Codec.NONE,
    level: int | None = None,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    transactional: bool = False,
) -> bytearray:
    """The rows as a batch, ready to be sent or appended."""
    data, base_timestamp, max_timestamp = encode_rows(rows)
    attributes = codec
    if codec:
        data = compress(codec, data, level)
    if transactional:
        attributes |= TRANSACTIONAL_FLAG
    count = len(rows)
    batch = bytearray(
        pack_header_values(
            *(0, HEADER_SIZE - LOG_OVERHEAD + len(data), NO_LEADER_EPOCH, MAGIC, 0, attributes, count - 1),
            *(base_timestamp, max_timestamp, producer_id, producer_epoch, base_sequence, count),
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
