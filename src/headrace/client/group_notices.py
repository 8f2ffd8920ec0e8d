"""What the user hears of partitions that come and go.

Listeners run on the user's thread: a notice is put into the inbox, and the user's side acknowledges it.
"""

import asyncio
from collections.abc import Callable, Iterable
from enum import Enum
from typing import Any

from headrace.client.topic_partition import TopicPartition

Listener = Callable[[list[TopicPartition]], Any]


class Kind(Enum):
    ASSIGNED = "assigned"
    REVOKED = "revoked"
    LOST = "lost"


class Listeners:
    """What the user wants to hear of. Without one of its own, what is lost counts as revoked."""

    def __init__(
        self,
        on_assigned: Listener | None = None,
        on_revoked: Listener | None = None,
        on_lost: Listener | None = None,
    ) -> None:
        self._by_kind = {Kind.ASSIGNED: on_assigned, Kind.REVOKED: on_revoked, Kind.LOST: on_lost or on_revoked}

    def of(self, kind: Kind) -> Listener | None:
        return self._by_kind[kind]


class RebalanceNotice:
    """For the user's side: let `prepare` run on the loop, call the listener, and acknowledge on the loop."""

    def __init__(self, kind: Kind, partitions: Iterable[TopicPartition], listener: Listener | None) -> None:
        self.kind = kind
        self.partitions = sorted(partitions)
        self.listener = listener
        self.is_prepared = False
        self.is_void = False  # nobody waits for it any more
        self._done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def acknowledge(self) -> None:
        if not self._done.done():
            self._done.set_result(None)

    async def wait(self) -> None:
        try:
            await self._done
        finally:
            self.is_void = True
