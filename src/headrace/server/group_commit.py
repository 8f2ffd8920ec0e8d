"""Syncs that acknowledgements wait for: one round at a time, for all logs that want one.

A sync costs a hundred times what an append costs, so it is shared: while one round runs in the worker thread, appends
go on, and all that was appended meanwhile goes into the next round.

A round syncs its logs side by side: the file system and the disk then share their work, too (a commit of the journal, a
flush of the disk's cache), and 16 logs take hardly longer than one. The threads for it exist only where they are used.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

from headrace.log.chores import FlushPlan
from headrace.log.errors import StorageError
from headrace.log.flush_round import run_plans

if TYPE_CHECKING:
    from headrace.server.partition import Partition
    from headrace.server.worker import Worker


SYNCS_AT_ONCE: Final = 8  # more threads help no more


class GroupCommit:
    __slots__ = ("_is_running", "_syncers", "_waiting", "_worker")

    def __init__(self, worker: "Worker") -> None:
        self._worker = worker
        self._waiting: dict[Partition, None] = {}
        self._is_running = False
        self._syncers: ThreadPoolExecutor | None = None

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
            if partition.log.is_deleted:
                continue
            try:
                plan = partition.log.plan_flush()
            except (StorageError, OSError) as error:  # it has failed, or its file cannot be opened now
                partition.flush_ended(error)
                continue
            if plan is None:
                partition.flush_ended()
            else:
                plans.append((partition, plan))
        if plans:
            self._is_running = True
            if self._syncers is None and len(plans) > 1:
                self._syncers = ThreadPoolExecutor(SYNCS_AT_ONCE, thread_name_prefix="headrace-sync")
            self._worker.submit(_Round(self, plans, self._syncers))

    def close(self) -> None:
        """After the worker."""
        if self._syncers is not None:
            self._syncers.shutdown()

    def ended(self) -> None:
        self._is_running = False
        if self._waiting:
            self._begin()


class _Round:
    __slots__ = ("_errors", "_owner", "_plans", "_syncers")

    def __init__(
        self, owner: GroupCommit, plans: "Sequence[tuple[Partition, FlushPlan]]", syncers: ThreadPoolExecutor | None
    ) -> None:
        self._owner = owner
        self._plans = plans
        self._syncers = syncers
        self._errors: list[OSError | None] = []

    def run(self) -> None:
        plans = [plan for _, plan in self._plans]
        run_all = map if self._syncers is None else self._syncers.map
        self._errors = run_plans(plans, run_all)

    def done(self) -> None:
        for (partition, plan), error in zip(self._plans, self._errors, strict=True):
            if error is None:
                plan.done()
            else:
                plan.failed(error)
            partition.flush_ended(error)
        self._owner.ended()

    def failed(self, error: OSError) -> None:
        raise AssertionError(f"a round keeps its errors to its logs, and raised {error!r}")
