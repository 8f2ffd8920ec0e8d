"""Aborted transactions of one segment: the content of its `.txnindex` file.

A transaction is recorded in the segment that holds its abort marker. A fetch of committed data gets, beside the
records, the transactions that overlap it, and the client drops their records. One entry has 34 bytes:

    int16 version 0 · int64 producer id · int64 first offset · int64 last offset (marker) · int64 last stable offset

Entries are in the order of their markers. Few logs have any, so the file is made with the first one.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from struct import Struct
from typing import Final, NamedTuple

from headrace.log.errors import CorruptIndexError

VERSION: Final = 0
ENTRY: Final = Struct(">hqqqq")
ENTRY_SIZE: Final = ENTRY.size


class AbortedTxn(NamedTuple):
    producer_id: int
    first_offset: int
    last_offset: int  # of the abort marker
    last_stable_offset: int  # where readers of committed data stood right after the marker

    def pack(self) -> bytes:
        return ENTRY.pack(VERSION, *self)


class AbortedIndex:
    """Invariant: `last_offset` of the entries grows strictly."""

    __slots__ = ("_entries",)

    def __init__(self, entries: Iterable[AbortedTxn] = ()) -> None:
        self._entries: list[AbortedTxn] = []
        for entry in entries:
            self.append(entry)

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[AbortedTxn]:
        return iter(self._entries)

    @property
    def size_bytes(self) -> int:
        return len(self._entries) * ENTRY_SIZE

    def append(self, entry: AbortedTxn) -> None:
        last = self._entries[-1].last_offset if self._entries else -1
        assert entry.last_offset > last, (entry, last)
        self._entries.append(entry)

    def find(self, fetch_offset: int, upper_offset: int) -> tuple[list[AbortedTxn], bool]:
        """The transactions that overlap fetch_offset..upper_offset (exclusive); whether no later segment can have more.

        It cannot once everything below `upper_offset` was decided at a marker of this segment: a transaction that
        ended after that began above.
        """
        found = []
        for entry in self._entries[bisect_left(self._entries, fetch_offset, key=_last_offset_of) :]:
            if entry.first_offset < upper_offset:
                found.append(entry)
            if entry.last_stable_offset >= upper_offset:
                return found, True
        return found, False

    def truncate(self, offset: int) -> int:
        """Drop the transactions whose marker stands at `offset` or later. The bytes that the file keeps."""
        del self._entries[bisect_left(self._entries, offset, key=_last_offset_of) :]
        return self.size_bytes

    def to_bytes(self) -> bytes:
        return b"".join(entry.pack() for entry in self._entries)

    @classmethod
    def from_bytes(cls, data: bytes, *, base_offset: int) -> "AbortedIndex":
        """Raises CorruptIndexError, upon which the caller rebuilds the index from the log."""
        if len(data) % ENTRY_SIZE:
            raise CorruptIndexError(f"{len(data)} bytes of aborted transactions, not a multiple of {ENTRY_SIZE}")
        index = cls()
        last = base_offset - 1
        for number, (version, *fields) in enumerate(ENTRY.iter_unpack(data)):
            entry = AbortedTxn(*fields)
            if version != VERSION:
                raise CorruptIndexError(f"version {version} of aborted transaction {number}, only {VERSION} is known")
            if entry.last_offset <= last or entry.first_offset > entry.last_offset:
                raise CorruptIndexError(
                    f"aborted transaction {number} at offsets {entry.first_offset} to {entry.last_offset}, "
                    f"its marker must be above {last}"
                )
            index.append(entry)
            last = entry.last_offset
        return index


def _last_offset_of(entry: AbortedTxn) -> int:
    return entry.last_offset
