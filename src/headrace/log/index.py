"""The two sparse indexes of a segment, by offset (`.index`) and by time (`.timeindex`), in Kafka's format and rules.

    .index      8 bytes   int32 last offset of a batch, minus the base offset · int32 where that batch begins
    .timeindex  12 bytes  int64 the largest timestamp so far · int32 last offset of the batch with it, minus the base

An entry is due for the first batch that begins more than `index.interval.bytes` after the last indexed one. So the log
has to be scanned for about 4 KB at most from where an index points. Each offset entry brings a time entry if the
largest timestamp has grown; one more is added when the segment is closed, so that its last entry tells the largest.

Both live in memory as arrays in the machine's byte order, and go to their file as a whole when the segment is sealed or
closed. A crash therefore costs the indexes of the segments that recovery has to scan anyway, and it rebuilds them.
Files are written at their exact size; those of Apache Kafka may be preallocated, with zeros behind the last entry.
"""

import sys
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from struct import Struct
from typing import Final, NamedTuple

from headrace.log.errors import CorruptIndexError

OFFSET_ENTRY_SIZE: Final = 8
TIME_ENTRY_SIZE: Final = 12
MAX_RELATIVE_OFFSET: Final = 0x7FFFFFFF

_POSITION_MASK: Final = 0xFFFFFFFF
_OFFSET_ENTRY: Final = Struct(">II")
_TIME_ENTRY: Final = Struct(">qi")
_NO_TIMESTAMP: Final = -1


class OffsetEntry(NamedTuple):
    offset: int  # the last one of the batch
    position: int  # where the batch begins


def unpack_offset_entry(data: bytes, base_offset: int) -> OffsetEntry:
    relative_offset, position = _OFFSET_ENTRY.unpack(data)
    return OffsetEntry(base_offset + relative_offset, position)


class OffsetIndex:
    """Invariant: offsets and positions both grow strictly.

    An entry is one 64-bit number, relative offset above position: numbers then sort like offsets, and like positions.
    """

    __slots__ = ("_entries", "base_offset", "last_position")

    def __init__(self, base_offset: int) -> None:
        self.base_offset = base_offset
        self.last_position = 0  # of the last indexed batch; the first batch needs no entry
        self._entries = array("Q")

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[OffsetEntry]:
        return map(self.__getitem__, range(len(self)))

    def __getitem__(self, index: int) -> OffsetEntry:
        entry = self._entries[index]
        return OffsetEntry(self.base_offset + (entry >> 32), entry & _POSITION_MASK)

    def append(self, offset: int, position: int) -> None:
        self._entries.append(offset - self.base_offset << 32 | position)
        self.last_position = position

    def find(self, offset: int) -> OffsetEntry | None:
        """The last indexed batch that ends at or before `offset`; None if the search has to begin at the first."""
        index = bisect_right(self._entries, offset - self.base_offset << 32 | _POSITION_MASK)
        return self[index - 1] if index else None

    def find_position(self, position: int) -> OffsetEntry | None:
        """The last indexed batch that begins at or before `position`."""
        index = bisect_right(self._entries, position, key=_position_of)
        return self[index - 1] if index else None

    def truncate(self, offset: int) -> None:
        """Drop the entries of batches that end at `offset` or later."""
        del self._entries[bisect_left(self._entries, max(offset - self.base_offset, 0) << 32) :]
        self.last_position = self._entries[-1] & _POSITION_MASK if self._entries else 0

    def to_bytes(self) -> bytes:
        return _big_endian(self._entries).tobytes()

    @classmethod
    def from_bytes(cls, data: bytes, base_offset: int, *, log_size: int) -> "OffsetIndex":
        """Raises CorruptIndexError when the entries cannot belong to a log of `log_size` bytes."""
        data = _without_padding(data, OFFSET_ENTRY_SIZE)
        entries = array("Q")
        entries.frombytes(data)
        index = cls(base_offset)
        index._entries = _big_endian(entries)
        if entries:
            last_offset, last_position = index[-1]
            index.last_position = last_position
            if last_position >= log_size or last_offset - base_offset > MAX_RELATIVE_OFFSET:
                raise CorruptIndexError(
                    f"last entry: offset {last_offset} at byte {last_position} of a log of {log_size} bytes"
                )
            if index[0].offset > last_offset or index[0].position > last_position:
                raise CorruptIndexError(f"entries go back from {index[0]} to {index[-1]}")
        return index


class TimeEntry(NamedTuple):
    timestamp: int
    offset: int  # the last one of the batch that has the timestamp


def unpack_time_entry(data: bytes, base_offset: int) -> TimeEntry:
    timestamp, relative_offset = _TIME_ENTRY.unpack(data)
    return TimeEntry(timestamp, base_offset + relative_offset)


class TimeIndex:
    """Invariant: timestamps and offsets both grow strictly.

    Entries become bytes, and bytes entries, in steps that take all of them at once: one by one it would be 40 ms for a
    full segment, and all requests wait.
    """

    __slots__ = ("_offsets", "_timestamps", "base_offset", "last_timestamp")

    def __init__(self, base_offset: int) -> None:
        self.base_offset = base_offset
        self.last_timestamp = _NO_TIMESTAMP
        self._timestamps = array("q")
        self._offsets = array("I")  # relative

    def __len__(self) -> int:
        return len(self._timestamps)

    def __iter__(self) -> Iterator[TimeEntry]:
        return map(self.__getitem__, range(len(self)))

    def __getitem__(self, index: int) -> TimeEntry:
        return TimeEntry(self._timestamps[index], self.base_offset + self._offsets[index])

    @property
    def last(self) -> TimeEntry:
        """The largest timestamp, and who has it; (-1, base offset) when there is none."""
        return self[-1] if self._timestamps else TimeEntry(_NO_TIMESTAMP, self.base_offset)

    def append(self, timestamp: int, offset: int) -> None:
        """Add an entry, unless the timestamp has not grown."""
        if timestamp > self.last_timestamp:
            self.last_timestamp = timestamp
            self._timestamps.append(timestamp)
            self._offsets.append(offset - self.base_offset)

    def find(self, timestamp: int) -> int:
        """Every record before the offset returned is older than `timestamp`."""
        index = bisect_left(self._timestamps, timestamp)
        return self.base_offset + self._offsets[index - 1] if index else self.base_offset

    def truncate(self, offset: int) -> None:
        """Drop the entries at `offset` or later."""
        keep = bisect_left(self._offsets, max(offset - self.base_offset, 0))
        del self._timestamps[keep:]
        del self._offsets[keep:]
        self.last_timestamp = self.last.timestamp

    def to_bytes(self) -> bytes:
        words = array("I", bytes(TIME_ENTRY_SIZE * len(self)))
        halves = memoryview(_big_endian(self._timestamps)).cast("B").cast("I")
        entries = memoryview(words)
        entries[0::3], entries[1::3], entries[2::3] = halves[0::2], halves[1::2], memoryview(_big_endian(self._offsets))
        return words.tobytes()

    @classmethod
    def from_bytes(cls, data: bytes, base_offset: int) -> "TimeIndex":
        """Raises CorruptIndexError when the entries cannot be what they must be."""
        data = _without_padding(data, TIME_ENTRY_SIZE)
        words = array("I", data)
        timestamps = array("q", [0]) * (len(data) // TIME_ENTRY_SIZE)
        halves = memoryview(timestamps).cast("B").cast("I")
        halves[0::2], halves[1::2] = memoryview(words)[0::3], memoryview(words)[1::3]
        offsets = words[2::3]
        if not offsets.tobytes()[:: offsets.itemsize].isascii():  # the first bytes of all: one has its sign bit
            timestamp, relative = next(entry for entry in _TIME_ENTRY.iter_unpack(data) if entry[1] < 0)
            raise CorruptIndexError(f"timestamp {timestamp} at relative offset {relative}")
        index = cls(base_offset)
        index._timestamps, index._offsets = _big_endian(timestamps), _big_endian(offsets)
        index.last_timestamp = index.last.timestamp
        if len(index):
            first, last = index[0], index[-1]
            if first.timestamp > last.timestamp or first.offset > last.offset:
                raise CorruptIndexError(f"entries go back from {first} to {last}")
            if first.timestamp < 0:
                raise CorruptIndexError(f"{first}: records without a timestamp have no entry")
        return index


def _position_of(entry: int) -> int:
    return entry & _POSITION_MASK


def _big_endian(entries: "array[int]") -> "array[int]":
    if sys.byteorder == "big":
        return entries
    swapped = entries[:]
    swapped.byteswap()
    return swapped


def _without_padding(data: bytes, entry_size: int) -> bytes:
    """The entries without the zeros of a preallocated file.

    Only a first entry can be all zeros (time 0 at offset 0), and no file was ever preallocated for one entry.
    """
    if len(data) % entry_size:
        raise CorruptIndexError(f"{len(data)} bytes, not a multiple of {entry_size}")
    if len(data) <= entry_size or data[-entry_size:].strip(b"\0"):
        return data
    used = len(data.rstrip(b"\0"))
    return data[: -(-used // entry_size) * entry_size]
