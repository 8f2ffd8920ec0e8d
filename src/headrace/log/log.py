"""One partition: an ordered row of record batches, in segments on disk.

Theory. Offsets are given in order and never change. Four of them mark the log, each at or below the next:

    log start offset    everything before it is gone for readers, and sooner or later for the disk
    last stable offset  readers of committed data stop here: before the first transaction that is open or not yet safe
    high watermark      readers stop here: enough replicas have everything before it; whoever knows raises it
    log end offset      the offset of the next record

and, on its own, the flushed offset: everything below it survives a power cut. Only `append` at the end, `truncate_to`
from the end and deletion from the start change what the log holds; compaction replaces sealed segments by smaller ones
that mean the same. All other state (indexes, leader epochs, producers, aborted transactions) is derived from the
batches, loaded when needed, and rebuilt when lost (`recovery`).

One thread owns a log. What may block is handed out as data: `plan_flush` and `take_chores` (see `chores`).

When the disk fails
* An append that fails is cut off again: the file ends with the last whole batch, the offsets are not used up, nobody
  has seen anything of it. StorageError; the log goes on, and a retry may succeed, say when there is room again.
* If the cut fails, too, or a sync fails, the file can no longer be trusted to hold what it seems to hold. The log has
  then a `failure`: it refuses every write with a StorageError that says what to do, and still serves all that was
  acknowledged. A sync is never tried a second time. Reopening the log recovers what did reach the disk.
* A roll that fails leaves the log as it was. A read that fails is an error of that read only.

Whoever keeps the recovery point in a checkpoint must write it anew after `open` and after `truncate_to`, before the
next append: it may have gone back, and recovery believes what lies below it.
"""

import contextlib
from collections.abc import Sequence
from struct import Struct
from struct import error as struct_error
from typing import Final

from fastcrc.crc32 import iscsi as crc32c

from headrace.log.aborted import AbortedIndex, AbortedTxn
from headrace.log.append import (
    NO_APPEND_TIME,
    AppendResult,
    Incoming,
    Origin,
    check_continues,
    check_incoming,
    check_size,
    check_timestamp,
    is_append_time,
    may_be_plain,
    place,
    runs_that_fit,
    split,
)
from headrace.log.chores import Chore, FlushPlan, RemoveFiles
from headrace.log.config import LogConfig
from headrace.log.cutting import (
    advance_log_start,
    delete_segments,
    move_start,
    replace_segments,
    truncate_fully_and_start_at,
    truncate_to,
)
from headrace.log.epochs import EpochHistory
from headrace.log.errors import CorruptIndexError, OffsetOutOfRangeError, StorageError
from headrace.log.fs import Buffer, FileSystem
from headrace.log.lookup import TimestampOffset, find_largest_timestamp, find_timestamp
from headrace.log.names import LOG, file_name
from headrace.log.open_files import OpenFiles
from headrace.log.opening import LogParts, open_parts
from headrace.log.producer_history import apply_batch, read_marker, to_aborted
from headrace.log.producers import CachedBatch, ProducerStates
from headrace.log.rolling import must_roll, quiet_timestamp
from headrace.log.segment import NEVER, Segment
from headrace.log.slices import EMPTY, LogSlice
from headrace.protocol.batch import CONTROL_FLAG, CRC_START, LOG_OVERHEAD, MAGIC, NO_PRODUCER_ID, NO_SEQUENCE
from headrace.protocol.errors import CorruptBatchError

_PLAIN: Final = Struct(">8xi4xbIHi8xqq6xi").unpack_from  # what the quick path needs of a header
_STAMP: Final = Struct(">qii").pack_into  # base offset, batch length, leader epoch
_CRC_COVERS: Final = slice(CRC_START, None)
_LAST_CODEC: Final = 4
_NO_EPOCH: Final = -2  # no leader has it
_BEFORE_ALL_TIME: Final = -2
_OWN_OPEN_FILES: Final = 64  # for a log that shares its bound with no other
_CLIENT: Final = Origin.CLIENT


class Log:
    """Invariant: log start <= high watermark <= log end; the segments cover everything from the log start on."""

    __slots__ = (
        "_chores",
        "_epoch",
        "_fs",
        "_has_rolled",
        "_plain_epoch",
        "_quiet_timestamp",
        "active",
        "config",
        "directory",
        "durability",
        "epoch_file",
        "failure",
        "high_watermark",
        "log_end_offset",
        "log_start_offset",
        "producer_history",
        "producer_states",
        "recovery_report",
        "segments",
        "topic_id",
    )

    def __init__(
        self, fs: FileSystem, directory: str, config: LogConfig, parts: LogParts, topic_id: bytes | None
    ) -> None:
        """For `open`."""
        self._fs = fs
        self.producer_history = parts.producers
        self.producer_states = parts.states  # of the producers; None until somebody needs them
        self.epoch_file = parts.epochs
        self.durability = parts.durability
        self._chores: list[Chore] = []
        self._has_rolled = False  # since chores were last taken
        self.directory = directory
        self.config = config
        self.topic_id = topic_id
        self.segments = parts.segments
        self.log_end_offset = parts.log_end_offset
        self.log_start_offset = self.high_watermark = parts.segments[0].base_offset
        self.epoch_file.truncate_from_start(self.log_start_offset)
        self.recovery_report = parts.report  # None if the log had been closed well
        self.failure: StorageError | None = None
        self.active = parts.segments.active
        self._epoch = _NO_EPOCH  # of the last append
        # The leader epoch whose plain batches take the quick path, and the timestamp up to which they do: a later one
        # may be too late for the topic, or make the segment old enough to roll.
        self._plain_epoch = _NO_EPOCH
        self._quiet_timestamp = _BEFORE_ALL_TIME
        self.remove_later(parts.removable)

    @classmethod
    def open(
        cls,
        fs: FileSystem,
        directory: str,
        config: LogConfig,
        *,
        clean: bool,
        now_ms: int,
        recovery_point: int = 0,
        log_start_offset: int = 0,
        high_watermark: int = 0,
        topic_id: bytes | None = None,
        open_files: OpenFiles | None = None,
    ) -> "Log":
        """The log in `directory`, or a new one. `clean`: whoever had it last has closed it. Raises StorageError."""
        try:
            parts = open_parts(
                fs,
                directory,
                config,
                clean=clean,
                now_ms=now_ms,
                recovery_point=recovery_point,
                log_start_offset=log_start_offset,
                open_files=OpenFiles(_OWN_OPEN_FILES) if open_files is None else open_files,
            )
        except OSError as error:
            raise StorageError(f"cannot open the log in {directory}: {error}") from error
        log = cls(fs, directory, config, parts, topic_id)
        if log.log_end_offset < log_start_offset:
            # The start was advanced and remembered elsewhere, and the records up to it were lost in a crash.
            truncate_fully_and_start_at(log, log_start_offset)
        move_start(log, log_start_offset)
        # A crash may have brought deleted segments back, not necessarily all of them.
        delete_segments(log, log.segments.wholly_before(log_start_offset))
        log.raise_high_watermark(high_watermark)
        return log

    def close(self) -> None:
        """Write and sync everything. After a StorageError the next `open` must not be `clean`."""
        try:
            self.refuse_if_failed()
            if self.durability.is_durable(self.log_end_offset) and not self.active.is_ahead_of_its_files:
                return
            self._seal_active(self.log_end_offset)
            plan = self.durability.plan_close(self, self.log_end_offset)
            plan.run()
            plan.done()
        except OSError as error:
            raise self.fail(f"closing it failed ({error})") from error
        finally:
            self.segments.close()

    def update_config(self, config: LogConfig) -> None:
        self.config = config
        self._plain_epoch = _NO_EPOCH
        for segment in self.segments:
            segment.config = config
            segment.quiet_until = NEVER

    # Appending

    def append(
        self,
        batches: bytearray | memoryview,
        *,
        leader_epoch: int,
        now_ms: int,
        origin: Origin = _CLIENT,
        transaction_version: int = 0,
    ) -> AppendResult:
        """Take one or more batches, and stamp them in place. Replicated ones keep their offsets and epochs.

        Raises CorruptBatchError, RefusedBatchError (nothing was written) or StorageError.
        """
        try:
            length, magic, crc, attributes, delta, max_timestamp, producer_id, count = _PLAIN(batches)
        except struct_error:
            raise CorruptBatchError(f"{len(batches)} bytes are not a batch") from None
        size = length + LOG_OVERHEAD
        # The quick path: one plain batch of a client, and nothing to do but write it. All else goes the long way.
        if (
            len(batches) != size
            or producer_id != NO_PRODUCER_ID
            or leader_epoch != self._plain_epoch
            or magic != MAGIC
            or attributes > _LAST_CODEC
            or delta + 1 != count
            or not 0 <= delta < size
            or origin is not _CLIENT
        ):
            return self._append_batches(memoryview(batches), leader_epoch, now_ms, origin, transaction_version)
        if crc32c(batches[_CRC_COVERS]) != crc:
            raise CorruptBatchError(f"CRC {crc:#010x} in the header of a batch does not match its content")
        segment = self.active
        position = segment.size
        if position + size > segment.quiet_until or max_timestamp > self._quiet_timestamp:
            return self._append_plain(batches, size, delta, max_timestamp, leader_epoch, now_ms)
        base_offset = self.log_end_offset
        _STAMP(batches, 0, base_offset, length, leader_epoch)
        write, handle = segment.writer
        try:
            written = write(handle, batches)
        except OSError as error:
            raise self._append_failed(segment, error) from error
        if written != size:
            self._append_rest(segment, batches[written:])
        last_offset = base_offset + delta
        segment.size = position + size
        if max_timestamp > segment.max_timestamp:
            segment.max_timestamp = max_timestamp
            segment.max_timestamp_offset = last_offset
        self.log_end_offset = last_offset + 1
        return AppendResult((base_offset, last_offset, max_timestamp, NO_APPEND_TIME, False))

    def _append_plain(
        self,
        batch: bytearray | memoryview,
        size: int,
        delta: int,
        max_timestamp: int,
        leader_epoch: int,
        now_ms: int,
    ) -> AppendResult:
        """A plain batch that is not quiet: it is large, or an index entry is due, or more than that."""
        base_offset = self.log_end_offset
        last_offset = base_offset + delta
        config = self.config
        segment = self.active
        if (
            size > config.max_message_bytes
            or segment.size + size > config.segment_bytes
            or max_timestamp > self._quiet_timestamp
            or segment.quiet_until == NEVER
            or last_offset > segment.last_room
        ):
            check_size(size, config)
            check_timestamp(max_timestamp, now_ms, config)
            segment = self._segment_for(size, base_offset, last_offset, max_timestamp, now_ms)
        _STAMP(batch, 0, base_offset, size - LOG_OVERHEAD, leader_epoch)
        position = self._write(segment, batch)
        segment.account(position, last_offset, max_timestamp)
        self.log_end_offset = last_offset + 1
        return AppendResult((base_offset, last_offset, max_timestamp, NO_APPEND_TIME, False))

    def _append_batches(
        self, view: memoryview, leader_epoch: int, now_ms: int, origin: Origin, transaction_version: int
    ) -> AppendResult:
        """The long way: anything from anybody."""
        self.refuse_if_failed()
        batches = split(view, is_cut_anywhere=origin is Origin.REPLICATION)
        if origin is Origin.REPLICATION:
            return self._append_replicated(view, batches, now_ms)
        config = self.config
        check_incoming(view, batches, config, origin=origin, now_ms=now_ms)
        duplicate = self._check_producers(view, batches, transaction_version)
        append_time_ms = now_ms if is_append_time(config) else NO_APPEND_TIME
        if duplicate is not None:
            time_ms = duplicate.timestamp if is_append_time(config) else NO_APPEND_TIME
            return AppendResult((duplicate.first_offset, duplicate.last_offset, duplicate.timestamp, time_ms, True))
        base_offset = next_offset = self.log_end_offset
        placed = []
        for batch in batches:
            placed.append(place(view, batch, next_offset, leader_epoch, append_time_ms))
            next_offset += batch.header[6] + 1
        max_timestamp = self._store(view, placed, now_ms)
        self._plain_epoch = leader_epoch if may_be_plain(config) else _NO_EPOCH
        return AppendResult((base_offset, next_offset - 1, max_timestamp, append_time_ms, False))

    def _append_replicated(self, view: memoryview, batches: list[Incoming], now_ms: int) -> AppendResult:
        check_continues(batches, self.log_end_offset)
        for batch in batches:
            if batch.header[5] & CONTROL_FLAG:
                read_marker(view[batch.start : batch.end])  # one that cannot be read must not get in
        base_offset = batches[0].header[0] if batches else self.log_end_offset
        max_timestamp = -1
        for run in runs_that_fit(batches, self.config.segment_bytes):
            max_timestamp = max(max_timestamp, self._store(view, run, now_ms))
        return AppendResult((base_offset, self.log_end_offset - 1, max_timestamp, NO_APPEND_TIME, False))

    def _check_producers(
        self, view: memoryview, batches: list[Incoming], transaction_version: int
    ) -> CachedBatch | None:
        """What was stored already of a client's retry; None if the batches are news. Raises RefusedBatchError."""
        for start, end, header in batches:
            if header[9] == NO_PRODUCER_ID:
                continue
            if header[5] & CONTROL_FLAG:
                marker = read_marker(view[start:end])
                if marker is not None:
                    self.producers.check_marker(
                        header, coordinator_epoch=marker.coordinator_epoch, transaction_version=transaction_version
                    )
            elif header[11] == NO_SEQUENCE:
                self.producers.check_without_sequence(header)
            else:
                duplicate = self.producers.check(header)
                if duplicate is not None:
                    return duplicate
        return None

    def _store(self, view: memoryview, batches: Sequence[Incoming], now_ms: int) -> int:
        """Write batches that have their offsets, and account for them. Their largest timestamp."""
        first, last = batches[0], batches[-1]
        last_offset = last.header[0] + last.header[6]
        max_timestamp = max([batch.header[8] for batch in batches])
        size = last.end - first.start
        segment = self._segment_for(size, first.header[0], last_offset, max_timestamp, now_ms)
        shift = self._write(segment, view[first.start : last.end]) - first.start
        for start, end, header in batches:
            segment.account(start + shift, header[0] + header[6], header[8])
            if header[2] != self._epoch:
                self._epoch = header[2]
                self.epoch_file.assign(header[2], header[0])
            if header[9] != NO_PRODUCER_ID:
                transaction = apply_batch(self.producers, header, view[start:end], base_offset=header[0])
                if transaction is not None and transaction.aborted:
                    self.aborted_of(segment).append(to_aborted(transaction))
        self.log_end_offset = last_offset + 1
        return max_timestamp

    def _segment_for(self, size: int, first_offset: int, last_offset: int, max_timestamp: int, now_ms: int) -> Segment:
        """The active segment, ready for an append; a new one if the batches must not go into the present one."""
        segment = self.active
        segment.load_indexes()
        if must_roll(segment, size=size, last_offset=last_offset, max_timestamp=max_timestamp, now_ms=now_ms):
            segment = self.roll(now_ms=now_ms)
            if last_offset > segment.last_room:
                # Far behind the log's end, by replication of a compacted log: a segment must begin with them.
                segment = self.roll(now_ms=now_ms, base_offset=first_offset)
        segment.prepare_appends()
        self._quiet_timestamp = quiet_timestamp(segment, now_ms)
        return segment

    def _write(self, segment: Segment, data: Buffer) -> int:
        """At the end of the segment; where that was."""
        write, handle = segment.writer
        try:
            written = write(handle, data)
        except OSError as error:
            raise self._append_failed(segment, error) from error
        size = len(data)
        if written != size:
            self._append_rest(segment, data[written:])
        position = segment.size
        segment.size = position + size
        return position

    def _append_rest(self, segment: Segment, rest: Buffer) -> None:
        """A write was short. That is no error yet: the next one tells."""
        file = segment.file
        file.size = segment.size
        try:
            file.append(rest)
        except OSError as error:
            raise self._append_failed(segment, error) from error

    def _append_failed(self, segment: Segment, error: OSError) -> StorageError:
        file = segment.file
        file.size = segment.size
        file.cut_back()
        if file.torn:
            return self.fail(f"an append failed ({error}), and its part could not be cut off again")
        return StorageError(
            f"an append to {self.directory} failed: {error}. Nothing of it was kept. "
            "Make room or check the disk; producers may then retry."
        )

    def forget_epoch(self) -> None:
        """The log was cut: the next append tells its epoch anew, and goes the long way."""
        self._epoch = self._plain_epoch = _NO_EPOCH

    def fail(self, what: str) -> StorageError:
        self.failure = StorageError(
            f"the log in {self.directory} takes no more writes: {what}. What was acknowledged is still served. "
            "Check the disk, then restart the broker: it recovers all that is whole."
        )
        self._plain_epoch = _NO_EPOCH
        return self.failure

    def refuse_if_failed(self) -> None:
        if self.failure is not None:
            raise StorageError(str(self.failure))

    # Rolling

    def roll(self, *, now_ms: int, base_offset: int | None = None) -> Segment:
        """Seal the active segment and begin a new one. Nothing happens to an empty one. Raises StorageError."""
        self.refuse_if_failed()
        base_offset = self.log_end_offset if base_offset is None else base_offset
        old = self.active
        if old.base_offset == base_offset:
            return old
        try:
            if old.size:
                self._seal_active(base_offset)
            self.durability.make_segment_names_safe()
            self.active = self.segments.create(base_offset, self.config, now_ms=now_ms)
            if not old.size:
                self.remove_later(self.segments.take_out([old]))
        except OSError as error:
            raise self._roll_failed(base_offset, error) from error
        self._has_rolled = True
        self.durability.created_segment()
        self.producer_history.drop_stale_snapshots()
        return self.active

    def _seal_active(self, end_offset: int) -> None:
        self.durability.wrote_files()
        self.active.write_indexes()
        self.producer_history.write_snapshot(end_offset, self.producers)

    def _roll_failed(self, base_offset: int, error: OSError) -> StorageError:
        try:
            with contextlib.suppress(FileNotFoundError):
                self._fs.remove(f"{self.directory}/{file_name(base_offset, LOG)}")
        except OSError:
            return self.fail(f"a new segment could neither be made ({error}) nor removed")
        return StorageError(
            f"the log in {self.directory} cannot begin a new segment: {error}. Nothing was changed. "
            "Make room or check the disk; producers may then retry."
        )

    # Reading

    def read(
        self, offset: int, *, max_bytes: int, end_offset: int | None = None, at_least_one_batch: bool = True
    ) -> LogSlice:
        """Whole batches of one segment, from the one with `offset` on, that end before `end_offset` (the log's end).

        They have `max_bytes` at most, but for the first one if `at_least_one_batch`. Raises OffsetOutOfRangeError,
        StorageError, and CorruptBatchError where somebody has damaged the file.
        """
        log_end_offset = self.log_end_offset
        if not self.log_start_offset <= offset <= log_end_offset:
            raise OffsetOutOfRangeError(offset, log_start_offset=self.log_start_offset, log_end_offset=log_end_offset)
        if end_offset is None or end_offset > log_end_offset:
            end_offset = log_end_offset
        if offset >= end_offset:
            return EMPTY
        try:
            for index in range(self.segments.index_of(offset), len(self.segments)):
                segment = self.segments[index]
                is_whole = end_offset >= self.segments.end_offset_of(index, log_end_offset)
                found = segment.read(
                    offset,
                    max_bytes=max_bytes,
                    end_offset=None if is_whole else end_offset,
                    at_least_one_batch=at_least_one_batch,
                )
                if found is not None:
                    if segment is self.active and found.position + found.size_bytes == segment.size:
                        segment.remember(log_end_offset, segment.size)
                    return found
        except OSError as error:
            raise StorageError(f"reading offset {offset} of {self.directory} failed: {error}") from error
        return EMPTY

    def find_timestamp(self, timestamp: int) -> TimestampOffset | None:
        """The first record whose timestamp is `timestamp` or later."""
        return find_timestamp(tuple(self.segments), timestamp, start_offset=self.log_start_offset)

    def max_timestamp(self) -> TimestampOffset | None:
        """The first record with the largest timestamp."""
        return find_largest_timestamp(tuple(self.segments), start_offset=self.log_start_offset)

    @property
    def size_bytes(self) -> int:
        return self.segments.size_bytes

    # Transactions, epochs, watermarks

    @property
    def producers(self) -> ProducerStates:
        if self.producer_states is None:
            self.producer_states = self.producer_history.before(self.log_end_offset)
            self.producer_states.settle_below(self.high_watermark)
        return self.producer_states

    @property
    def epochs(self) -> EpochHistory:
        return self.epoch_file.history

    def assign_epoch(self, leader_epoch: int) -> None:
        """A leader begins at the log's end, before it has written anything."""
        self.epoch_file.assign(leader_epoch, self.log_end_offset)

    def raise_high_watermark(self, offset: int) -> None:
        """Never back, never past the log's end."""
        offset = min(offset, self.log_end_offset)
        if offset > self.high_watermark:
            self.high_watermark = offset
            if self.producer_states is not None:
                self.producer_states.settle_below(offset)

    @property
    def first_unstable_offset(self) -> int | None:
        """Where the first transaction begins that is open, or whose end the high watermark has not passed."""
        offset = self.producers.first_unstable_offset
        return None if offset is None else max(offset, self.log_start_offset)

    @property
    def last_stable_offset(self) -> int:
        unstable = self.first_unstable_offset
        return self.high_watermark if unstable is None else min(unstable, self.high_watermark)

    def aborted_transactions(self, from_offset: int, upper_offset: int) -> list[AbortedTxn]:
        """Those with records in from_offset..upper_offset (exclusive): a reader of committed data must skip them."""
        found: list[AbortedTxn] = []
        for segment in self.segments.from_offset(from_offset):
            transactions, is_complete = self.aborted_of(segment).find(from_offset, upper_offset)
            found += transactions
            if is_complete:
                break
        return found

    def aborted_of(self, segment: Segment) -> AbortedIndex:
        with contextlib.suppress(CorruptIndexError):
            return segment.aborted
        self.producer_history.rebuild_aborted(segment, self.log_end_offset)
        return segment.aborted

    def expire_producers(self, now_ms: int) -> int:
        """Forget producers that were silent for too long. How many they were."""
        return self.producers.expire(now_ms=now_ms, expiration_ms=self.config.producer_id_expiration_ms)

    # Cutting: see `cutting`

    def truncate_to(self, offset: int) -> bool:
        return truncate_to(self, offset)

    def truncate_fully_and_start_at(self, offset: int) -> None:
        truncate_fully_and_start_at(self, offset)

    def advance_log_start(self, offset: int) -> None:
        advance_log_start(self, offset)

    def delete_segments(self, segments: Sequence[Segment]) -> None:
        delete_segments(self, segments)

    def replace_segments(self, old: Sequence[Segment], new: Sequence[Segment]) -> None:
        replace_segments(self, old, new)

    # Slow work

    @property
    def flushed_offset(self) -> int:
        """Everything below it survives a power cut."""
        return self.durability.flushed_offset

    @property
    def recovery_point(self) -> int:
        """Where recovery would begin to read: what a checkpoint should hold."""
        return self.durability.recovery_point

    def plan_flush(self) -> FlushPlan | None:
        """What has to be synced so that all of the log is durable; None if it is. See `chores`."""
        self.refuse_if_failed()
        return self.durability.plan_all(self, self.log_end_offset)

    def flushed(self, plan: FlushPlan) -> None:
        self.durability.flushed(plan)

    def flush_failed(self, error: OSError) -> None:
        self.fail(f"a sync failed ({error}), and what it should have saved may be gone")

    def take_chores(self) -> list[Chore]:
        """What should be done soon, in this order: make rolled segments durable, remove files of deleted ones."""
        chores, self._chores = self._chores, []
        if self._has_rolled and self.failure is None:
            chores.insert(0, self.durability.plan_sealed(self))
            self._has_rolled = False
        return chores

    def remove_later(self, paths: Sequence[str]) -> None:
        if paths:
            self._chores.append(RemoveFiles(self._fs, tuple(paths)))
