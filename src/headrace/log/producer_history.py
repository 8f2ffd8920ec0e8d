"""The producers of one log as they were before any offset: snapshots on disk, and a replay of the batches after them.

Producer state is a function of the log. It is made when somebody first asks, from the newest snapshot that is whole and
the batches behind it, so that a log without producers never pays for it. From then on each append is applied to it.

A snapshot is written whenever a segment begins and when the log is closed. Kafka keeps those at the beginning of
segments, and the newest; so do we. None is needed: without one the replay begins at the start of the log.
"""

import contextlib
from bisect import bisect_right, insort
from collections.abc import Collection, Iterable
from typing import NamedTuple

from headrace.log.aborted import AbortedIndex, AbortedTxn
from headrace.log.errors import CorruptSnapshotError
from headrace.log.fs import FileSystem, sync_file
from headrace.log.names import SNAPSHOT, file_name
from headrace.log.producers import CompletedTxn, ProducerStates, RawHeader
from headrace.log.scan import headers
from headrace.log.segment import Segment
from headrace.log.segments import Segments
from headrace.protocol.batch import CONTROL_FLAG, LOG_OVERHEAD, NO_PRODUCER_ID, Buffer
from headrace.protocol.records import (
    ControlType,
    read_control_type,
    read_coordinator_epoch,
    read_records,
    read_usual_marker,
)


class ProducerHistory:
    __slots__ = ("_directory", "_fs", "_segments", "_snapshots", "_unsynced")

    def __init__(self, fs: FileSystem, directory: str, segments: Segments, snapshot_offsets: Iterable[int]) -> None:
        self._fs = fs
        self._directory = directory
        self._segments = segments
        self._snapshots = sorted(snapshot_offsets)
        self._unsynced: tuple[int, ...] = ()  # those that were written since the log was opened, and not yet synced

    @property
    def snapshot_offsets(self) -> tuple[int, ...]:
        return tuple(self._snapshots)

    def is_saved(self, offset: int) -> bool:
        """Does it take no replay to know them as they were before `offset`?"""
        return offset in self._snapshots or offset == self._segments[0].base_offset

    def before(self, offset: int) -> ProducerStates:
        """As they were before `offset`, a batch boundary."""
        start_offset, states = self._newest_snapshot(offset)
        for segment in self._segments.from_offset(start_offset):
            if segment.base_offset >= offset:
                break
            self._replay(states, segment, start_offset, offset)
        return states

    def _newest_snapshot(self, offset: int) -> tuple[int, ProducerStates]:
        for index in range(bisect_right(self._snapshots, offset) - 1, -1, -1):
            at = self._snapshots[index]
            try:
                states = ProducerStates.from_snapshot(self._fs.read_bytes(self.path(at)))
            except (FileNotFoundError, CorruptSnapshotError):
                self._remove([at])
                continue
            return at, states
        return self._segments[0].base_offset, ProducerStates()

    def _replay(
        self, states: ProducerStates, segment: Segment, start_offset: int, end_offset: int
    ) -> list[CompletedTxn]:
        completed: list[CompletedTxn] = []
        file = segment.file
        start = segment.find(start_offset) if start_offset > segment.base_offset else 0
        for position, header in headers(file, segment.size if start is None else start, segment.size):
            if header[0] >= end_offset:
                break
            batch = file.read(position, header[1] + LOG_OVERHEAD) if header[5] & CONTROL_FLAG else b""
            transaction = apply_batch(states, header, batch, base_offset=header[0])
            if transaction is not None:
                completed.append(transaction)
        return completed

    def rebuild_aborted(self, segment: Segment, end_offset: int) -> None:
        """The aborted transactions of one segment, whose file was lost or damaged."""
        states = self.before(segment.base_offset)
        completed = self._replay(states, segment, segment.base_offset, end_offset)
        segment.aborted = AbortedIndex(to_aborted(transaction) for transaction in completed if transaction.aborted)

    # Snapshots

    def path(self, offset: int) -> str:
        return f"{self._directory}/{file_name(offset, SNAPSHOT)}"

    def write_snapshot(self, offset: int, states: ProducerStates) -> str:
        """The path. Not synced: a snapshot that a crash has damaged is found out by its CRC. Raises OSError."""
        path = self.path(offset)
        file = self._fs.open(path, create=True)
        try:
            file.truncate(0)
            file.append(states.to_snapshot())
        finally:
            file.close()
        if offset not in self._snapshots:
            insort(self._snapshots, offset)
        if offset not in self._unsynced:
            self._unsynced += (offset,)
        return path

    def keep_before(self, offset: int) -> None:
        """The batches before `offset` are about to go: from now on only a snapshot knows about them. Raises OSError.

        It waits for the disk unless a flush has done so, which follows each roll.
        """
        if offset not in self._snapshots:
            self.write_snapshot(offset, self.before(offset))
        if offset in self._unsynced:
            sync_file(self._fs, self.path(offset))
            self._fs.sync_dir(self._directory)
            self._unsynced = tuple(at for at in self._unsynced if at != offset)

    def are_synced(self, paths: Collection[str]) -> None:
        """Those with these paths are safe, and so are their names."""
        self._unsynced = tuple(at for at in self._unsynced if self.path(at) not in paths)

    def drop_snapshots_after(self, offset: int) -> None:
        self._remove([at for at in self._snapshots if at > offset])

    def drop_stale_snapshots(self) -> None:
        """Those that neither stand at the beginning of a segment nor are the newest."""
        bases = {segment.base_offset for segment in self._segments}
        self._remove([at for at in self._snapshots[:-1] if at not in bases])

    def _remove(self, offsets: list[int]) -> None:
        for offset in offsets:
            with contextlib.suppress(FileNotFoundError):
                self._fs.remove(self.path(offset))
            self._snapshots.remove(offset)
        self._unsynced = tuple(at for at in self._unsynced if at not in offsets)


class Marker(NamedTuple):
    """What the coordinator says about the end of a transaction."""

    is_commit: bool
    coordinator_epoch: int
    timestamp: int


def read_marker(batch: Buffer) -> Marker | None:
    """The marker in a control batch; None for other control records. Raises CorruptBatchError."""
    usual = read_usual_marker(batch)
    if usual is not None:
        return Marker(*usual)
    for record in read_records(batch):
        control_type = read_control_type(record.key)
        if control_type in (ControlType.COMMIT, ControlType.ABORT):
            is_commit = control_type is ControlType.COMMIT
            return Marker(is_commit, read_coordinator_epoch(record.value), record.timestamp)
    return None


def apply_batch(states: ProducerStates, header: RawHeader, batch: Buffer, *, base_offset: int) -> CompletedTxn | None:
    """Account for a batch that stands in the log; of `batch` only markers are read."""
    if header[9] == NO_PRODUCER_ID:
        return None
    if not header[5] & CONTROL_FLAG:
        states.apply(header, base_offset, header[8])
        return None
    if not header[12]:  # compaction took the record
        states.apply_emptied_marker(header)
        return None
    marker = read_marker(batch)
    return None if marker is None else apply_marker(states, header, marker, base_offset=base_offset)


def apply_marker(states: ProducerStates, header: RawHeader, marker: Marker, *, base_offset: int) -> CompletedTxn | None:
    """Account for an end marker that stands in the log. None when the transaction had no data there."""
    return states.apply_marker(
        header,
        base_offset,
        commit=marker.is_commit,
        coordinator_epoch=marker.coordinator_epoch,
        timestamp=marker.timestamp,
    )


def to_aborted(transaction: CompletedTxn) -> AbortedTxn:
    return AbortedTxn(
        transaction.producer_id, transaction.first_offset, transaction.last_offset, transaction.last_stable_offset
    )
