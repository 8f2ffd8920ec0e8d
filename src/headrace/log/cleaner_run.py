"""One round of compaction, as data: everything that it needs, and nothing that the loop still changes.

A round reads sealed segments only. It first maps the keys of the dirty part to their newest offsets, then writes each
group of segments anew without what is superseded, as one segment in the stage `.cleaned`, synced. Nothing of the log
has changed until the loop thread swaps the outcome in; whatever interrupts a round costs the round and nothing else.

A round is throttled: after each slice of work it calls `pause` with the seconds that this slice is worth at
`bytes_per_second`. Without a limit it still pauses for 0 seconds: in a thread, others may have their turn; a
process of its own looks whether the broker is still there (`cleaner_child`).
"""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

from headrace.log.aborted import AbortedIndex, AbortedTxn
from headrace.log.checkpoints import TopicPartition
from headrace.log.cleaner_filter import BatchFilter, LastWord
from headrace.log.cleaner_keys import NewestOffsets
from headrace.log.cleaner_transactions import DecidedTransactions
from headrace.log.config import LogConfig
from headrace.log.errors import is_passing
from headrace.log.fs import FileSystem, sync_file
from headrace.log.index import MAX_RELATIVE_OFFSET, TIME_ENTRY_SIZE
from headrace.log.names import CLEANED, SEGMENT_SUFFIXES, SWAP, parse_file_name
from headrace.log.open_files import OpenFiles
from headrace.log.scan import verified_batches
from headrace.log.segment import Segment
from headrace.protocol.batch import BatchHeader, read_header
from headrace.protocol.errors import CorruptBatchError
from headrace.protocol.records import read_records

Pause: TypeAlias = Callable[[float], None]  # for so many seconds

SLICE_BYTES: Final = 64 << 10  # about a millisecond of work, which is what others may have to wait for


@dataclass(frozen=True, slots=True)
class CleanerLimits:
    # Kafka's log.cleaner.dedupe.buffer.size: bounds the map of keys of one round, and with it how far a round gets.
    dedupe_buffer_bytes: int = 128 << 20
    # Kafka's log.cleaner.io.max.bytes.per.second, read and written together; None is no limit.
    bytes_per_second: float | None = None


class Source(NamedTuple):
    """A sealed segment."""

    base_offset: int
    end_offset: int  # the base offset of the next one
    size_bytes: int
    path: str


class CleanedGroup(NamedTuple):
    """Sources that became one segment, which waits in the stage `.cleaned` under the base offset of the first."""

    sources: tuple[Source, ...]
    size_bytes: int

    @property
    def base_offset(self) -> int:
        return self.sources[0].base_offset


class CleaningOutcome(NamedTuple):
    groups: tuple[CleanedGroup, ...]
    end_offset: int  # everything below has been looked at; the next round begins there
    bytes_moved: int  # read and written
    failure: str | None = None  # why nothing was cleaned: the data or the disk is damaged
    abandoned: bool = False  # nothing was cleaned, since a segment went away meanwhile, or for lack of room
    no_room: str | None = None  # what there was no room for


class Throttle:
    __slots__ = ("_bytes_per_second", "_pause", "_slice", "total_bytes")

    def __init__(self, bytes_per_second: float | None, pause: Pause) -> None:
        self._bytes_per_second = bytes_per_second
        self._pause = pause
        self._slice = 0
        self.total_bytes = 0

    def spend(self, size_bytes: int) -> None:
        self.total_bytes += size_bytes
        self._slice += size_bytes
        if self._slice >= SLICE_BYTES:
            self._pause(self._slice / self._bytes_per_second if self._bytes_per_second else 0.0)
            self._slice = 0


@dataclass(frozen=True, slots=True, eq=False)
class CleaningPlan:
    partition: TopicPartition
    fs: FileSystem
    directory: str
    config: LogConfig
    limits: CleanerLimits
    sources: tuple[Source, ...]  # all segments from the first on that may be cleaned
    first_dirty_offset: int
    aborted: tuple[AbortedTxn, ...]  # all that overlap the sources, wherever their marker stands
    producers: dict[int, LastWord]
    now_ms: int

    def run(self, pause: Pause) -> CleaningOutcome:
        """In any process. Raises nothing that the data or the disk can cause: that is part of the outcome."""
        throttle = Throttle(self.limits.bytes_per_second, pause)
        try:
            self._remove_leftovers()
            newest = self._map_keys(throttle)
            cleaning = BatchFilter(
                newest=newest,
                transactions=DecidedTransactions(self.aborted),
                producers=self.producers,
                delete_retention_ms=self.config.delete_retention_ms,
                now_ms=self.now_ms,
            )
            groups = tuple(
                CleanedGroup(group, self._clean(group, cleaning, throttle))
                for group in group_sources(self.sources, self.config, below=newest.end_offset)
            )
            self.fs.sync_dir(self.directory)
        except FileNotFoundError:
            self.discard()
            return CleaningOutcome((), self.first_dirty_offset, throttle.total_bytes, abandoned=True)
        except (OSError, CorruptBatchError) as error:
            self.discard()
            if is_passing(error):
                nothing = CleaningOutcome((), self.first_dirty_offset, throttle.total_bytes, abandoned=True)
                return nothing._replace(no_room=str(error))
            return CleaningOutcome((), self.first_dirty_offset, throttle.total_bytes, failure=str(error))
        return CleaningOutcome(groups, newest.end_offset, throttle.total_bytes)

    def _map_keys(self, throttle: Throttle) -> NewestOffsets:
        start = self.first_dirty_offset
        newest = NewestOffsets(start_offset=start, limit_bytes=self.limits.dedupe_buffer_bytes)
        transactions = DecidedTransactions(self.aborted)
        for source in self.sources:
            if source.end_offset <= start:
                continue
            for header, batch, _ in self._batches(source, throttle):
                if header.last_offset < start or header.is_control:
                    continue
                if not transactions.is_aborted(header):
                    if not newest.has_room_for(header.record_count):
                        return newest
                    for record in read_records(batch):
                        if record.key is not None:
                            newest.put(record.key, record.offset)
                newest.end_offset = header.next_offset
            newest.end_offset = source.end_offset  # beyond a gap that an earlier round has left
        return newest

    def _clean(self, group: tuple[Source, ...], cleaning: BatchFilter, throttle: Throttle) -> int:
        """Write what is left of the group into one segment in the stage `.cleaned`. How many bytes that is."""
        segment = Segment.create(
            self.fs,
            self.directory,
            group[0].base_offset,
            self.config,
            open_files=OpenFiles(limit=1),
            now_ms=self.now_ms,
            stage=CLEANED,
        )
        cleaning.aborted = []
        # The swap believes the new segment about how far it goes, so it must go as far as the old ones did.
        last_source = next((source for source in reversed(group) if source.size_bytes), None)
        for source in group:
            for header, batch, is_last in self._batches(source, throttle):
                left = cleaning.clean(batch, header, keep_header=is_last and source is last_source)
                if left is not None:
                    max_timestamp = read_header(left).max_timestamp
                    segment.append(left, last_offset=header.last_offset, max_timestamp=max_timestamp)
                    throttle.spend(len(left))
        segment.aborted = AbortedIndex(cleaning.aborted)
        segment.write_indexes()
        segment.close()
        for suffix in SEGMENT_SUFFIXES:
            sync_file(self.fs, segment.path(suffix))
        return segment.size

    def _batches(self, source: Source, throttle: Throttle) -> Iterator[tuple[BatchHeader, memoryview, bool]]:
        """Header and bytes of each batch, and whether it is the last one. Raises CorruptBatchError."""
        file = self.fs.open(source.path, read_only=True)
        end = 0
        for position, header, batch in verified_batches(file, 0, source.size_bytes):
            end = position + header.size_bytes
            yield header, batch, end == source.size_bytes
            throttle.spend(header.size_bytes)
        if end != source.size_bytes:
            raise CorruptBatchError(f"{source.path}: no valid batch at byte {end} of {source.size_bytes}")

    def _remove_leftovers(self) -> None:
        """What a round before has left: to an interrupted swap it would mean that the swap had not yet begun.

        What is in `.swap` goes first: only what is in `.cleaned` tells that it was given up.
        """
        names = self.fs.list_dir(self.directory)
        for stage in (SWAP, CLEANED):
            left_over = [name for name in names if (file := parse_file_name(name)) is not None and file.stage == stage]
            for name in left_over:
                self.fs.remove(f"{self.directory}/{name}")
            if left_over and stage == SWAP:
                self.fs.sync_dir(self.directory)

    def discard(self) -> None:
        """Remove what a round has written and nobody will use. What cannot be removed now, the next round removes."""
        with contextlib.suppress(OSError):
            self._remove_leftovers()


def group_sources(sources: tuple[Source, ...], config: LogConfig, *, below: int) -> Iterator[tuple[Source, ...]]:
    """Neighbours that fit into one segment even if nothing goes, so that what cleaning leaves does not stay in crumbs.

    Only the sources that begin below `below`.
    """
    group: list[Source] = []
    size_bytes = 0
    for source in sources:
        if source.base_offset >= below:
            break
        if group and not _fits(group[0], source, size_bytes + source.size_bytes, config):
            yield tuple(group)
            group, size_bytes = [], 0
        group.append(source)
        size_bytes += source.size_bytes
    if group:
        yield tuple(group)


def _fits(first: Source, last: Source, size_bytes: int, config: LogConfig) -> bool:
    # Index entries are more than an interval apart, whatever happens to the batches, so this bounds their number.
    index_entries = size_bytes // max(config.index_interval_bytes, 1) + 1
    return (
        size_bytes <= config.segment_bytes
        and index_entries * TIME_ENTRY_SIZE <= config.segment_index_bytes
        and last.end_offset - first.base_offset <= MAX_RELATIVE_OFFSET - config.index_interval_bytes
    )
