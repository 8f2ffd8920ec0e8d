"""One replica of one partition on this node: its log, its role, and what waits for it.

Theory. The leader takes appends and serves reads up to the high watermark. `_advance_high_watermark` alone decides how
far that is: the end of what all in-sync replicas have. This replica counts up to its log's end, or, if the topic wants
every acknowledgement to survive a power cut (`flush.messages=1`), up to what is synced. It is called whenever one of
these may have changed, and it releases what waited for that.

When the disk fails or is full, the log refuses writes and serves what was acknowledged; producers that wait are told at
once. With room again, the next write succeeds; a log that has failed (see `log.log`) waits for a restart.
"""

from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from headrace.log.aborted import AbortedTxn
from headrace.log.append import AppendResult, Origin, check_size
from headrace.log.config import UNLIMITED, LogConfig
from headrace.log.errors import OffsetOutOfRangeError, StorageError
from headrace.log.even_append import EvenBatches, append_even
from headrace.log.log import Log
from headrace.log.run_append import Placed, append_run
from headrace.log.slices import LogSlice
from headrace.protocol.error_codes import ErrorCode
from headrace.server.group_commit import GroupCommit
from headrace.server.log_configs import TopicSettings
from headrace.server.log_errors import NotEnoughReplicasError
from headrace.server.recompression import Compression, recompress
from headrace.server.waiters import ANY_SIZE, Watcher
from headrace.server.write_trouble import WriteTrouble

if TYPE_CHECKING:
    from headrace.server.waiters import Waiting

ACKS_ALL: Final = -1
# Written by coordinators only; what a client puts there could not be read back.
INTERNAL_TOPICS: Final = frozenset({"__consumer_offsets", "__share_group_state", "__transaction_state"})
_NO_ERROR: Final = ErrorCode.NONE  # finding a member of an enum costs as much as a call, and every fetch asks
ANY_EPOCH: Final = -1  # a client that does not say which leader it means


class Partition:
    """`_acks` is in the order of appends. A retry waits at the end of it, longer than it must and never too short."""

    __slots__ = (
        "_acks",
        "_flush_messages",
        "_flushes",
        "_in_sync",
        "_min_insync_replicas",
        "_replicas",
        "_trouble",
        "compression",
        "flushes_every_append",
        "index",
        "is_internal",
        "is_leader",
        "leader_epoch",
        "log",
        "min_insync_replicas",
        "topic",
        "topic_id",
        "watchers",
    )

    def __init__(
        self,
        topic: str,
        topic_id: bytes,
        index: int,
        log: Log,
        flushes: GroupCommit,
        trouble: WriteTrouble | None = None,
    ) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.index = index
        self.log = log
        self.is_internal = topic in INTERNAL_TOPICS
        self._flushes = flushes
        self._trouble = trouble or WriteTrouble()
        self.is_leader = False
        self.leader_epoch = -1
        self._in_sync = 0
        self._replicas = 1
        self._min_insync_replicas = 1  # as the topic says
        self.min_insync_replicas = 1  # as it counts: no more than there are replicas
        self._set_flushing(log.config)
        self.compression: Compression | None = None
        self.watchers: dict[Watcher, None] = {}
        # Who waits for the high watermark. An empty deque has 600 bytes, and most partitions of many are idle.
        self._acks: deque[tuple[int, Waiting, int]] | None = None

    def __repr__(self) -> str:
        return f"[{self.topic}-{self.index} epoch {self.leader_epoch}]"

    # Role and configuration

    def lead(self, *, leader_epoch: int, in_sync: int, replicas: int) -> None:
        """This node leads the partition in this epoch, with so many replicas in sync."""
        is_new = not self.is_leader or leader_epoch != self.leader_epoch
        self.is_leader = True
        self.leader_epoch = leader_epoch
        self._in_sync = in_sync
        self._replicas = replicas
        self.min_insync_replicas = min(self._min_insync_replicas, replicas)
        if is_new:
            self.log.assign_epoch(leader_epoch)
            self._tell_watchers(ANY_SIZE)
        self._begin_flushing()
        self._advance_high_watermark()

    def follow(self, *, leader_epoch: int) -> None:
        """Another node leads it, or nobody does. Those who wait must ask there."""
        self.is_leader = False
        self.leader_epoch = leader_epoch
        self.release(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def release(self, code: ErrorCode) -> None:
        """Whoever waits here gets this answer: the partition moves, or goes."""
        waiting, self._acks = self._acks, None
        for _, acknowledgements, slot in waiting or ():
            acknowledgements.settle(slot, code)
        self._tell_watchers(ANY_SIZE)

    def configure(self, settings: TopicSettings) -> None:
        config = settings.log
        if config is not self.log.config:
            self.log.update_config(config)
        self._set_flushing(config)
        self.compression = settings.compression
        self._min_insync_replicas = settings.min_insync_replicas
        self.min_insync_replicas = min(self._min_insync_replicas, self._replicas)
        if self.is_leader:
            self._begin_flushing()
            self._advance_high_watermark()

    def _set_flushing(self, config: LogConfig) -> None:
        # 0: syncing is left to the operating system, as Kafka does by default.
        self._flush_messages = 0 if config.flush_messages == UNLIMITED else config.flush_messages
        self.flushes_every_append = self._flush_messages == 1

    def _begin_flushing(self) -> None:
        if self._flush_messages and self.log.failure is None:
            self._flush_if_due()

    def check_epoch(self, leader_epoch: int) -> ErrorCode:
        """Does the client know the same leader?"""
        if leader_epoch == self.leader_epoch or leader_epoch == ANY_EPOCH:
            return _NO_ERROR
        return ErrorCode.FENCED_LEADER_EPOCH if leader_epoch < self.leader_epoch else ErrorCode.UNKNOWN_LEADER_EPOCH

    # Writing

    def append(self, records: bytearray | memoryview, *, acks: int, now_ms: int) -> AppendResult:
        """A client's batch. Raises one of LOG_ERRORS; then nothing was written."""
        if acks == ACKS_ALL and self._in_sync < self.min_insync_replicas:
            raise self._too_few_in_sync()
        if self.compression is not None:
            check_size(len(records), self.log.config)  # as it came: what no topic takes is not worth unpacking
            records = recompress(records, self.compression)
        try:
            result = self.log.append(records, leader_epoch=self.leader_epoch, now_ms=now_ms)
        except StorageError as error:
            self._trouble.refused(self.log, error)
            raise
        if self._flush_messages:
            self._flush_if_due()
        elif self._trouble.is_on:
            self._trouble.ended(self.log)
        self._advance_high_watermark(len(records))
        return result

    def takes_runs(self, acks: int) -> bool:
        """May batches of clients be appended together, so that nothing has to be done for one of them alone?"""
        return (
            not (self._flush_messages or self._trouble.is_on)
            and self.compression is None
            and (acks != ACKS_ALL or self._in_sync >= self.min_insync_replicas)
        )

    def append_run(self, batches: Sequence[memoryview]) -> list[Placed]:
        """Clients' batches, where they are taken together: the places of the first ones, as many as there were plain.

        Raises StorageError; then nothing was written.
        """
        segment = self.log.active
        start = segment.size
        placed = append_run(self.log, batches, self.leader_epoch)
        if placed:
            self._advance_high_watermark(segment.size - start)
        return placed

    def append_even(self, buffer: bytearray, batches: EvenBatches) -> range | None:
        """The same of batches that lie at equal distances: their base offsets; None if none was taken."""
        offsets = append_even(self.log, buffer, batches, self.leader_epoch)
        if offsets is not None:
            self._advance_high_watermark(batches.size_bytes)
        return offsets

    def append_as_coordinator(self, batch: bytearray, *, now_ms: int, transaction_version: int = 0) -> AppendResult:
        """A batch that a coordinator made: its records, or a marker. Raises one of LOG_ERRORS."""
        if self._in_sync < self.min_insync_replicas:
            raise self._too_few_in_sync()
        try:
            result = self.log.append(
                batch,
                leader_epoch=self.leader_epoch,
                now_ms=now_ms,
                origin=Origin.COORDINATOR,
                transaction_version=transaction_version,
            )
        except StorageError as error:
            self._trouble.refused(self.log, error)
            raise
        if self._flush_messages:
            self._flush_if_due()
        elif self._trouble.is_on:
            self._trouble.ended(self.log)
        self._advance_high_watermark(len(batch))
        return result

    def _too_few_in_sync(self) -> NotEnoughReplicasError:
        return NotEnoughReplicasError(
            f"{self._in_sync} replicas are in sync, min.insync.replicas is {self.min_insync_replicas}"
        )

    def must_wait(self, acks: int) -> bool:
        """Does an acknowledgement wait for the high watermark? One that promises a sync does in any case."""
        return acks == ACKS_ALL or self.flushes_every_append

    def _advance_high_watermark(self, size_bytes: int = ANY_SIZE) -> None:
        """As far as it may go now; `size_bytes` is about what readers get by that."""
        log = self.log
        offset = log.flushed_offset if self.flushes_every_append else log.log_end_offset
        if offset > log.high_watermark:
            log.raise_high_watermark(offset)
            if self._acks:
                self._acknowledge(self._acks)
            if self.watchers:
                self._tell_watchers(size_bytes)

    def wait(self, last_offset: int, waiting: "Waiting", slot: int) -> None:
        """Settle the slot when the high watermark passes `last_offset`, or when it never will."""
        if self._acks is None:
            self._acks = deque()
        self._acks.append((last_offset, waiting, slot))

    def _acknowledge(self, acks: "deque[tuple[int, Waiting, int]]") -> None:
        high_watermark = self.log.high_watermark
        while acks and acks[0][0] < high_watermark:
            _, acknowledgements, slot = acks.popleft()
            acknowledgements.settle(slot, ErrorCode.NONE)

    def _flush_if_due(self) -> None:
        log = self.log
        if log.log_end_offset - log.flushed_offset >= self._flush_messages:
            self._flushes.add(self)

    def flush_ended(self, error: Exception | None = None) -> None:
        """A sync for this partition was tried. What failed for lack of room is tried again after the next append."""
        if self.log.is_deleted:  # meanwhile
            return
        if error is not None:
            self._trouble.refused(self.log, error)
            self.release(ErrorCode.KAFKA_STORAGE_ERROR)
            return
        if self._trouble.is_on:
            self._trouble.ended(self.log)
        if self.is_leader:
            self._advance_high_watermark()

    def _tell_watchers(self, size_bytes: int) -> None:
        for watcher in list(self.watchers):
            watcher.tell(size_bytes)

    # Reading

    def end_offset(self, *, committed: bool) -> int:
        """How far a consumer reads."""
        return self.log.last_stable_offset if committed else self.log.high_watermark

    def aborted_within(self, records: LogSlice, fetch_offset: int, end_offset: int) -> list[AbortedTxn]:
        """What a reader of committed data must skip in `records`, which end before `end_offset`."""
        if records.file is None:
            return []
        segments = self.log.segments
        index = segments.index_of(fetch_offset)
        if segments[index].file is not records.file:  # nothing is left behind that offset in its segment
            first_offset = records.first_offset
            assert first_offset is not None
            index = segments.index_of(first_offset)
        # The slice lies in one segment: what was aborted behind it can wait for the next fetch.
        segment_end = segments.end_offset_of(index, self.log.log_end_offset)
        return self.log.aborted_transactions(fetch_offset, min(end_offset, segment_end))

    # Deleting

    def advance_log_start(self, offset: int) -> int:
        """Delete the records before `offset` (-1: before the high watermark); the new log start. Raises LOG_ERRORS."""
        log = self.log
        to_offset = log.high_watermark if offset == -1 else offset
        if to_offset < 0:
            raise OffsetOutOfRangeError(
                offset, log_start_offset=log.log_start_offset, log_end_offset=log.log_end_offset
            )
        log.advance_log_start(to_offset)
        self.log_start_moved()
        return log.log_start_offset

    def log_start_moved(self) -> None:
        """By deletion or retention: sessions tell their consumers."""
        self._tell_watchers(0)
