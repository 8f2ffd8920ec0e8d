"""Compaction of many logs: which one is next, and what becomes of a round.

Theory. A compacted log keeps at least the newest record of each key. It does so in rounds, one log at a time, the
dirtiest first (`cleaner_ratio`). A round is a plan that a process of its own runs (`cleaner_run`); here, on the loop
thread, it is made, and its outcome swapped in (`swap`). If not all of it is, it is the oldest part: a tombstone may go
only after what it deletes. How far a log has been cleaned is remembered in `cleaner-offset-checkpoint`; to forget it
costs work, not records.

While a round runs the log lives on. Appends do not touch sealed segments. If retention takes one, or if whoever
truncates the log says so (`truncated`), the outcome no longer fits and is thrown away. A log with damaged data is not
tried again, since every round would fail in the same way: `uncleanable` says why, until the log is opened anew.
"""

from collections.abc import Iterable, Mapping
from itertools import pairwise

from headrace.log.checkpoints import TopicPartition
from headrace.log.cleaner_filter import last_words
from headrace.log.cleaner_ratio import DirtyRange, measure_dirt
from headrace.log.cleaner_run import CleanedGroup, CleanerLimits, CleaningOutcome, CleaningPlan, Source
from headrace.log.fs import FileSystem
from headrace.log.log import Log
from headrace.log.names import CLEANED, LOG
from headrace.log.open_files import OpenFiles
from headrace.log.segment import Segment
from headrace.log.swap import Replacement, Swap


class Cleaner:
    def __init__(
        self,
        fs: FileSystem,
        open_files: OpenFiles,
        cleaned_to: Mapping[TopicPartition, int],
        limits: CleanerLimits | None = None,
    ) -> None:
        self._fs = fs
        self._open_files = open_files
        self.cleaned_to = dict(cleaned_to)  # exclusive; partitions that were never cleaned are not in it
        self.uncleanable: dict[TopicPartition, str] = {}
        self.limits = limits or CleanerLimits()  # of the next rounds; they may change
        self._running: dict[TopicPartition, CleaningPlan] = {}

    def plan_dirtiest(self, logs: Iterable[tuple[TopicPartition, Log]], *, now_ms: int) -> CleaningPlan | None:
        """A round for the log with the largest part of dirt among those that are due; None if none is."""
        dirtiest: tuple[DirtyRange, TopicPartition, Log] | None = None
        for partition, log in logs:
            dirt = self._measure(partition, log, now_ms)
            if dirt is not None and (dirtiest is None or dirt.ratio > dirtiest[0].ratio):
                dirtiest = (dirt, partition, log)
        return None if dirtiest is None else self._plan(*dirtiest, now_ms=now_ms)

    def plan(self, partition: TopicPartition, log: Log, *, now_ms: int) -> CleaningPlan | None:
        """A round for this log; None if it is not due."""
        dirt = self._measure(partition, log, now_ms)
        return None if dirt is None else self._plan(dirt, partition, log, now_ms=now_ms)

    def _measure(self, partition: TopicPartition, log: Log, now_ms: int) -> DirtyRange | None:
        is_possible = log.config.is_compacted and log.failure is None and len(log.segments) > 1
        if not is_possible or partition in self._running or partition in self.uncleanable:
            return None
        dirt = measure_dirt(
            self._fs,
            list(log.segments),
            log.config,
            cleaned_to=self.cleaned_to.get(partition),
            log_start_offset=log.log_start_offset,
            log_end_offset=log.log_end_offset,
            last_stable_offset=log.last_stable_offset,
            now_ms=now_ms,
        )
        return dirt if dirt.is_due(log.config) else None

    def _plan(self, dirt: DirtyRange, partition: TopicPartition, log: Log, *, now_ms: int) -> CleaningPlan:
        segments = list(log.segments)
        sources = tuple(
            Source(segment.base_offset, following.base_offset, segment.size, segment.path(LOG))
            for segment, following in pairwise(segments)
            if segment.base_offset < dirt.end_offset
        )
        plan = CleaningPlan(
            partition=partition,
            fs=self._fs,
            directory=log.directory,
            config=log.config,
            limits=self.limits,
            sources=sources,
            first_dirty_offset=dirt.first_dirty_offset,
            aborted=tuple(log.aborted_transactions(sources[0].base_offset, dirt.end_offset)),
            producers=last_words(log.producers),
            now_ms=now_ms,
        )
        self._running[partition] = plan
        return plan

    def finish(self, log: Log, plan: CleaningPlan, outcome: CleaningOutcome) -> bool:
        """Swap the outcome of `plan` in, syncs included. False if nothing came of it. Raises StorageError."""
        swap = self.begin_swap(log, plan, outcome)
        if swap is None:
            return False
        try:
            swap.run()
        finally:
            is_done = self.end_swap(plan, outcome, swap)
        return is_done

    def begin_swap(self, log: Log, plan: CleaningPlan, outcome: CleaningOutcome) -> Swap | None:
        """What is left to do; None if there is no outcome, or if it no longer fits. `end_swap` must follow."""
        if self._running.get(plan.partition) is not plan:
            if plan.partition not in self._running:  # else a newer round writes there, and has cleared up already
                plan.discard()
            return None
        replaced = None
        if outcome.failure is not None:
            self.uncleanable[plan.partition] = outcome.failure
        elif not outcome.abandoned:
            replaced = _find_all(log, outcome.groups)
            if replaced is None:
                plan.discard()
        if replaced is None:
            del self._running[plan.partition]
            return None
        return Swap(
            log,
            [
                Replacement(old, self._cleaned_segment(log, group, plan.now_ms))
                for group, old in zip(outcome.groups, replaced, strict=True)
            ],
        )

    def end_swap(self, plan: CleaningPlan, outcome: CleaningOutcome, swap: Swap) -> bool:
        """The swap is over. True if the log is compacted."""
        if self._running.get(plan.partition) is not plan:
            return False  # the log was cut or deleted meanwhile
        del self._running[plan.partition]
        if swap.is_done:
            self.cleaned_to[plan.partition] = outcome.end_offset
        return swap.is_done

    def _cleaned_segment(self, log: Log, group: CleanedGroup, now_ms: int) -> Segment:
        return Segment(
            self._fs,
            log.directory,
            group.base_offset,
            group.size_bytes,
            log.config,
            open_files=self._open_files,
            now_ms=now_ms,
            stage=CLEANED,
        )

    def truncated(self, partition: TopicPartition, offset: int) -> None:
        """The log was cut: what it writes from `offset` on is dirty, and a round that runs has read what is gone."""
        self._running.pop(partition, None)
        if self.cleaned_to.get(partition, 0) > offset:
            self.cleaned_to[partition] = offset

    def forget(self, partition: TopicPartition) -> None:
        """The log is closed or deleted; a round that still runs for it leads to nothing."""
        self.cleaned_to.pop(partition, None)
        self.uncleanable.pop(partition, None)
        self._running.pop(partition, None)


def _find_all(log: Log, groups: Iterable[CleanedGroup]) -> list[list[Segment]] | None:
    """The segments of the log that the groups were made from; None if any of them is gone or has changed."""
    segments = {segment.base_offset: segment for segment in log.segments.sealed}
    found = []
    for group in groups:
        old = []
        for source in group.sources:
            segment = segments.get(source.base_offset)
            if segment is None or segment.size != source.size_bytes:
                return None
            old.append(segment)
        found.append(old)
    return found
