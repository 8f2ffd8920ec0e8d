"""A data directory: the logs of many partitions, and what they share.

    meta.properties, .lock, .kafka_cleanshutdown      whose it is, who works here, how the last one left
    recovery-point-, log-start-, replication- and cleaner-offset-checkpoint
    <topic>-<partition>/                              a log and its `partition.metadata`

One process at a time works here, and holds `.lock`. It takes `.kafka_cleanshutdown` away before it touches a log, and
puts it back after all of them are closed: whoever finds the file may believe every log as it is.

After a clean stop logs are opened when somebody first asks for them, so ten thousand partitions cost a listing, not
ten thousand recoveries. A log that nobody asked for is as clean at the end as it was at the beginning. After an
unclean stop all logs are opened at once, since each has to be recovered before the directory may be called clean
again. A log that cannot be opened (`broken`) does not keep the others from being served; one that could not be for
lack of room is tried again when somebody asks for it.

Open files are bounded (`open_files`), whatever the number of partitions. The checkpoints are allowed to be old: an
old recovery point costs a longer recovery, an old log start brings deleted records back for a while. They must not be
ahead of their log. So they are lowered on disk right after a truncation, and a name that is used again is taken out
of them first.

Logs are created and deleted without a sync, since the loop cannot wait for it. The first flush of a log saves its name
and its topic's id before anything in it counts as safe. A power cut may take away a log that was never flushed, and
bring one back that was deleted; the cluster's metadata, which is safe, tells which ones there are.
"""

import contextlib
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Final

from headrace.log.checkpoints import (
    CLEAN_SHUTDOWN,
    CLEANER_OFFSETS,
    HIGH_WATERMARKS,
    LOG_STARTS,
    NO_BROKER_EPOCH,
    PARTITION_METADATA,
    RECOVERY_POINTS,
    TopicPartition,
    read_clean_shutdown,
    read_offsets,
    read_topic_id,
    write_clean_shutdown,
    write_topic_id,
)
from headrace.log.chores import Chore
from headrace.log.cleaner import Cleaner
from headrace.log.cleaner_run import CleanerLimits
from headrace.log.closing import close_logs
from headrace.log.config import LogConfig
from headrace.log.directory_chores import CheckpointFiles, RemoveDirectory, WriteCheckpoints
from headrace.log.directory_names import DirectoryState, deleted_name, directory_name, parse_directory_name
from headrace.log.errors import CorruptCheckpointError, LogError, StorageError, is_passing
from headrace.log.flush_round import RunAll
from headrace.log.fs import FileSystem
from headrace.log.log import Log
from headrace.log.meta_properties import FILE_NAME as META_PROPERTIES
from headrace.log.meta_properties import MetaProperties, read_meta_properties, write_meta_properties
from headrace.log.open_files import OpenFiles
from headrace.protocol.errors import CorruptBatchError

LOCK: Final = ".lock"
# The usual limit of a process is 1,024 open files, and sockets need some, too. Whoever has raised it may give more.
MAX_OPEN_FILES: Final = 512

ALL_CHECKPOINTS: Final = (RECOVERY_POINTS, LOG_STARTS, HIGH_WATERMARKS, CLEANER_OFFSETS)


class LogDirectory:
    """Invariant: every partition here is in exactly one of `_unopened`, `_logs` and `broken`."""

    def __init__(
        self,
        fs: FileSystem,
        path: str,
        config_of: Callable[[TopicPartition], LogConfig],
        *,
        max_open_files: int = MAX_OPEN_FILES,
        cleaner_limits: CleanerLimits | None = None,
    ) -> None:
        """For `open`."""
        self._fs = fs
        self.path = path
        self._config_of = config_of
        self.open_files = OpenFiles(max_open_files)
        self._lock = fs.lock(f"{path}/{LOCK}")
        self.warnings: list[str] = []  # of the opening, for people
        self.broken: dict[TopicPartition, str] = {}  # logs that cannot be opened, and why
        self.left_alone: list[str] = []  # directories of partitions that are no business of ours
        self._unopened: dict[TopicPartition, None] = {}
        self._logs: dict[TopicPartition, Log] = {}
        self._topic_ids: dict[TopicPartition, bytes | None] = {}
        self._doomed: list[tuple[int, str]] = []  # when a deleted directory may go, and its path
        # Names that are not in use any more, and the last plan of checkpoints which may have them.
        self._stale: dict[TopicPartition, int] = {}
        self._checkpoints = CheckpointFiles(fs)
        self._tables = {name: self._read_table(name) for name in ALL_CHECKPOINTS}  # as planned last
        self.cleaner = Cleaner(fs, self.open_files, self._tables[CLEANER_OFFSETS], cleaner_limits)
        self.broker_epoch = read_clean_shutdown(fs, f"{path}/{CLEAN_SHUTDOWN}")  # of the last process, if it was clean
        self.meta = self._read_meta()

    @classmethod
    def open(
        cls,
        fs: FileSystem,
        path: str,
        config_of: Callable[[TopicPartition], LogConfig],
        *,
        now_ms: int,
        max_open_files: int = MAX_OPEN_FILES,
        cleaner_limits: CleanerLimits | None = None,
        not_ours: Collection[str] = (),
    ) -> "LogDirectory":
        """The data directory at `path`, made if need be. Raises LockedError, StorageError, CorruptCheckpointError.

        `not_ours` are directories in it whose logs somebody else keeps: two that work on one log would destroy it.
        """
        try:
            fs.make_dir(path)
            directory = cls(fs, path, config_of, max_open_files=max_open_files, cleaner_limits=cleaner_limits)
            try:
                directory._start(now_ms, not_ours)
            except BaseException:
                directory._lock.release()
                raise
        except OSError as error:
            raise StorageError(f"cannot open the data directory {path}: {error}") from error
        return directory

    def _start(self, now_ms: int, not_ours: Collection[str]) -> None:
        if self.was_clean:
            self._fs.remove(f"{self.path}/{CLEAN_SHUTDOWN}")
            self._fs.sync_dir(self.path)
        for name in self._fs.list_dir(self.path):
            found = parse_directory_name(name)
            if found is None:
                continue
            if name in not_ours:
                self.left_alone.append(name)
            elif found.state is DirectoryState.LIVE:
                self._unopened[found.partition] = None
            elif found.state is DirectoryState.DELETED:
                self._doomed.append((now_ms, f"{self.path}/{name}"))
            else:
                self.left_alone.append(name)
        self._stale = {name: 0 for table in self._tables.values() for name in table if name not in self._unopened}
        if not self.was_clean:
            for partition in sorted(self._unopened):
                with contextlib.suppress(StorageError):
                    self.get(partition, now_ms=now_ms)

    def _read_table(self, name: str) -> dict[TopicPartition, int]:
        try:
            return read_offsets(self._fs, f"{self.path}/{name}")
        except CorruptCheckpointError as error:
            self.warnings.append(f"{error}. It is ignored; what it said will be found out again.")
            return {}

    def _read_meta(self) -> MetaProperties | None:
        path = f"{self.path}/{META_PROPERTIES}"
        return read_meta_properties(self._fs, path) if self._fs.exists(path) else None

    def write_meta(self, meta: MetaProperties) -> None:
        write_meta_properties(self._fs, f"{self.path}/{META_PROPERTIES}", meta)
        self.meta = meta

    @property
    def was_clean(self) -> bool:
        return self.broker_epoch is not None

    # Partitions

    def __len__(self) -> int:
        return len(self._unopened) + len(self._logs) + len(self.broken)

    def __contains__(self, partition: object) -> bool:
        return partition in self._unopened or partition in self._logs or partition in self.broken

    def __iter__(self) -> Iterator[TopicPartition]:
        return iter(sorted((*self._unopened, *self._logs, *self.broken)))

    @property
    def opened(self) -> dict[TopicPartition, Log]:
        """Those that somebody has asked for."""
        return dict(self._logs)

    def get(self, partition: TopicPartition, *, now_ms: int) -> Log | None:
        """The log of a partition; None if it is not here. Raises StorageError if it is broken."""
        log = self._logs.get(partition)
        if log is not None:
            return log
        if partition in self.broken:
            raise StorageError(self.broken[partition])
        if partition not in self._unopened:
            return None
        del self._unopened[partition]
        try:
            log = self._logs[partition] = self._open_log(partition, now_ms)
        except (OSError, LogError, CorruptBatchError) as error:
            reason = f"{directory_name(partition)} cannot be opened: {error}"
            if is_passing(error):
                self._unopened[partition] = None
            else:
                self.broken[partition] = reason
            raise StorageError(reason) from error
        return log

    def _open_log(self, partition: TopicPartition, now_ms: int) -> Log:
        def open_with(recovery_point: int) -> Log:
            return Log.open(
                self._fs,
                self.path_of(partition),
                self._config_of(partition),
                clean=self.was_clean,
                now_ms=now_ms,
                recovery_point=recovery_point,
                log_start_offset=self._tables[LOG_STARTS].get(partition, 0),
                high_watermark=self._tables[HIGH_WATERMARKS].get(partition, 0),
                cleaned_to=self._tables[CLEANER_OFFSETS].get(partition, 0),
                topic_id=self.topic_id(partition),
                open_files=self.open_files,
            )

        recovery_point = self._tables[RECOVERY_POINTS].get(partition, 0)
        log = open_with(recovery_point)
        if not self.was_clean and log.log_end_offset < recovery_point:
            # What was synced is not there: the recovery point is of another past, or the disk lies. Trust nothing.
            self.warnings.append(
                f"{directory_name(partition)} was synced up to offset {recovery_point}, and ends at "
                f"{log.log_end_offset}. All of it is read again; what is missing is lost."
            )
            log.segments.close()
            first, log = log.recovery_report, open_with(0)
            if first is not None and log.recovery_report is not None:
                log.recovery_report = log.recovery_report.after(first)
        return log

    def path_of(self, partition: TopicPartition) -> str:
        return f"{self.path}/{directory_name(partition)}"

    def topic_id(self, partition: TopicPartition) -> bytes | None:
        """From `partition.metadata`; None if there is none, as in old logs. Raises CorruptCheckpointError, OSError."""
        if partition not in self._topic_ids:
            try:
                self._topic_ids[partition] = read_topic_id(self._fs, f"{self.path_of(partition)}/{PARTITION_METADATA}")
            except FileNotFoundError:
                self._topic_ids[partition] = None
        return self._topic_ids[partition]

    def create(self, partition: TopicPartition, *, topic_id: bytes, now_ms: int) -> Log:
        """A new, empty log, which is safe after its first flush. Raises StorageError."""
        assert partition not in self, partition
        path = self.path_of(partition)
        try:
            if self._is_stale(partition):
                self.plan_checkpoint().run_without_sync()  # without it: this is another log under an old name
            self._stale.pop(partition, None)
            self._fs.make_dir(path)
            self._write_topic_id(partition, topic_id)
        except OSError as error:
            raise StorageError(f"cannot create {path}: {error}") from error
        log = Log.open(
            self._fs,
            path,
            self._config_of(partition),
            clean=True,
            now_ms=now_ms,
            topic_id=topic_id,
            open_files=self.open_files,
        )
        self._logs[partition] = log
        return log

    def adopt(self, partition: TopicPartition, topic_id: bytes) -> None:
        """An opened log that does not know its topic is this topic's. Raises StorageError."""
        self._logs[partition].topic_id = topic_id
        try:
            self._write_topic_id(partition, topic_id)
        except OSError as error:
            raise StorageError(f"cannot write into {self.path_of(partition)}: {error}") from error

    def _write_topic_id(self, partition: TopicPartition, topic_id: bytes) -> None:
        write_topic_id(self._fs, f"{self.path_of(partition)}/{PARTITION_METADATA}", topic_id)
        self._topic_ids[partition] = topic_id

    def delete(self, partition: TopicPartition, *, now_ms: int) -> None:
        """The log is gone; its files go later (`take_chores`). Raises StorageError."""
        assert partition in self, partition
        doomed = f"{self.path}/{deleted_name(partition, uuid.uuid4().hex)}"
        log = self._logs.get(partition)
        if log is not None:
            log.delete()
        try:
            self._fs.rename(self.path_of(partition), doomed)
        except OSError as error:
            raise StorageError(f"cannot delete {self.path_of(partition)}: {error}") from error
        self._logs.pop(partition, None)
        self._unopened.pop(partition, None)
        self.broken.pop(partition, None)
        self._topic_ids.pop(partition, None)
        self._stale[partition] = self._checkpoints.last_number
        self.cleaner.forget(partition)
        config = self._config_of(partition) if log is None else log.config  # which may have changed since it was opened
        self._doomed.append((now_ms + config.file_delete_delay_ms, doomed))

    def truncate_to(self, partition: TopicPartition, offset: int) -> None:
        """Cut an opened log at its end, and lower what is remembered of it. Raises StorageError."""
        log = self._logs[partition]
        if log.truncate_to(offset):
            self._lower(partition, log)

    def truncate_fully_and_start_at(self, partition: TopicPartition, offset: int) -> None:
        """Empty an opened log, and lower what is remembered of it. Raises StorageError."""
        log = self._logs[partition]
        log.truncate_fully_and_start_at(offset)
        self._lower(partition, log)

    def _lower(self, partition: TopicPartition, log: Log) -> None:
        self.cleaner.truncated(partition, log.log_end_offset)
        if self._tables[RECOVERY_POINTS].get(partition, 0) > log.recovery_point:
            try:
                self.plan_checkpoint().run()
            except OSError as error:
                raise StorageError(f"cannot write the checkpoints of {self.path}: {error}") from error

    # Slow work

    def take_chores(self, *, now_ms: int) -> list[Chore]:
        """Directories of deleted logs whose time has come. What the logs themselves want done, they say themselves."""
        due = [path for due_ms, path in self._doomed if due_ms <= now_ms]
        self._doomed = [(due_ms, path) for due_ms, path in self._doomed if due_ms > now_ms]
        return [RemoveDirectory(self._fs, path) for path in due]

    def plan_checkpoint(self, *names: str) -> WriteCheckpoints:
        """All checkpoints as of now, or these."""
        self._stale = {partition: number for partition, number in self._stale.items() if self._is_stale(partition)}
        return self._checkpoints.plan(
            {f"{self.path}/{name}": dict(self._update_table(name)) for name in names or ALL_CHECKPOINTS}
        )

    def _update_table(self, name: str) -> dict[TopicPartition, int]:
        logs = self._logs.items()
        table = self._tables[name]
        if name == RECOVERY_POINTS:
            table.update({partition: log.recovery_point for partition, log in logs})
        elif name == HIGH_WATERMARKS:
            table.update({partition: log.high_watermark for partition, log in logs})
        elif name == LOG_STARTS:
            table.update({partition: log.log_start_offset for partition, log in logs})
            table = self._tables[name] = {partition: offset for partition, offset in table.items() if offset}
        else:
            table = self._tables[name] = dict(self.cleaner.cleaned_to)
        for gone in self._stale:
            table.pop(gone, None)
        return table

    def _is_stale(self, partition: TopicPartition) -> bool:
        """May a checkpoint on disk, or one on its way there, have the name of a log that is gone?"""
        number = self._stale.get(partition)
        return number is not None and not all(
            self._checkpoints.is_newer(f"{self.path}/{name}", number) for name in ALL_CHECKPOINTS
        )

    def abandon(self) -> None:
        """Let go of everything as a crash does: nothing is written, synced or noted, and the next start recovers."""
        for log in self._logs.values():
            log.segments.close()
        self._lock.release()

    @property
    def _are_all_whole(self) -> bool:
        """May the next process believe every log? One that lacked room for its recovery has still to be recovered."""
        return not self.broken and (self.was_clean or not self._unopened)

    def close(self, *, broker_epoch: int = NO_BROKER_EPOCH, run_all: RunAll = map, others: Iterable[Log] = ()) -> None:
        """Close every log, and say so. Raises StorageError, if a log could not be closed: the next start recovers.

        `run_all` may be the `map` of a pool of threads: ten thousand logs are synced much faster side by side. `others`
        are logs that somebody else keeps here (`not_ours`), to be closed with them.
        """
        failures: list[str] = []
        try:
            failures += close_logs((*others, *self._logs.values()), run_all)
            self.plan_checkpoint().run(run_all)
            if not failures and self._are_all_whole:
                write_clean_shutdown(self._fs, f"{self.path}/{CLEAN_SHUTDOWN}", broker_epoch=broker_epoch)
        except OSError as error:
            failures.append(f"the checkpoints of {self.path} could not be written: {error}")
        finally:
            self._lock.release()
        if failures:
            raise StorageError("; ".join(failures))
