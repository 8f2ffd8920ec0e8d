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
* A flush that has no room for the leader epochs, or no descriptor for a file, has spoilt nothing: the next one tries
  again.
* A roll that fails leaves the log as it was. A read that fails is an error of that read only: what an append has to
  read, it reads before it writes.

Whoever keeps the recovery point in a checkpoint must write it anew after `open` and after `truncate_to`, before the
next append: it may have gone back, and recovery believes what lies below it.
"""

import contextlib
from collections.abc import Sequence
from threading import Lock
from typing import Final

from headrace.log.aborted import AbortedIndex, AbortedTxn
from headrace.log.append import Origin
from headrace.log.chores import Chore, FlushPlan, NotSavedError, RemoveFiles
from headrace.log.closing import plan_close
from headrace.log.config import LogConfig
from headrace.log.cutting import (
    advance_log_start,
    delete_segments,
    move_start,
    truncate_fully_and_start_at,
    truncate_to,
)
from headrace.log.epochs import EpochHistory
from headrace.log.errors import CorruptIndexError, StorageError, is_without_descriptor, reading
from headrace.log.fs import FileSystem
from headrace.log.lookup import TimestampOffset, find_aborted, find_largest_timestamp, find_timestamp, read
from headrace.log.open_files import OpenFiles
from headrace.log.opening import LogParts, open_parts
from headrace.log.producers import ProducerStates
from headrace.log.quick_append import append_quickly
from headrace.log.rolling import quiet_timestamp, roll, roll_if_needed
from headrace.log.segment import NEVER, Segment
from headrace.log.slices import LogSlice
from headrace.log.swap import Swap

_NO_EPOCH: Final = -2  # no leader has it
_BEFORE_ALL_TIME: Final = -2
_OWN_OPEN_FILES: Final = 64  # for a log that shares its bound with no other
_CLIENT: Final = Origin.CLIENT


class Log:
    """Invariant: log start <= high watermark <= log end; the segments cover everything from the log start on."""

    __slots__ = (
        "_chores",
        "_has_rolled",
        "_naming",
        "active",
        "config",
        "directory",
        "durability",
        "epoch_file",
        "failure",
        "fs",
        "high_watermark",
        "is_deleted",
        "log_end_offset",
        "log_start_offset",
        "producer_history",
        "producer_states",
        "quick_epoch",
        "quick_origin",
        "quiet_timestamp",
        "recovery_report",
        "segments",
        "swap",
        "topic_id",
    )

    def __init__(
        self, fs: FileSystem, directory: str, config: LogConfig, parts: LogParts, topic_id: bytes | None
    ) -> None:
        """For `open`."""
        self.fs = fs
        self.producer_history = parts.producers
        self.producer_states = parts.states  # of the producers; None until somebody needs them
        self.epoch_file = parts.epochs
        self.durability = parts.durability
        self._chores: list[Chore] = []
        self._has_rolled = False  # since chores were last taken
        self.is_deleted = False  # its directory has another name, and the old one may be another log's
        self._naming = Lock()  # so that nothing gets a name there after it was deleted; held for a rename
        self.directory = directory
        self.config = config
        self.topic_id = topic_id
        self.segments = parts.segments
        self.log_end_offset = parts.log_end_offset
        self.log_start_offset = self.high_watermark = parts.segments[0].base_offset
        self.epoch_file.truncate_from_start(self.log_start_offset)
        self.recovery_report = parts.report  # None if the log had been closed well
        self.failure: StorageError | None = None
        self.swap: Swap | None = None  # of compacted segments, while it is under way
        self.active = parts.segments.active
        # The leader epoch and the origin whose batches may go the quick way, and the timestamp up to which they need no
        # second look: a later one may be too late for the topic, or make the segment old enough to roll.
        self.quick_epoch = _NO_EPOCH
        self.quick_origin = _CLIENT
        self.quiet_timestamp = _BEFORE_ALL_TIME
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
        cleaned_to: int = 0,
        topic_id: bytes | None = None,
        open_files: OpenFiles | None = None,
    ) -> "Log":
        """The log in `directory`, or a new one. Raises StorageError.

        `clean`: whoever had it last has closed it. `cleaned_to`: up to where it was compacted before (exclusive).
        """
        try:
            parts = open_parts(
                fs,
                directory,
                config,
                clean=clean,
                now_ms=now_ms,
                recovery_point=recovery_point,
                log_start_offset=log_start_offset,
                cleaned_to=cleaned_to,
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
            plan = self.plan_close()
            if plan is not None:
                plan.run()
                plan.done()
        except OSError as error:
            raise self.fail(f"closing it failed ({error})") from error
        finally:
            self.segments.close()

    def plan_close(self) -> FlushPlan | None:
        """Write what only memory knows; what then has to be synced, if anything. Raises StorageError.

        For who closes many logs at once. When the plan has run, close the segments.
        """
        return plan_close(self)

    def update_config(self, config: LogConfig) -> None:
        self.config = config
        self.take_no_more_quickly()
        for segment in self.segments:
            segment.config = config
            segment.quiet_until = NEVER

    # Appending

    append = append_quickly  # which hands on what is not for the quick way

    def segment_for(self, size: int, first_offset: int, last_offset: int, max_timestamp: int, now_ms: int) -> Segment:
        """The active segment, ready for an append; a new one if they must not go into it. Raises StorageError."""
        segment = self.active
        if (
            segment.size + size <= segment.quiet_until
            and max_timestamp <= self.quiet_timestamp
            and last_offset < self.log_end_offset + size  # no gap, as compaction leaves them
        ):
            return segment
        with reading("the last segment", self.directory):
            segment = roll_if_needed(self, size, first_offset, last_offset, max_timestamp, now_ms)
            segment.prepare_appends(size, last_offset)
        self.quiet_timestamp = quiet_timestamp(segment, now_ms)
        return segment

    def takes_quickly(self, leader_epoch: int, origin: Origin) -> None:
        """This epoch is known, and the topic believes headers of this origin: from now on they may go the quick way."""
        self.quick_epoch = leader_epoch
        self.quick_origin = origin

    def take_no_more_quickly(self) -> None:
        """Something has changed that the long way has to see first."""
        self.quick_epoch = _NO_EPOCH

    def fail(self, what: str) -> StorageError:
        self.failure = StorageError(
            f"the log in {self.directory} takes no more writes: {what}. What was acknowledged is still served. "
            "Check the disk, then restart the broker: it recovers all that is whole."
        )
        self.take_no_more_quickly()
        return self.failure

    def refuse_if_failed(self) -> None:
        if self.failure is not None:
            raise StorageError(str(self.failure))

    def roll(self, *, now_ms: int, base_offset: int | None = None) -> Segment:
        """Seal the active segment and begin a new one; the active one, if it is empty. Raises StorageError."""
        self.refuse_if_failed()
        return roll(self, self.log_end_offset if base_offset is None else base_offset, now_ms=now_ms)

    def rolled(self, segment: Segment) -> None:
        self.active = segment
        self._has_rolled = True

    # Reading

    def read(
        self, offset: int, *, max_bytes: int, end_offset: int | None = None, at_least_one_batch: bool = True
    ) -> LogSlice:
        """Whole batches of one segment, from the one with `offset` on, that end before `end_offset` (the log's end).

        They have `max_bytes` at most, but for the first one if `at_least_one_batch`. Raises OffsetOutOfRangeError,
        StorageError, and CorruptBatchError where somebody has damaged the file.
        """
        return read(self, offset, max_bytes, end_offset, at_least_one_batch=at_least_one_batch)

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
        """Raises StorageError."""
        if self.producer_states is None:
            with reading("the producers", self.directory):
                self.producer_states = self.producer_history.before(self.log_end_offset)
            self.producer_states.settle_below(self.high_watermark)
        return self.producer_states

    def load_producers_if_easy(self) -> None:
        """Before an append, as long as nothing has to be replayed: the first fetch or roll needs them anyway.

        Then it would have to read all that was appended until then.
        """
        if self.producer_states is None and self.producer_history.is_saved(self.log_end_offset):
            with contextlib.suppress(StorageError):  # whoever needs them will hear of it
                self.producer_states = self.producers

    @property
    def epochs(self) -> EpochHistory:
        return self.epoch_file.history

    def assign_epoch(self, leader_epoch: int) -> None:
        """A leader begins at the log's end, before it has written anything."""
        self.epoch_file.begin(leader_epoch, self.log_end_offset)

    def raise_high_watermark(self, offset: int) -> None:
        """Never back, never past the log's end."""
        if offset > self.log_end_offset:
            offset = self.log_end_offset
        if offset > self.high_watermark:
            self.high_watermark = offset
            if self.producer_states is not None:
                self.producer_states.settle_below(offset)

    @property
    def first_unstable_offset(self) -> int | None:
        """Where the first transaction begins that is open, or whose end the high watermark has not passed."""
        states = self.producer_states  # every fetch asks: without a call, if they are loaded
        offset = (self.producers if states is None else states).first_unstable_offset
        return None if offset is None else max(offset, self.log_start_offset)

    @property
    def last_stable_offset(self) -> int:
        unstable = self.first_unstable_offset
        return self.high_watermark if unstable is None else min(unstable, self.high_watermark)

    def aborted_transactions(self, from_offset: int, upper_offset: int) -> list[AbortedTxn]:
        """Those with records in from_offset..upper_offset (exclusive), for readers of committed data. StorageError."""
        return find_aborted(self, from_offset, upper_offset)

    def aborted_of(self, segment: Segment) -> AbortedIndex:
        """Raises OSError."""
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

    def delete(self) -> None:
        """Before its directory goes: what is still on its way in other threads comes to nothing."""
        with self._naming:
            self.is_deleted = True
        self.segments.close()

    def give_name(self, source: str, target: str) -> None:
        """In any thread, for chores: rename a file of this log, if it is still there. Raises OSError."""
        with self._naming:
            if not self.is_deleted:
                self.fs.rename(source, target)

    def flush_failed(self, error: OSError) -> None:
        if self.is_deleted:
            return
        if isinstance(error, NotSavedError) or is_without_descriptor(error):
            self._has_rolled = True  # so that what this plan was for is planned anew
            return
        self.fail(f"a sync failed ({error}), and what it should have saved may be gone")

    def take_chores(self) -> list[Chore]:
        """What should be done soon, in this order: make rolled segments durable, remove files of deleted ones.

        Raises OSError if a file cannot be opened; all of it is then still to be done.
        """
        sealed: list[Chore] = []
        if self._has_rolled and self.failure is None:
            sealed.append(self.durability.plan_sealed(self))
            self._has_rolled = False
        chores, self._chores = self._chores, []
        return sealed + chores

    def remove_later(self, paths: Sequence[str]) -> None:
        if paths:
            self._chores.append(RemoveFiles(self.fs, tuple(paths)))
