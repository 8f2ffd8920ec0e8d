"""Syncs that acknowledgements wait for: one round at a time, for all logs that want one.

A sync costs a hundred times what an append costs, so it is shared: while one round runs in the worker thread, appends
go on, and all that was appended meanwhile goes into the next round.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from headrace.log.chores import FlushPlan
from headrace.log.errors import StorageError

if TYPE_CHECKING:
    from headrace.server.partition import Partition
    from headrace.server.worker import Worker


class GroupCommit:
    __slots__ = ("_is_running", "_waiting", "_worker")

    def __init__(self, worker: "Worker") -> None:
        self._worker = worker
        self._waiting: dict[Partition, None] = {}
        self._is_running = False

    def add(self, partition: "Partition") -> None:
        """Make all that the partition's log has now durable, and tell the partition."""
        self._waiting[partition] = None
        if not self._is_running:
            self._begin()

    def _begin(self) -> None:
        if self._worker.is_closing:
            return  # whoever waits has gone; closing the logs syncs them
        partitions, self._waiting = self._waiting, {}
        plans: list[tuple[Partition, FlushPlan]] = []
        for partition in partitions:
            try:
                plan = partition.log.plan_flush()
            except StorageError:
                partition.flush_ended()
                continue
            if plan is None:
                partition.flush_ended()
            else:
                plans.append((partition, plan))
        if plans:
            self._is_running = True
            self._worker.submit(_Round(self, plans))

    def ended(self) -> None:
        self._is_running = False
        if self._waiting:
            self._begin()


class _Round:
    __slots__ = ("_errors", "_owner", "_plans")

    def __init__(self, owner: GroupCommit, plans: "Sequence[tuple[Partition, FlushPlan]]") -> None:
        self._owner = owner
        self._plans = plans
        self._errors: list[OSError | None] = []

    def run(self) -> None:
        for _, plan in self._plans:
            try:
                plan.run()
            except OSError as error:  # of one log; the others are not concerned
                self._errors.append(error)
            else:
                self._errors.append(None)

    def done(self) -> None:
        for (partition, plan), error in zip(self._plans, self._errors, strict=True):
            if error is None:
                plan.done()
            else:
                plan.failed(error)
            partition.flush_ended()
        self._owner.ended()

    def failed(self, error: OSError) -> None:
        raise AssertionError(f"a round keeps its errors to its logs, and raised {error!r}")
