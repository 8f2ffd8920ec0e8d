"""Compaction in the background: one log at a time, the dirtiest first, as a chore of the worker thread.

A round runs in a process of its own (`cleaner_process`), and the worker waits for it. Meanwhile appends, reads and
syncs go on (`Worker.pause`). Its outcome is swapped in step by step (see
`log.swap`): the steps on the loop, the sync after each of them in the worker. When there is nothing to do, compaction
rests for `log.cleaner.backoff.ms`; also when there is no file descriptor for a sync, which is then tried again.
Whatever a stop interrupts, the next start settles.
"""

import logging
from collections.abc import Callable, Mapping
from typing import Final

from headrace.log.checkpoints import TopicPartition
from headrace.log.cleaner import Cleaner
from headrace.log.cleaner_run import CleaningOutcome, CleaningPlan, Pause
from headrace.log.errors import StorageError, is_without_descriptor
from headrace.log.swap import Swap
from headrace.server.cleaner_process import CleanerProcess
from headrace.server.clock import Clock, Timer
from headrace.server.partition import Partition
from headrace.server.partitions import Partitions
from headrace.server.worker import Worker

_LOG: Final = logging.getLogger(__name__)


class Compaction:
    def __init__(
        self,
        partitions: Partitions,
        worker: Worker,
        cleaner: Cleaner,
        clock: Clock,
        backoff_ms: int,
    ) -> None:
        self._partitions = partitions
        self._worker = worker
        self._cleaner = cleaner
        self._process = CleanerProcess()
        self._clock = clock
        self.backoff_ms = backoff_ms  # may change, and holds from the next rest on
        self._timer: Timer | None = None
        self._is_stopped = False
        self._is_short_of_room = False

    def start(self) -> None:
        self._timer = self._clock.call_later(self.backoff_ms, self._next)

    def stop(self) -> None:
        self._is_stopped = True
        if self._timer is not None:
            self._timer.cancel()

    def close(self) -> None:
        """When the worker has ended."""
        self._process.close()

    def _next(self) -> None:
        if not self._worker.has_room:
            self.start()
            return
        compacted = {
            TopicPartition(partition.topic, partition.index): partition
            for partition in self._partitions
            if partition.log.config.is_compacted
        }
        self._forget_removed(compacted)
        plan = self._cleaner.plan_dirtiest(
            ((place, partition.log) for place, partition in compacted.items()), now_ms=self._clock.now_ms()
        )
        if plan is not None:
            self._worker.submit(_Clean(self, compacted[plan.partition], plan, self._process, self._worker.pause))
            return
        if self._process.is_there:
            self._worker.submit(_Rest(self._process))
        self.start()

    def _forget_removed(self, compacted: Mapping[TopicPartition, Partition]) -> None:
        for place in [
            each for each in (*self._cleaner.cleaned_to, *self._cleaner.uncleanable) if each not in compacted
        ]:
            self._cleaner.forget(place)

    # The end of a round

    def ended(self, partition: Partition, plan: CleaningPlan, outcome: CleaningOutcome) -> None:
        if self._is_stopped:
            return
        if outcome.failure is not None:
            _LOG.error("%r cannot be compacted: %s", partition, outcome.failure)
        swap = None
        if not self._partitions.has(partition):
            self._cleaner.forget(plan.partition)
        else:
            swap = self._cleaner.begin_swap(partition.log, plan, outcome)
        if outcome.no_room is not None:
            self._has_no_room(partition, outcome.no_room)
        elif swap is None:
            self._next()
        else:
            self.go_on(_Step(self, partition, plan, outcome, swap))

    def _has_no_room(self, partition: Partition, reason: str, then: Callable[[], None] | None = None) -> None:
        """It rests before it tries again: what it writes in vain would be missing for others. It says so once."""
        if not self._is_short_of_room:
            _LOG.error("%r cannot be compacted: %s. It is tried again and again; make room.", partition, reason)
        self._is_short_of_room = True
        self._timer = self._clock.call_later(self.backoff_ms, then or self._next)

    def _sync_again(self, step: "_Step") -> None:
        """The directory could not be opened, so the sync has not begun. One that has, and failed, never is again."""
        if self._partitions.has(step.partition):
            self._worker.submit(step)
        else:
            self.go_on(step)

    def go_on(self, step: "_Step", sync_error: OSError | None = None) -> None:
        """The next step of a swap; its sync calls this again."""
        if self._is_stopped:
            return
        try:
            if self._partitions.has(step.partition):
                if sync_error is not None and is_without_descriptor(sync_error):
                    self._has_no_room(step.partition, str(sync_error), then=lambda: self._sync_again(step))
                    return
                if sync_error is not None:
                    raise step.swap.failed(sync_error)
                if step.swap.step():
                    self._worker.submit(step)
                    return
        except StorageError as error:
            _LOG.error("%r: %s", step.partition, error)
        self._is_short_of_room = False
        self._cleaner.end_swap(step.plan, step.outcome, step.swap)
        self._next()


class _Clean:
    """A round of compaction as a chore."""

    def __init__(
        self, owner: Compaction, partition: Partition, plan: CleaningPlan, process: CleanerProcess, pause: Pause
    ) -> None:
        self._owner = owner
        self._partition = partition
        self._plan = plan
        self._process = process
        self._pause = pause
        self._outcome: CleaningOutcome | None = None

    def run(self) -> None:
        self._outcome = self._process.run(self._plan, self._pause)

    def done(self) -> None:
        assert self._outcome is not None
        self._owner.ended(self._partition, self._plan, self._outcome)

    def failed(self, error: OSError) -> None:
        raise AssertionError(f"a round of compaction keeps its errors to its outcome, and raised {error!r}")


class _Step:
    """The sync between two steps of a swap as a chore."""

    def __init__(
        self, owner: Compaction, partition: Partition, plan: CleaningPlan, outcome: CleaningOutcome, swap: Swap
    ) -> None:
        self._owner = owner
        self.partition = partition
        self.plan = plan
        self.outcome = outcome
        self.swap = swap

    def run(self) -> None:
        self.swap.sync()

    def done(self) -> None:
        self._owner.go_on(self)

    def failed(self, error: OSError) -> None:
        self._owner.go_on(self, error)


class _Rest:
    """The end of the process as a chore, when no round is due."""

    def __init__(self, process: CleanerProcess) -> None:
        self._process = process

    def run(self) -> None:
        self._process.close()

    def done(self) -> None: ...

    def failed(self, error: OSError) -> None:
        _LOG.error("the process that compacts does not end: %s", error)
