"""The record batch, format v2: its 61-byte header, its CRC, and the two fields that a broker stamps.

A broker reads nothing else of what producers send. The CRC covers everything from the attributes on, so base offset and
leader epoch can be stamped into the received bytes without touching it (docs/adr/0003-records-stay-opaque.md).
"""

from struct import Struct
from typing import Final, NamedTuple, TypeAlias

from fastcrc.crc32 import iscsi as crc32c

from headrace.protocol.errors import CorruptBatchError

Buffer: TypeAlias = bytes | bytearray | memoryview

MAGIC: Final = 2
HEADER_SIZE: Final = 61
LOG_OVERHEAD: Final = 12  # base offset and batch length: what the batch length does not count
CRC_START: Final = 21  # the CRC covers everything from the attributes on
NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
NO_SEQUENCE: Final = -1
NO_LEADER_EPOCH: Final = -1
NO_TIMESTAMP: Final = -1
MIN_INT64: Final = -(2**63)
MAX_INT64: Final = 2**63 - 1

CODEC_MASK: Final = 0x07
LOG_APPEND_TIME_FLAG: Final = 0x08
TRANSACTIONAL_FLAG: Final = 0x10
CONTROL_FLAG: Final = 0x20
DELETE_HORIZON_FLAG: Final = 0x40

_HEADER: Final = Struct(">qiibIhiqqqhii")
# The raw values, in the order of BatchHeader, for paths that count nanoseconds.
unpack_header: Final = _HEADER.unpack_from
pack_header_values: Final = _HEADER.pack
_OFFSET: Final = Struct(">q")
_EPOCH: Final = Struct(">i")
_CRC: Final = Struct(">I")


class BatchHeader(NamedTuple):
    """The header as it stands on the wire and on disk."""

    base_offset: int
    batch_length: int  # bytes after this field
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int  # the delete horizon when DELETE_HORIZON_FLAG is set
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size_bytes(self) -> int:
        return LOG_OVERHEAD + self.batch_length

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return (self.base_sequence + self.last_offset_delta) & 0x7FFFFFFF  # sequences wrap to 0 after 2**31 - 1

    @property
    def codec(self) -> int:
        return self.attributes & CODEC_MASK

    @property
    def is_log_append_time(self) -> bool:
        return bool(self.attributes & LOG_APPEND_TIME_FLAG)

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL_FLAG)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL_FLAG)

    @property
    def delete_horizon_ms(self) -> int | None:
        """When tombstones and markers of this batch may go; None while no cleaning has seen it."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON_FLAG else None


def read_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """Read the header at `position` without checking its claims. Raises CorruptBatchError if it is not all there."""
    if len(buffer) - position < HEADER_SIZE:
        raise CorruptBatchError(
            f"{len(buffer) - position} bytes left at byte {position}, a batch header has {HEADER_SIZE}"
        )
    return BatchHeader(*unpack_header(buffer, position))


def check_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """Read the header at `position` and check all that it claims but the CRC. Raises CorruptBatchError."""
    header = read_header(buffer, position)
    if header.magic != MAGIC:
        raise CorruptBatchError(f"magic {header.magic} at byte {position}, only {MAGIC} is known")
    end = position + LOG_OVERHEAD + header.batch_length
    if header.batch_length < HEADER_SIZE - LOG_OVERHEAD or end > len(buffer):
        raise CorruptBatchError(
            f"batch length {header.batch_length} at byte {position}, {len(buffer) - position} bytes are there"
        )
    check_counts(header, position)
    return header


def check_counts(header: BatchHeader, position: int = 0) -> None:
    """Check that the header's offsets and record count can be true together. Raises CorruptBatchError."""
    if header.last_offset_delta < 0 or header.record_count < 0 or header.record_count > header.last_offset_delta + 1:
        raise CorruptBatchError(
            f"{header.record_count} records with last offset delta {header.last_offset_delta} at byte {position}"
        )
    if header.base_offset > MAX_INT64 - header.last_offset_delta:
        raise CorruptBatchError(f"base offset {header.base_offset} at byte {position}, its last offset is out of range")


def check_crc(buffer: Buffer, position: int, header: BatchHeader) -> None:
    """Check the CRC of the batch at `position`, all of which must be there. Raises CorruptBatchError."""
    actual = crc32c(memoryview(buffer)[position + CRC_START : position + header.size_bytes])
    if actual != header.crc:
        raise CorruptBatchError(
            f"CRC {actual:#010x} of the batch at byte {position}, its header says {header.crc:#010x}"
        )


def verify(buffer: Buffer, position: int = 0) -> BatchHeader:
    """Read the header at `position` and check what it claims: length, magic, counts, CRC. Raises CorruptBatchError."""
    header = check_header(buffer, position)
    check_crc(buffer, position, header)
    return header


def stamp(buffer: bytearray | memoryview, position: int, *, base_offset: int, leader_epoch: int) -> None:
    """Give a batch its place in the log: the two fields outside the CRC, in place."""
    _OFFSET.pack_into(buffer, position, base_offset)
    _EPOCH.pack_into(buffer, position + 12, leader_epoch)


def write_crc(buffer: bytearray | memoryview, position: int, end: int) -> None:
    """Compute the CRC of the batch at `position`..`end` anew, after a field that it covers has changed."""
    _CRC.pack_into(buffer, position + 17, crc32c(memoryview(buffer)[position + CRC_START : end]))


def pack_header(header: BatchHeader) -> bytes:
    return _HEADER.pack(*header)
