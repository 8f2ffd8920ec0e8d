"""What the broker does unasked: retention, compaction, syncs by age, checkpoints, forgetting idle producers.

Theory. Nothing here may be felt by a request. Work on the loop goes partition by partition, a few of them at a time,
and then gives way; what may wait for the disk goes to the worker thread, and only while that has room. A round visits
all partitions that were there when it began; the next one begins an interval after its end.

    wake        while some sleep: open or make the logs that nobody has asked for yet, so that they get what follows
    tidy        every second: hand the logs' chores to the worker, begin syncs that are due by `flush.ms`, and give back
                what is too much of the page cache
    retention   `log.retention.check.interval.ms`: delete segments that have had their time
    producers   `producer.id.expiration.check.interval.ms`: forget those who were silent for too long
    checkpoints `log.flush.offset.checkpoint.interval.ms`: save up to where logs are safe and compacted
                `log.flush.start.offset.checkpoint.interval.ms`: save where logs start
                `replica.high.watermark.checkpoint.interval.ms`: save high watermarks
    compaction  one log at a time, the dirtiest first; rests for `log.cleaner.backoff.ms` when there is none
"""

import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from headrace.cluster.config_types import Value
from headrace.log.checkpoints import CLEANER_OFFSETS, HIGH_WATERMARKS, LOG_STARTS, RECOVERY_POINTS
from headrace.log.config import UNLIMITED
from headrace.log.directory import LogDirectory
from headrace.log.directory_chores import WriteCheckpoints
from headrace.log.errors import StorageError
from headrace.log.fs import FileSystem
from headrace.log.log import Log
from headrace.log.retention import apply_retention
from headrace.server.clock import Clock, Timer
from headrace.server.compaction import Compaction
from headrace.server.group_commit import GroupCommit
from headrace.server.page_cache import PageCache
from headrace.server.partition import Partition
from headrace.server.partitions import Partitions
from headrace.server.worker import Worker

_LOG: Final = logging.getLogger(__name__)

WAKES: Final = 5  # logs opened or made per turn, at 0.2 ms each
VISITS: Final = 50  # partitions per turn: about a millisecond of retention, less of anything else
VISITING_MS: Final = 2  # after which a turn ends sooner: what is deleted before it was synced waits for the disk
TURN_MS: Final = 10  # between turns requests have the loop
TIDY_INTERVAL_MS: Final = 1000


class MaintenanceSettings(NamedTuple):
    retention_interval_ms: int = 300_000
    producers_interval_ms: int = 600_000
    recovery_points_interval_ms: int = 60_000
    log_starts_interval_ms: int = 60_000
    high_watermarks_interval_ms: int = 5_000
    cleaner_backoff_ms: int = 15_000
    cleaner_enabled: bool = True

    @classmethod
    def from_broker(cls, values: Mapping[str, Value]) -> "MaintenanceSettings":
        """From `config_resolution.broker_values`."""
        known: Any = values
        return cls(
            known["log.retention.check.interval.ms"],
            known["producer.id.expiration.check.interval.ms"],
            known["log.flush.offset.checkpoint.interval.ms"],
            known["log.flush.start.offset.checkpoint.interval.ms"],
            known["replica.high.watermark.checkpoint.interval.ms"],
            known["log.cleaner.backoff.ms"],
            known["log.cleaner.enable"],
        )


class Maintenance:
    """Runs from `start` to `stop`. On the loop's thread."""

    def __init__(
        self,
        partitions: Partitions,
        fs: FileSystem,
        logs: LogDirectory,
        worker: Worker,
        flushes: GroupCommit,
        clock: Clock,
        settings: MaintenanceSettings | None = None,
    ) -> None:
        settings = settings or MaintenanceSettings()
        self._partitions = partitions
        self._fs = fs
        self._logs = logs
        self._saving: set[tuple[str, ...]] = set()  # the checkpoints that the worker has not yet written
        self._waking: Timer | None = None
        self._worker = worker
        self._flushes = flushes
        self._clock = clock
        self._dirty_since_ms: dict[Partition, int] = {}
        self._page_cache = PageCache(partitions, worker)
        self._rounds = [
            _Round(partitions, clock, TIDY_INTERVAL_MS, self._tidy, self._tidy_directory),
            _Round(partitions, clock, settings.retention_interval_ms, self._retain),
            _Round(partitions, clock, settings.producers_interval_ms, self._forget_producers),
            self._saving_of(settings.recovery_points_interval_ms, RECOVERY_POINTS, CLEANER_OFFSETS),
            self._saving_of(settings.log_starts_interval_ms, LOG_STARTS),
            self._saving_of(settings.high_watermarks_interval_ms, HIGH_WATERMARKS),
        ]
        self._compaction = Compaction(partitions, worker, logs.cleaner, clock, settings.cleaner_backoff_ms)
        self._compacts = settings.cleaner_enabled

    def start(self) -> None:
        self._waking = self._clock.call_later(TURN_MS, self._wake)
        for each in self._rounds:
            each.start()
        if self._compacts:
            self._compaction.start()

    def stop(self) -> None:
        if self._waking is not None:
            self._waking.cancel()
        for each in self._rounds:
            each.stop()
        self._compaction.stop()

    def close(self) -> None:
        """When the worker has ended."""
        self._compaction.close()

    def configure(self, settings: MaintenanceSettings) -> None:
        """What may be set while the broker runs."""
        self._compaction.backoff_ms = settings.cleaner_backoff_ms

    def _saving_of(self, interval_ms: int, *names: str) -> "_Round":
        return _Round(self._partitions, self._clock, interval_ms, None, lambda: self._save(names))

    def _save(self, names: tuple[str, ...]) -> None:
        if self._worker.has_room and names not in self._saving:
            self._saving.add(names)
            self._worker.submit(_Save(self, names, self._logs.plan_checkpoint(*names)))

    def saved(self, names: tuple[str, ...], error: OSError | None) -> None:
        """What is saved may be old, so a failure is made up for by the next one."""
        self._saving.discard(names)
        if error is not None:
            _LOG.error("the checkpoints of %s cannot be saved: %s", self._logs.path, error)

    def _wake(self) -> None:
        is_left = self._partitions.wake(WAKES)
        self._waking = self._clock.call_later(TURN_MS, self._wake) if is_left else None

    # Visits

    def _tidy(self, partition: Partition) -> None:
        log = partition.log
        self._page_cache.look_at(partition)
        if self._worker.has_room:
            for chore in log.take_chores():
                self._worker.submit(chore)
        if log.config.flush_ms != UNLIMITED and log.failure is None:
            self._flush_if_old(partition, log)

    def _flush_if_old(self, partition: Partition, log: Log) -> None:
        if log.flushed_offset >= log.log_end_offset:
            self._dirty_since_ms.pop(partition, None)
            return
        now_ms = self._clock.now_ms()
        if now_ms - self._dirty_since_ms.setdefault(partition, now_ms) >= log.config.flush_ms:
            del self._dirty_since_ms[partition]
            self._flushes.add(partition)

    def _tidy_directory(self) -> None:
        if self._waking is None and self._partitions.are_some_asleep:
            self._wake()
        if self._worker.has_room:
            for chore in self._logs.take_chores(now_ms=self._clock.now_ms()):
                self._worker.submit(chore)
        for partition in [each for each in self._dirty_since_ms if not self._partitions.has(each)]:
            del self._dirty_since_ms[partition]

    def _retain(self, partition: Partition) -> None:
        log = partition.log
        if log.failure is not None:
            return
        before = log.log_start_offset
        count = apply_retention(self._fs, log, now_ms=self._clock.now_ms())
        if count:
            _LOG.info("%r deleted %d segments; the log starts at %d", partition, count, log.log_start_offset)
        if log.log_start_offset != before:
            partition.log_start_moved()

    def _forget_producers(self, partition: Partition) -> None:
        log = partition.log
        if log.producer_states is not None:  # else nobody needs them, and loading them would be work for nothing
            log.expire_producers(self._clock.now_ms())


class _Round:
    """Visit every partition, some at a time, then `end`; and again after an interval."""

    def __init__(
        self,
        partitions: Partitions,
        clock: Clock,
        interval_ms: int,
        visit: Callable[[Partition], None] | None,
        end: Callable[[], None] | None = None,
    ) -> None:
        self._partitions = partitions
        self._clock = clock
        self._interval_ms = max(interval_ms, TURN_MS)  # operators may write 0
        self._visit = visit
        self._end = end
        self._left: Iterator[Partition] = iter(())
        self._timer: Timer | None = None

    def start(self) -> None:
        self._timer = self._clock.call_later(self._interval_ms, self._begin)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _begin(self) -> None:
        self._left = iter(list(self._partitions) if self._visit is not None else ())
        self._turn()

    def _turn(self) -> None:
        end_ms = self._clock.steady_ms() + VISITING_MS
        for _ in range(VISITS):
            if self._clock.steady_ms() >= end_ms:
                break
            partition = next(self._left, None)
            if partition is None:
                if self._end is not None:
                    self._end()
                self.start()
                return
            if self._visit is not None and self._partitions.has(partition):
                try:
                    self._visit(partition)
                except (StorageError, OSError) as error:  # of this log; the others have theirs done
                    _LOG.error("%r: %s", partition, error)
        self._timer = self._clock.call_later(TURN_MS, self._turn)


class _Save:
    """Checkpoints as a chore."""

    __slots__ = ("_names", "_owner", "_plan")

    def __init__(self, owner: Maintenance, names: tuple[str, ...], plan: WriteCheckpoints) -> None:
        self._owner = owner
        self._names = names
        self._plan = plan

    def run(self) -> None:
        self._plan.run()

    def done(self) -> None:
        self._owner.saved(self._names, None)

    def failed(self, error: OSError) -> None:
        self._owner.saved(self._names, error)
