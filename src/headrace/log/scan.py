"""Walks over the batches of a log file: by their headers alone, or with every byte verified."""

from collections.abc import Iterator
from struct import Struct
from typing import Final, TypeAlias

from headrace.log.fs import File
from headrace.protocol.batch import HEADER_SIZE, LOG_OVERHEAD, MAGIC, BatchHeader, unpack_header, verify
from headrace.protocol.errors import CorruptBatchError

RawHeader: TypeAlias = tuple[int, ...]  # in the order of BatchHeader
Place: TypeAlias = tuple[int, int, int, int]  # of a batch: its position and size, its first and last offset

# What one read fetches. An index points to within 4 KB of what is searched, so a look-up takes one read.
LOOKUP_BYTES: Final = 8 << 10
SCAN_BYTES: Final = 256 << 10

_PLACE: Final = Struct(">qi11xi")  # base offset, batch length, last offset delta
_PLACE_SIZE: Final = _PLACE.size


def places(file: File, start: int, end: int, until: int | None = None) -> Iterator[Place]:
    """Each batch in start..end. Raises CorruptBatchError where no batch can be.

    Whoever looks for the first one that begins at `until` or later may say so: nothing behind its header is read.
    """
    unpack, position = _PLACE.unpack_from, start
    if until is None:
        until = end
    while position < end:
        chunk = file.read(position, min(LOOKUP_BYTES, max(until - position, 0) + _PLACE_SIZE, end - position))
        at, last_start = 0, len(chunk) - _PLACE_SIZE
        if last_start < 0:
            raise _no_batch(file, position)
        while at <= last_start:
            base_offset, length, last_offset_delta = unpack(chunk, at)
            size = length + LOG_OVERHEAD
            if size < HEADER_SIZE or position + size > end:
                raise _no_batch(file, position)
            yield position, size, base_offset, base_offset + last_offset_delta
            at += size
            position += size


def headers(file: File, start: int, end: int, *, read_bytes: int = SCAN_BYTES) -> Iterator[tuple[int, RawHeader]]:
    """(position, header) of each batch in start..end. Raises CorruptBatchError where no batch can be."""
    position = start
    while position < end:
        chunk = file.read(position, min(read_bytes, end - position))
        at, last_start = 0, len(chunk) - HEADER_SIZE
        if last_start < 0:
            raise _no_batch(file, position)
        while at <= last_start:
            header = unpack_header(chunk, at)
            size = header[1] + LOG_OVERHEAD
            if size < HEADER_SIZE or position + size > end or header[3] != MAGIC:
                raise _no_batch(file, position)
            yield position, header
            at += size
            position += size


def _no_batch(file: File, position: int) -> CorruptBatchError:
    return CorruptBatchError(f"{file.path}: no whole batch at byte {position}. The file was changed or damaged.")


def verified_batches(file: File, start: int, end: int) -> Iterator[tuple[int, BatchHeader, memoryview]]:
    """(position, header, bytes) of each batch in start..end whose CRC holds. Ends before the first that does not."""
    position = start
    while end - position >= HEADER_SIZE:
        chunk = memoryview(file.read(position, min(SCAN_BYTES, end - position)))
        needed = _size_of_first(chunk)
        if needed > end - position:
            return
        if needed > len(chunk):
            chunk = memoryview(file.read(position, needed))
        at = 0
        while len(chunk) - at >= HEADER_SIZE and _size_of_first(chunk[at:]) <= len(chunk) - at:
            try:
                header = verify(chunk, at)
            except CorruptBatchError:
                return
            yield position, header, chunk[at : at + header.size_bytes]
            at += header.size_bytes
            position += header.size_bytes
        if not at:
            return


def _size_of_first(chunk: memoryview) -> int:
    """What the header at the beginning claims; a header that is not all there claims no more than a header."""
    if len(chunk) < HEADER_SIZE:
        return HEADER_SIZE
    return max(HEADER_SIZE, int(unpack_header(chunk)[1]) + LOG_OVERHEAD)
