"""One segment: a file of batches from a base offset on, its indexes, and the ways to find a batch in it.

Everything but the `.log` file is derived from it, is loaded when somebody first needs it, and is rebuilt when it is
missing or cannot be right. A look-up checks the batch that an index points to against the entry, so a damaged index
costs a scan, never a wrong answer.

The last segment of a log is *active*: it alone grows. Its indexes stay in memory until it is sealed (`write_indexes`).
"""

from collections.abc import Iterator
from itertools import chain
from typing import Final, cast

from headrace.log.aborted import AbortedIndex, AbortedTxn
from headrace.log.config import LogConfig
from headrace.log.fs import Buffer, File, FileSystem, RawWriter
from headrace.log.index import (
    MAX_RELATIVE_OFFSET,
    OFFSET_ENTRY_SIZE,
    TIME_ENTRY_SIZE,
    OffsetEntry,
    OffsetIndex,
    TimeIndex,
)
from headrace.log.index_files import read_last_time, read_offsets, read_times
from headrace.log.names import ABORTED_INDEX, LOG, OFFSET_INDEX, TIME_INDEX
from headrace.log.open_files import OpenFiles
from headrace.log.scan import Place, headers, places
from headrace.log.segment_files import SegmentFiles
from headrace.log.slices import EMPTY, LogSlice
from headrace.protocol.batch import NO_TIMESTAMP
from headrace.protocol.errors import CorruptBatchError

NEVER: Final = -1  # as `quiet_until`: every append needs a second look
_NO_WRITER: Final = cast("RawWriter", None)  # while `quiet_until` is NEVER nobody looks at it
_KNOWN_LIMIT: Final = 64  # remembered read positions; as many readers may follow a segment without a search


class Segment:
    """Invariant: `.log` holds whole batches in its first `size` bytes; offsets grow and are not below `base_offset`."""

    __slots__ = (
        "_aborted",
        "_file",
        "_indexes_changed",
        "_known",
        "_offsets",
        "_open_files",
        "_times",
        "account_behind",
        "base_offset",
        "config",
        "created_ms",
        "files",
        "first_timestamp",
        "is_durable",
        "last_room",
        "max_timestamp",
        "max_timestamp_offset",
        "quiet_until",
        "seen_bytes",
        "size",
        "writer",
    )

    def __init__(
        self,
        fs: FileSystem,
        directory: str,
        base_offset: int,
        size: int,
        config: LogConfig,
        *,
        open_files: OpenFiles,
        now_ms: int,
        stage: str = "",
    ) -> None:
        self._open_files = open_files
        self.files = SegmentFiles(fs, directory, base_offset, stage)
        self.base_offset = base_offset
        self.size = size
        self.config = config
        self.created_ms = now_ms
        self.is_durable = False  # synced with all its files, since it was sealed
        self.seen_bytes = size  # for who keeps account of the page cache: up to here it has
        self._file: File | None = None
        self._offsets: OffsetIndex | None = None
        self._times: TimeIndex | None = None
        self._aborted: AbortedIndex | None = None
        self._indexes_changed = False  # memory knows more than the index files
        self._known: dict[int, int] = {}  # offset -> where the first batch at or after it begins
        # Known once `times` is loaded:
        self.first_timestamp = NO_TIMESTAMP  # the largest of the first batch, as Kafka counts a segment's age
        self.max_timestamp = NO_TIMESTAMP
        self.max_timestamp_offset = base_offset  # the last offset of the first batch with it
        # For the log's append: a batch that begins behind the one position must go through `account`; batches that end
        # up to the other one need no roll; the last offset that the indexes can express; the file's raw writer.
        self.account_behind = NEVER
        self.quiet_until = NEVER
        self.last_room = base_offset + MAX_RELATIVE_OFFSET
        self.writer = _NO_WRITER

    @classmethod
    def create(
        cls,
        fs: FileSystem,
        directory: str,
        base_offset: int,
        config: LogConfig,
        *,
        open_files: OpenFiles,
        now_ms: int,
        stage: str = "",
    ) -> "Segment":
        """A new, empty segment. Raises OSError."""
        segment = cls(fs, directory, base_offset, 0, config, open_files=open_files, now_ms=now_ms, stage=stage)
        segment._take_file(segment.files.create_log())
        segment.reset_indexes()
        segment._aborted = AbortedIndex()
        return segment

    def __repr__(self) -> str:
        return f"Segment({self.path(LOG)}, {self.size} bytes)"

    def path(self, suffix: str) -> str:
        return self.files.path(suffix)

    # The file

    @property
    def file(self) -> File:
        if self._file is None:
            self._take_file(self.files.open_log())
        else:
            self._open_files.used(self)
        assert self._file is not None
        return self._file

    def _take_file(self, file: File) -> None:
        self._file = file
        self._open_files.opened(self)

    def drop_file(self) -> None:
        """Forget the open file, and what can be read again from others. Whoever holds a slice keeps the file open."""
        self._file = None
        self.writer = _NO_WRITER
        self.quiet_until = NEVER
        if not self._indexes_changed:
            self._offsets = self._times = self._aborted = None

    def close(self) -> None:
        self._open_files.closed(self)
        self.drop_file()

    # Indexes

    @property
    def offsets(self) -> OffsetIndex:
        if self._offsets is None:
            self._offsets = read_offsets(self.files, log_size=self.size)
            if self._offsets is None:
                self.rebuild_indexes()
            else:
                self._expect_entry(self._offsets)
        assert self._offsets is not None
        return self._offsets

    @property
    def times(self) -> TimeIndex:
        if self._times is None:
            self._times = read_times(self.files)
            if self._times is None:
                self.rebuild_indexes()
            else:
                self.max_timestamp, self.max_timestamp_offset = self._times.last
                self.load_first_timestamp()
        assert self._times is not None
        return self._times

    @property
    def aborted(self) -> AbortedIndex:
        """Raises CorruptIndexError: only who knows the producers before this segment can rebuild it."""
        if self._aborted is None:
            try:
                data = self.files.read(ABORTED_INDEX)
            except FileNotFoundError:
                data = b""
            self._aborted = AbortedIndex.from_bytes(data, base_offset=self.base_offset)
        return self._aborted

    @aborted.setter
    def aborted(self, index: AbortedIndex) -> None:
        self._aborted = index
        self._indexes_changed = True

    @property
    def is_calm(self) -> bool:
        """No transaction was aborted here, and that is known without reading anything."""
        return self._aborted is not None and not self._aborted

    def add_aborted(self, transaction: AbortedTxn) -> None:
        self.aborted.append(transaction)
        self._indexes_changed = True

    @property
    def largest_timestamp(self) -> int:
        """-1 if no batch has one. Who looks for a time asks thousands of segments: the index is not loaded for it."""
        if self._times is None and self.max_timestamp == NO_TIMESTAMP:
            last = read_last_time(self.files)
            if last is None:
                self.load_indexes()
            else:
                self.max_timestamp, self.max_timestamp_offset = last
        return self.max_timestamp

    def load_first_timestamp(self) -> None:
        if self.first_timestamp == NO_TIMESTAMP:
            for _, header in headers(self.file, 0, self.size, read_bytes=64):
                self.first_timestamp = header[8]
                break

    def load_indexes(self) -> None:
        """For appends, which need both."""
        _ = self.offsets, self.times

    def rebuild_indexes(self) -> None:
        """From the headers of all batches."""
        self.reset_indexes()
        for position, header in headers(self.file, 0, self.size):
            self.account(position, header[0] + header[6], header[8])

    def reset_indexes(self) -> None:
        """As for an empty segment."""
        self._offsets = OffsetIndex(self.base_offset)
        self._times = TimeIndex(self.base_offset)
        self.account_behind = NEVER
        self._indexes_changed = True
        self._known.clear()
        self.first_timestamp = self.max_timestamp = NO_TIMESTAMP
        self.max_timestamp_offset = self.base_offset
        self.quiet_until = NEVER

    @property
    def are_indexes_loaded(self) -> bool:
        return self._offsets is not None

    @property
    def is_ahead_of_its_files(self) -> bool:
        """Would a crash now cost the indexes?"""
        return self._indexes_changed

    def write_indexes(self) -> None:
        """All index files, as a whole, with a last time entry. Not synced; a crash before the sync costs a rebuild."""
        self.load_indexes()
        self.times.append(self.max_timestamp, self.max_timestamp_offset)
        if not self._indexes_changed:
            return
        self.files.write(OFFSET_INDEX, self.offsets.to_bytes())
        self.files.write(TIME_INDEX, self.times.to_bytes())
        if self._aborted is not None:
            # Few segments need this file. One that compaction wrote has it in any case: see `swap`.
            if len(self._aborted) or self.files.stage:
                self.files.write(ABORTED_INDEX, self._aborted.to_bytes())
            else:
                self.files.remove(ABORTED_INDEX)
        self._indexes_changed = False
        self.quiet_until = NEVER  # whoever appends after all, as when a roll has failed, must prepare it first

    def sync(self) -> None:
        """The content of all files. Their names are the directory's."""
        self.file.sync()
        self.files.sync_indexes()

    # Appending

    def append(self, data: Buffer, *, last_offset: int, max_timestamp: int) -> None:
        """One batch. Raises OSError, and has then not changed unless the file is `torn`."""
        position = self.size
        self.load_indexes()
        self.file.append(data)
        self.size = position + len(data)
        self.account(position, last_offset, max_timestamp)

    def account(self, position: int, last_offset: int, max_timestamp: int) -> None:
        """Take a batch that stands at `position` into the indexes, by Kafka's rules. They must be loaded."""
        if max_timestamp > self.max_timestamp:
            self.max_timestamp = max_timestamp
            self.max_timestamp_offset = last_offset
        self._indexes_changed = True
        if position <= self.account_behind:
            return
        self.account_behind = position + self.config.index_interval_bytes
        if not position:
            self.first_timestamp = max_timestamp
            return
        offsets, times = self._offsets, self._times
        assert offsets is not None, "indexes are loaded before anything is appended"
        assert times is not None
        offsets.append(last_offset, position)
        if self.max_timestamp > times.last_timestamp:
            times.append(self.max_timestamp, self.max_timestamp_offset)

    def _expect_entry(self, offsets: OffsetIndex) -> None:
        """The first batch needs no entry, but tells the segment's age."""
        self.account_behind = offsets.last_position + self.config.index_interval_bytes if self.size else NEVER

    def prepare_appends(self, size: int, last_offset: int) -> None:
        """Make ready for an append, and for the log's quick path after it: load what it needs, open the file.

        Where somebody has to look again is told in bytes: a batch on the quick path has no more offsets than bytes, and
        between two index entries lie as many bytes as configured.
        """
        self.load_indexes()
        self._indexes_changed = True  # the quick path does not say so
        if self.writer is _NO_WRITER:
            self.writer = self.file.raw_writer()
        else:
            self._open_files.used(self)
        config = self.config
        self.quiet_until = min(
            config.segment_bytes,
            self.size + (self.count_free_entries() - 1) * config.index_interval_bytes,
            self.size + size + self.last_room - last_offset,
        )

    def count_free_entries(self) -> int:
        """Until one of the indexes is full. One slot of the time index is spare, for when the segment is sealed."""
        limit_bytes = self.config.segment_index_bytes
        return min(
            limit_bytes // OFFSET_ENTRY_SIZE - len(self.offsets), limit_bytes // TIME_ENTRY_SIZE - 1 - len(self.times)
        )

    # Finding and reading

    def find(self, offset: int) -> int | None:
        """Where the first batch begins that ends at `offset` or later; None if there is none here."""
        position = self._known.get(offset)
        if position is not None:
            return position
        for position, _, _, last_offset in self.from_entry(self.offsets.find(offset), 0, self.size):
            if last_offset >= offset:
                return position
        return None

    def from_entry(
        self, entry: OffsetEntry | None, start: int, end: int, *, until: int | None = None
    ) -> Iterator[Place]:
        """The batches from an index entry on, or from `start` if it is later. A wrong entry rebuilds the index."""
        if entry is None or entry.position < start:
            return places(self.file, start, end, until)
        batches = places(self.file, entry.position, end, until)
        try:
            first = next(batches, None)
        except CorruptBatchError:
            first = None
        if first is not None and first[3] == entry.offset:
            return chain((first,), batches)
        self.rebuild_indexes()
        return places(self.file, start, end, until)

    def read(self, offset: int, *, max_bytes: int, end_offset: int | None, at_least_one_batch: bool) -> LogSlice | None:
        """Whole batches from the one with `offset` on, below `end_offset` if given; None if there is none here."""
        start = self.find(offset)
        if start is None:
            return None
        end = self.size
        if end_offset is not None:
            found = self.find(end_offset)
            end = end if found is None else found
        if end - start > max_bytes:
            end = self._last_boundary(start, start + max_bytes, end, at_least_one_batch=at_least_one_batch)
        return LogSlice(self.file, start, end - start) if end > start else EMPTY

    def _last_boundary(self, start: int, limit: int, end: int, *, at_least_one_batch: bool) -> int:
        """The last end of a batch in start..limit; the end of the first batch, if that is demanded."""
        boundary, next_offset = start, None
        entry = self.offsets.find_position(limit)
        for position, size, first_offset, last_offset in self.from_entry(entry, start, end, until=limit):
            if position + size > limit and not (at_least_one_batch and position == start):
                boundary, next_offset = position, first_offset
                break
            boundary, next_offset = position + size, last_offset + 1
        if next_offset is not None:
            self.remember(next_offset, boundary)
        return boundary

    def remember(self, offset: int, position: int) -> None:
        """A reader comes back for `offset`: it begins at `position`."""
        if len(self._known) >= _KNOWN_LIMIT:
            self._known.clear()
        self._known[offset] = position

    # Cutting: see `cutting`

    def forget_from(self, offset: int) -> None:
        """The batches that end at `offset` or later were cut off: so are their entries, and what was known of them."""
        self.seen_bytes = min(self.seen_bytes, self.size)
        self.offsets.truncate(offset)
        self._expect_entry(self.offsets)
        self.times.truncate(offset)
        self.aborted.truncate(offset)
        self._indexes_changed = True
        self.is_durable = False
        self._known.clear()
        self.quiet_until = NEVER
        self.max_timestamp, self.max_timestamp_offset = self.times.last
        if not self.size:
            self.first_timestamp = NO_TIMESTAMP
