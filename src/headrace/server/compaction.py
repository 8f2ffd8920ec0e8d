"""Compaction in the background: one log at a time, the dirtiest first, as a chore of the worker thread.

While a round runs, appends, reads and syncs go on (`Worker.pause`); its outcome is swapped in on the loop. When there
is nothing to do, compaction rests for `log.cleaner.backoff.ms`.
"""

import logging
from collections.abc import Callable, Mapping
from typing import Final

from headrace.log.checkpoints import TopicPartition
from headrace.log.cleaner import Cleaner
from headrace.log.cleaner_run import CleaningOutcome, CleaningPlan
from headrace.log.errors import StorageError
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
        self._clock = clock
        self._backoff_ms = backoff_ms
        self._timer: Timer | None = None
        self._is_stopped = False

    def start(self) -> None:
        self._timer = self._clock.call_later(self._backoff_ms, self._next)

    def stop(self) -> None:
        self._is_stopped = True
        if self._timer is not None:
            self._timer.cancel()

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
        if plan is None:
            self.start()
        else:
            self._worker.submit(_Clean(self, compacted[plan.partition], plan, self._worker.pause))

    def _forget_removed(self, compacted: Mapping[TopicPartition, Partition]) -> None:
        for place in [
            each for each in (*self._cleaner.cleaned_to, *self._cleaner.uncleanable) if each not in compacted
        ]:
            self._cleaner.forget(place)

    def ended(self, partition: Partition, plan: CleaningPlan, outcome: CleaningOutcome) -> None:
        if self._is_stopped:
            return
        if not self._partitions.has(partition):
            self._cleaner.forget(plan.partition)
        else:
            self._swap(partition, plan, outcome)
        self._next()

    def _swap(self, partition: Partition, plan: CleaningPlan, outcome: CleaningOutcome) -> None:
        try:
            self._cleaner.finish(partition.log, plan, outcome)
        except StorageError as error:
            _LOG.error("%r: %s", partition, error)
            return
        if outcome.failure is not None:
            _LOG.error("%r cannot be compacted: %s", partition, outcome.failure)


class _Clean:
    """A round of compaction as a chore."""

    def __init__(
        self, owner: Compaction, partition: Partition, plan: CleaningPlan, pause: Callable[[float], None]
    ) -> None:
        self._owner = owner
        self._partition = partition
        self._plan = plan
        self._pause = pause
        self._outcome: CleaningOutcome | None = None

    def run(self) -> None:
        self._outcome = self._plan.run(self._pause)

    def done(self) -> None:
        assert self._outcome is not None
        self._owner.ended(self._partition, self._plan, self._outcome)

    def failed(self, error: OSError) -> None:
        raise AssertionError(f"a round of compaction keeps its errors to its outcome, and raised {error!r}")
