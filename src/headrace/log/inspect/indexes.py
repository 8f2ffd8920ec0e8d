"""The binary files beside a segment: offset index, time index, aborted transactions, producer snapshot.

Entries are shown one by one and checked against their neighbours; an offset index is also checked against the segment
beside it, since a wrong entry there makes readers begin in the middle of a batch.
"""

import os
from collections.abc import Iterator
from struct import Struct
from typing import Final

from headrace.log.aborted import ENTRY as ABORTED_ENTRY
from headrace.log.aborted import VERSION as ABORTED_VERSION
from headrace.log.errors import CorruptSnapshotError
from headrace.log.fs import File, FileSystem
from headrace.log.inspect.rows import (
    AbortedRow,
    DamagedFileError,
    OffsetEntryRow,
    PreallocatedRow,
    ProducerRow,
    TimeEntryRow,
)
from headrace.log.names import LOG, OFFSET_INDEX
from headrace.log.snapshots import unpack_snapshot
from headrace.protocol.batch import HEADER_SIZE, read_header

OFFSET_ENTRY: Final = Struct(">ii")  # offset minus base offset, position
TIME_ENTRY: Final = Struct(">qi")  # timestamp, offset minus base offset
_CHUNK_ENTRIES: Final = 4096


def read_offset_index(fs: FileSystem, path: str) -> Iterator[OffsetEntryRow | PreallocatedRow]:
    """The entries of an `.index`. Raises DamagedFileError."""
    base_offset = base_offset_of(path)
    segment = _segment_of(fs, path)
    previous = OffsetEntryRow(base_offset - 1, -1)
    try:
        for position, (relative, place) in _entries(fs, path, OFFSET_ENTRY):
            if not relative and not place and (zeros := _preallocated(fs, path, position, OFFSET_ENTRY.size)):
                yield zeros
                return
            entry = OffsetEntryRow(base_offset + relative, place)
            if entry.offset <= previous.offset or entry.position <= previous.position:
                reason = (
                    f"offset {entry.offset} at byte {place} follows offset {previous.offset} at {previous.position}"
                )
                raise DamagedFileError(path, reason, position=position)
            yield entry
            if segment is not None:
                _check_target(segment, path, entry, position)
            previous = entry
    finally:
        if segment is not None:
            segment.close()


def _segment_of(fs: FileSystem, path: str) -> File | None:
    """The segment beside an index, if there is one. The index of a replaced segment (`.index.deleted`) has none: the
    segment of that base offset is another one by now."""
    segment_path = path.removesuffix(OFFSET_INDEX) + LOG
    return fs.open(segment_path, read_only=True) if fs.exists(segment_path) else None


def _check_target(segment: File, path: str, entry: OffsetEntryRow, position: int) -> None:
    head = segment.read(entry.position, HEADER_SIZE)
    if len(head) < HEADER_SIZE:
        reason = f"it points to byte {entry.position} of a segment that has {segment.size} bytes"
        raise DamagedFileError(path, reason, position=position)
    last_offset = read_header(head).last_offset
    if last_offset != entry.offset:
        reason = f"no batch that ends with offset {entry.offset} begins at byte {entry.position} of the segment"
        raise DamagedFileError(path, reason, position=position)


def read_time_index(fs: FileSystem, path: str) -> Iterator[TimeEntryRow | PreallocatedRow]:
    """The entries of a `.timeindex`. Raises DamagedFileError."""
    base_offset = base_offset_of(path)
    previous = TimeEntryRow(-1, base_offset - 1)
    for position, (timestamp, relative) in _entries(fs, path, TIME_ENTRY):
        if not timestamp and not relative and (zeros := _preallocated(fs, path, position, TIME_ENTRY.size)):
            yield zeros
            return
        entry = TimeEntryRow(timestamp, base_offset + relative)
        if entry.timestamp <= previous.timestamp or entry.offset <= previous.offset:
            reason = f"time {timestamp} of offset {entry.offset} follows time {previous.timestamp} of {previous.offset}"
            raise DamagedFileError(path, reason, position=position)
        yield entry
        previous = entry


def read_aborted(fs: FileSystem, path: str) -> Iterator[AbortedRow]:
    """The entries of a `.txnindex`. Raises DamagedFileError."""
    previous = base_offset_of(path) - 1
    for position, (version, *fields) in _entries(fs, path, ABORTED_ENTRY):
        if version != ABORTED_VERSION:
            raise DamagedFileError(path, f"version {version}, only {ABORTED_VERSION} is known", position=position)
        entry = AbortedRow(*fields)
        if entry.last_offset <= previous or entry.first_offset > entry.last_offset:
            reason = f"offsets {entry.first_offset} to {entry.last_offset} follow a marker at {previous}"
            raise DamagedFileError(path, reason, position=position)
        yield entry
        previous = entry.last_offset


def read_producers(fs: FileSystem, path: str) -> Iterator[ProducerRow]:
    """The entries of a `.snapshot`. Raises DamagedFileError."""
    try:
        entries = unpack_snapshot(fs.read_bytes(path))
    except CorruptSnapshotError as error:
        raise DamagedFileError(path, str(error), position=0) from None
    for entry in entries:
        yield ProducerRow(*entry)


def base_offset_of(path: str) -> int:
    """The offset in a file's name; 0 where a file was renamed to something else."""
    digits = os.path.basename(path).partition(".")[0]
    return int(digits) if digits.isascii() and digits.isdecimal() else 0


def _entries(fs: FileSystem, path: str, layout: Struct) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Position and fields of each entry, read in chunks."""
    file = fs.open(path, read_only=True)
    try:
        whole = file.size - file.size % layout.size
        for start in range(0, whole, _CHUNK_ENTRIES * layout.size):
            chunk = file.read(start, min(_CHUNK_ENTRIES * layout.size, whole - start))
            for number, fields in enumerate(layout.iter_unpack(chunk)):
                yield start + number * layout.size, fields
        if whole != file.size:
            reason = f"{file.size - whole} bytes left, an entry has {layout.size}"
            raise DamagedFileError(path, reason, position=whole)
    finally:
        file.close()


def _preallocated(fs: FileSystem, path: str, position: int, entry_size: int) -> PreallocatedRow | None:
    """The zero bytes from `position` to the end of the file. None if a first entry just is zero, which one may be.

    Raises DamagedFileError for an entry behind the zeros of a later one: nobody wrote it there on purpose.
    """
    file = fs.open(path, read_only=True)
    try:
        if file.size <= entry_size:
            return None
        for start in range(position, file.size, 1 << 20):
            chunk = file.read(start, 1 << 20)
            if chunk.count(0) != len(chunk):
                if not position:
                    return None
                first = start + len(chunk) - len(chunk.lstrip(b"\0"))
                raise DamagedFileError(path, "an entry after zero bytes", position=first)
        return PreallocatedRow(position, file.size - position)
    finally:
        file.close()
