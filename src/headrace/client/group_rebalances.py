"""Partitions come and go: in step with the user, who may be working at records of them.

A partition is taken away only when the user is not working at its records: when it comes back for more, or waits for
them. Then what is done with is committed, if that is automatic; then the user's listener hears of it; then it is gone,
and only then may the group give it to another member. New partitions are fetched when the listener has heard of them.
Only partitions that are lost anyway do not wait for anybody.
"""

from collections.abc import Callable, Collection, Iterable
from typing import Any

from headrace.client.consumer_inbox import Inbox
from headrace.client.consumer_progress import Progress
from headrace.client.group_notices import Kind, Listeners, RebalanceNotice
from headrace.client.subscriptions import PartitionState, Subscriptions
from headrace.client.topic_partition import TopicPartition


class Rebalances:
    """On the client's loop."""

    def __init__(
        self,
        subscriptions: Subscriptions,
        inbox: Inbox,
        progress: Progress,
        *,
        commit: Callable[[Collection[TopicPartition]], Any],
        on_changed: Callable[[], None],
    ) -> None:
        """`commit` is a coroutine function that commits what is done with; `on_changed` is called after each change."""
        self._subscriptions = subscriptions
        self._inbox = inbox
        self._progress = progress
        self._commit = commit
        self._on_changed = on_changed
        self.listeners = Listeners()

    @property
    def owned(self) -> set[TopicPartition]:
        return set(self._subscriptions.partitions)

    async def prepare(self, notice: RebalanceNotice) -> None:
        """Before the listener hears of it."""
        if notice.kind is Kind.REVOKED and not notice.is_prepared:
            await self._commit(notice.partitions)
            notice.is_prepared = True  # only now: whoever waits for it may be interrupted, and come again

    async def revoke(self, partitions: Iterable[TopicPartition]) -> None:
        """Give these up; when it returns, the user has nothing to do with them any more."""
        going = self.owned.intersection(partitions)
        if not going:
            return
        states = [self._subscriptions.partitions[partition] for partition in going]
        notice = RebalanceNotice(Kind.REVOKED, going, self.listeners.of(Kind.REVOKED))
        try:
            if self._inbox.stop(states, self._progress) or notice.listener is not None:
                self._inbox.notify(notice)
                await notice.wait()
            await self.prepare(notice)
        except BaseException:
            self._go_on_with(states)
            raise
        self._keep(self.owned - going)

    def _go_on_with(self, states: Iterable[PartitionState]) -> None:
        """They stay after all. What was fetched of them has been dropped meanwhile."""
        for state in states:
            place = self._progress.position(state)
            if place is not None:
                self._inbox.refetch(state, place)
            state.is_stopped = False

    def lose(self, partitions: Iterable[TopicPartition]) -> None:
        """They went to others already."""
        lost = self.owned.intersection(partitions)
        if lost:
            self._keep(self.owned - lost)
            if (listener := self.listeners.of(Kind.LOST)) is not None:
                self._inbox.notify(RebalanceNotice(Kind.LOST, lost, listener))

    async def assign(self, partitions: Collection[TopicPartition]) -> None:
        """Own these and no others; those that are not among them have been revoked before."""
        new = set(partitions) - self.owned
        listener = self.listeners.of(Kind.ASSIGNED)
        self._subscriptions.set_partitions(sorted(partitions), is_held=listener is not None)
        self._on_changed()
        if new and listener is not None:
            notice = RebalanceNotice(Kind.ASSIGNED, new, listener)
            self._inbox.notify(notice)
            try:
                await notice.wait()
            finally:
                for partition in new & self.owned:
                    self._subscriptions.partitions[partition].is_held = False
                self._on_changed()

    def _keep(self, partitions: Iterable[TopicPartition]) -> None:
        self._subscriptions.set_partitions(sorted(partitions))
        self._on_changed()
