"""How far a log would survive a power cut: its recovery point, and the plans that raise it.

The recovery point may pass a batch when the batch is synced, and with it the name of its file and all that recovery
would not make again from the batches behind the recovery point: the indexes of sealed segments, their snapshots, the
leader epochs. The active segment's indexes need no sync: recovery reads the whole segment with the recovery point.
"""

import os
from collections.abc import Iterable

from headrace.log.chores import Flushable, FlushPlan
from headrace.log.epoch_file import EpochFile
from headrace.log.fs import File, FileSystem
from headrace.log.names import LOG, SEGMENT_SUFFIXES
from headrace.log.producer_history import ProducerHistory
from headrace.log.segment import Segment
from headrace.log.segments import Segments


class Durability:
    __slots__ = (
        "_directory",
        "_epochs",
        "_fs",
        "_is_new",
        "_name_changes",
        "_producers",
        "_segments",
        "_synced_name_changes",
        "_truncations",
        "recovery_point",
    )

    def __init__(
        self,
        fs: FileSystem,
        directory: str,
        segments: Segments,
        producers: ProducerHistory,
        epochs: EpochFile,
    ) -> None:
        self._fs = fs
        self._directory = directory
        self._segments = segments
        self._producers = producers
        self._epochs = epochs
        self._is_new = False  # the log's own name is not safe yet
        self._name_changes = 0  # in the log's directory, and how many of them are safe
        self._synced_name_changes = 0
        self._truncations = 0
        self.recovery_point = 0

    def opened(self, *, recovery_point: int, is_new: bool, has_segments: bool) -> None:
        self.recovery_point = recovery_point
        self._is_new = is_new
        if not has_segments:
            self._name_changes += 1
        for segment in self._segments.sealed[: self._segments.index_of(recovery_point)]:
            segment.is_durable = True

    def named(self) -> None:
        """A file of the log has got a name that a crash could lose."""
        self._name_changes += 1

    def truncated(self, offset: int) -> None:
        self._truncations += 1
        self.recovery_point = min(self.recovery_point, offset)

    def restarted(self, offset: int) -> None:
        """The log is empty, and goes on at `offset`."""
        self._truncations += 1
        self.recovery_point = offset

    def plan_sealed(self, log: Flushable) -> FlushPlan:
        """For the segments that were rolled."""
        sealed = self._not_durable(self._segments.sealed)
        files = tuple(segment.file for segment in sealed)
        return self._plan(log, self._segments.active.base_offset, sealed, files, idle_files=files)

    def plan_all(self, log: Flushable, log_end_offset: int) -> FlushPlan | None:
        """For everything; None if it is durable already."""
        if self.is_durable(log_end_offset):
            return None
        sealed = self._not_durable(self._segments.sealed)
        files = tuple(segment.file for segment in (*sealed, self._segments.active))
        return self._plan(log, log_end_offset, sealed, files)

    def plan_close(self, log: Flushable, log_end_offset: int) -> FlushPlan:
        """For everything, the active segment's indexes included, since nobody will rebuild them."""
        segments = self._not_durable(self._segments)
        return self._plan(log, log_end_offset, segments, tuple(segment.file for segment in segments))

    def is_durable(self, log_end_offset: int) -> bool:
        is_named = self._name_changes == self._synced_name_changes
        return self.recovery_point >= log_end_offset and is_named and not self._epochs.is_changed

    def _not_durable(self, segments: Iterable[Segment]) -> tuple[Segment, ...]:
        return tuple(segment for segment in segments if not segment.is_durable)

    def _plan(
        self,
        log: Flushable,
        end_offset: int,
        whole: tuple[Segment, ...],
        files: tuple[File, ...],
        idle_files: tuple[File, ...] = (),
    ) -> FlushPlan:
        paths = [segment.path(suffix) for segment in whole for suffix in SEGMENT_SUFFIXES if suffix != LOG]
        paths += [self._producers.path(at) for at in self._producers.snapshot_offsets if at >= self.recovery_point]
        directories = [self._directory] if self._name_changes != self._synced_name_changes else []
        if self._is_new:
            directories.append(os.path.dirname(self._directory))
        return FlushPlan(
            log=log,
            fs=self._fs,
            end_offset=end_offset,
            whole=whole,
            files=files,
            idle_files=idle_files,
            paths=tuple(paths),
            epochs=(self._epochs.path, self._epochs.to_bytes()) if self._epochs.is_changed else None,
            directories=tuple(directories),
            truncations=self._truncations,
            name_changes=self._name_changes,
            epoch_changes=self._epochs.changes,
        )

    def flushed(self, plan: FlushPlan) -> None:
        self._synced_name_changes = max(self._synced_name_changes, plan.name_changes)
        self._is_new = False
        self._epochs.saved_changes = max(self._epochs.saved_changes, plan.epoch_changes)
        if plan.truncations == self._truncations:
            for segment in plan.whole:
                segment.is_durable = True
            self.recovery_point = max(self.recovery_point, plan.end_offset)
