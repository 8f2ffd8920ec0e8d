"""How far a log would survive a power cut, from where recovery has to read, and the plans that raise both.

Everything below the *flushed offset* is synced: the batches, the names of their files, and the leader epochs. The
*recovery point* is where recovery begins to read: at the first segment that is not durable with all its files. The
active segment never is, since its indexes are in memory: recovery reads it from its beginning, however far it was
flushed. A sealed segment is, when indexes and snapshot are synced, too.
"""

import os
from collections.abc import Sequence

from headrace.log.checkpoints import PARTITION_METADATA
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
        "_last_segment_name",
        "_name_changes",
        "_producers",
        "_segments",
        "_synced_name_changes",
        "_truncations",
        "flushed_offset",
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
        self._is_new = False  # neither the log's own name nor its topic's id are safe yet
        self._name_changes = 0  # in the log's directory, and how many of them are safe
        self._synced_name_changes = 0
        self._last_segment_name = 0  # the number of the change that named the youngest segment
        self._truncations = 0
        self.flushed_offset = 0

    def opened(self, *, recovery_point: int, are_names_safe: bool) -> None:
        """Names are safe in a log that was closed well. One who was killed may never have synced a directory."""
        self.flushed_offset = recovery_point
        self._is_new = not are_names_safe
        if not are_names_safe:
            self.created_segment()
        for segment in self._segments.sealed[: self._segments.index_of(recovery_point)]:
            segment.is_durable = True

    def wrote_files(self) -> None:
        """Index files or a snapshot have got a name that a crash could lose."""
        self._name_changes += 1

    def created_segment(self) -> None:
        self._name_changes += 1
        self._last_segment_name = self._name_changes

    def make_segment_names_safe(self) -> None:
        """Before a new segment gets its name: a crash that kept it and lost an older one would make a hole.

        The flush of a rolled segment syncs names, too, so this waits for the disk only if a roll follows too soon.
        """
        if self._synced_name_changes < self._last_segment_name:
            self._fs.sync_dir(self._directory)
            self._synced_name_changes = self._name_changes

    def truncated(self, offset: int) -> None:
        self._truncations += 1
        self.flushed_offset = min(self.flushed_offset, offset)

    def restarted(self, offset: int) -> None:
        """The log is empty, and goes on at `offset`."""
        self._truncations += 1
        self.flushed_offset = offset

    @property
    def recovery_point(self) -> int:
        for segment in self._segments.sealed:
            if not segment.is_durable:
                return segment.base_offset
        # Also of a closed log: whoever opens it goes on in its last segment, perhaps long before this is written anew.
        return self._segments.active.base_offset

    @property
    def is_untouched(self) -> bool:
        """Has nothing been cut, and no epoch begun to write, since the log was opened?"""
        return not self._truncations and not self._epochs.is_changed

    def is_durable(self, log_end_offset: int) -> bool:
        is_named = self._name_changes == self._synced_name_changes
        return self.flushed_offset >= log_end_offset and is_named and not self._epochs.is_changed

    def plan_sealed(self, log: Flushable) -> FlushPlan:
        """For the segments that were rolled, whose pages may go."""
        sealed = self._sealed()
        files = tuple(segment.file for segment in sealed)
        return self._plan(log, self._segments.active.base_offset, sealed, files, self._paths(sealed), idle_files=files)

    def plan_all(self, log: Flushable, log_end_offset: int) -> FlushPlan | None:
        """For everything; None if it is durable already."""
        if self.is_durable(log_end_offset):
            return None
        sealed = self._sealed()
        files = tuple(segment.file for segment in (*sealed, self._segments.active))
        return self._plan(log, log_end_offset, sealed, files, self._paths(sealed))

    def plan_close(self, log: Flushable, log_end_offset: int) -> FlushPlan:
        """For everything, the active segment's indexes included: the next to open it will not rebuild them."""
        sealed = self._sealed()
        segments = (*sealed, self._segments.active)
        files = tuple(segment.file for segment in segments)
        return self._plan(log, log_end_offset, sealed, files, self._paths(segments))

    def _sealed(self) -> tuple[Segment, ...]:
        return tuple(segment for segment in self._segments.sealed if not segment.is_durable)

    def _paths(self, segments: Sequence[Segment]) -> tuple[str, ...]:
        """All that belongs to these segments but their logs: indexes, and the snapshots taken at their ends."""
        if not segments:
            return ()
        paths = [segment.path(suffix) for segment in segments for suffix in SEGMENT_SUFFIXES if suffix != LOG]
        start_offset = segments[0].base_offset
        paths += [self._producers.path(at) for at in self._producers.snapshot_offsets if at >= start_offset]
        return tuple(paths)

    def _plan(
        self,
        log: Flushable,
        end_offset: int,
        sealed: tuple[Segment, ...],
        files: tuple[File, ...],
        paths: tuple[str, ...],
        idle_files: tuple[File, ...] = (),
    ) -> FlushPlan:
        directories = [self._directory] if self._name_changes != self._synced_name_changes else []
        if self._is_new:
            paths += (f"{self._directory}/{PARTITION_METADATA}",)
            directories.append(os.path.dirname(self._directory))
        return FlushPlan(
            log=log,
            fs=self._fs,
            end_offset=end_offset,
            sealed=sealed,
            files=files,
            idle_files=idle_files,
            paths=paths,
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
            self._producers.are_synced(plan.paths)
            for segment in plan.sealed:
                segment.is_durable = True
            self.flushed_offset = max(self.flushed_offset, plan.end_offset)
