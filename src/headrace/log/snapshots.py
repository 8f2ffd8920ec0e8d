"""Producer snapshots: the bytes of a `.snapshot` file, format version 1, as Kafka writes and reads them.

    int16 version 1 · uint32 CRC-32C of everything after it · int32 count · count entries of 46 bytes

A snapshot is the state of all producers at an offset (exclusive), which is its file name; it spares a scan of the
log. Kafka's has one entry for each producer, with the last batch. A client may have five on their way, and after a
restart it sends again those whose answers it has not seen; all but the last would look as if one before them were
missing, and retention or compaction may have taken them from the log. So ours has an entry for each of the last five,
the newest behind the others: Kafka believes the last entry of a producer, and finds what it would have written.

A snapshot that is damaged is worth nothing but costs nothing either: the caller deletes it and scans from an older one.
"""

from collections.abc import Iterable
from struct import Struct
from typing import Final, NamedTuple

from fastcrc.crc32 import iscsi as crc32c

from headrace.log.errors import CorruptSnapshotError

VERSION: Final = 1
NO_OFFSET: Final = -1

_HEAD: Final = Struct(">hIi")
_COUNT: Final = Struct(">i")
_ENTRY: Final = Struct(">qhiqiqiq")
_CRC_START: Final = 6  # the CRC covers the count and the entries


class SnapshotEntry(NamedTuple):
    """One batch of a producer as its snapshot keeps it, and, if it is the last one, the producer."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_offset: int  # of its last batch with data; -1 when there is none since its epoch began
    offset_delta: int  # last offset minus first offset of that batch
    timestamp: int
    coordinator_epoch: int
    transaction_first_offset: int  # -1 when no transaction is open


def pack_snapshot(entries: Iterable[SnapshotEntry]) -> bytes:
    rows = [_ENTRY.pack(*entry) for entry in entries]
    body = _COUNT.pack(len(rows)) + b"".join(rows)
    return _HEAD.pack(VERSION, crc32c(body), len(rows)) + body[_COUNT.size :]


def unpack_snapshot(data: bytes) -> list[SnapshotEntry]:
    """Raises CorruptSnapshotError when version, CRC or length are not what they must be."""
    if len(data) < _HEAD.size:
        raise CorruptSnapshotError(f"{len(data)} bytes, its head alone has {_HEAD.size}")
    version, crc, count = _HEAD.unpack_from(data)
    if version != VERSION:
        raise CorruptSnapshotError(f"version {version}, only {VERSION} is known")
    actual = crc32c(memoryview(data)[_CRC_START:])
    if actual != crc:
        raise CorruptSnapshotError(f"CRC {actual:#010x} of its content, its head says {crc:#010x}")
    if len(data) != _HEAD.size + count * _ENTRY.size:
        raise CorruptSnapshotError(f"{len(data) - _HEAD.size} bytes of entries, which should be {count}")
    return [SnapshotEntry._make(row) for row in _ENTRY.iter_unpack(memoryview(data)[_HEAD.size :])]
