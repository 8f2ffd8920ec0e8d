"""What waits at a partition: fetches for more records, and producers for their acknowledgement.

Fetches. A `Watch` is the set of partitions that one fetch, or one session of fetches, looks at. Each partition knows
who watches it and says when there is news: an append, a higher high watermark or log start, another leader, deletion.
The watch notes which partitions are `ready`, that is, may have something to tell; a fetch looks at those only. So a
session of a thousand idle partitions costs nothing, and an append that nobody watches costs one look at a dictionary.
While a fetch is parked, news wake it: it looks once more, and parks again if there is still too little.

Producers. An acknowledgement of acks=all waits until the high watermark passes the batch. Appends give growing offsets,
so each partition keeps its waiting ones in a row and releases them from the front.

What waits is bounded by the connections: each has a limit of requests in flight, and what waits for a connection is
forgotten when it goes (`Later.on_abandon`).
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol

from headrace.protocol.error_codes import ErrorCode
from headrace.server.clock import Clock, Timer
from headrace.server.later import Later

if TYPE_CHECKING:
    from headrace.server.partition import Partition

ANY_SIZE: Final = 1 << 62  # news that no fetch may sleep through, however much it waits for


class Watcher(Protocol):
    """Who is told by a partition."""

    def tell(self, size_bytes: int, /) -> None:
        """There is news of about this size."""


class Watched:
    """One partition as a fetch asks for it. `topic` is a name or an id, as the client said it."""

    __slots__ = (
        "current_leader_epoch",
        "fetch_offset",
        "index",
        "last_fetched_epoch",
        "max_bytes",
        "partition",
        "sent_high_watermark",
        "sent_log_start_offset",
        "topic",
        "watch",
    )

    def __init__(self, watch: "Watch", topic: str | bytes, index: int) -> None:
        self.watch = watch
        self.topic = topic
        self.index = index
        self.fetch_offset = 0
        self.max_bytes = 0
        self.current_leader_epoch = -1
        self.last_fetched_epoch = -1
        self.partition: Partition | None = None  # where the watch hears of news
        self.sent_high_watermark = -1
        self.sent_log_start_offset = -1

    def attach(self, partition: "Partition") -> None:
        if self.partition is not partition:
            self.detach()
            self.partition = partition
            partition.watchers[self] = None

    def detach(self) -> None:
        if self.partition is not None:
            self.partition.watchers.pop(self, None)
            self.partition = None

    def tell(self, size_bytes: int) -> None:
        """There is news of about this size."""
        watch = self.watch
        watch.ready[self] = None
        parked = watch.parked
        if parked is None:
            self.detach()  # once is enough until the next look: a session whose client is gone must not cost anything
        else:
            parked.missing_bytes -= size_bytes
            if parked.missing_bytes <= 0:
                parked.wake()


class Watch:
    __slots__ = ("parked", "partitions", "ready")

    def __init__(self) -> None:
        self.partitions: dict[tuple[str | bytes, int], Watched] = {}
        self.ready: dict[Watched, None] = {}  # in the order in which they are served
        self.parked: Parked | None = None

    def add(self, topic: str | bytes, index: int) -> Watched:
        """The partition, ready to be looked at; it may be watched already."""
        watched = self.partitions.get((topic, index))
        if watched is None:
            watched = self.partitions[topic, index] = Watched(self, topic, index)
        self.ready[watched] = None
        return watched

    def remove(self, topic: str | bytes, index: int) -> None:
        watched = self.partitions.pop((topic, index), None)
        if watched is not None:
            watched.detach()
            self.ready.pop(watched, None)

    def refuse_parked(self, code: ErrorCode) -> None:
        """If a fetch waits with this watch, it gets this answer."""
        if self.parked is not None:
            self.parked.refuse(code)

    def close(self) -> None:
        """Nobody looks any more."""
        for watched in self.partitions.values():
            if watched.partition is not None:
                watched.detach()
        # Without cycles, what a request leaves goes with it; with them it would wait for the garbage collector.
        self.partitions.clear()
        self.ready.clear()


class Parked:
    """A fetch that waits. `look` returns False if there is still too little; it is given whether time is up.

    `refuse` answers with an error instead.
    """

    __slots__ = ("_look", "_refuse", "_timer", "_watch", "missing_bytes")

    def __init__(
        self,
        watch: Watch,
        *,
        missing_bytes: int,
        clock: Clock,
        max_wait_ms: int,
        look: Callable[[bool], bool],
        refuse: Callable[[ErrorCode], None],
    ) -> None:
        assert watch.parked is None, "one fetch at a time waits with a watch"
        self._watch = watch
        self._look = look
        self._refuse = refuse
        self.missing_bytes = missing_bytes  # news of fewer bytes than that cannot be enough
        watch.parked = self
        self._timer: Timer = clock.call_later(max_wait_ms, self._time_is_up)

    def wake(self) -> None:
        self._watch.parked = None  # what the look itself causes must not wake it again
        if self._look(False):
            self._timer.cancel()
        else:
            self._watch.parked = self

    def _time_is_up(self) -> None:
        self._watch.parked = None
        self._look(True)

    def refuse(self, code: ErrorCode) -> None:
        self.leave()
        self._refuse(code)

    def leave(self) -> None:
        """It waits no more, without a last look."""
        self._timer.cancel()
        self._watch.parked = None


class Waiting(Protocol):
    """What waits for the high watermark, in the row of a partition."""

    def settle(self, slot: int, code: ErrorCode, /) -> None: ...


class Acknowledgements:
    """One request with acks=all that waits for several partitions. `finish` gets the code of each, in their order."""

    __slots__ = ("_codes", "_later", "_timer", "_waiting")

    def __init__(self, places: "list[tuple[Partition, int]]", *, clock: Clock, timeout_ms: int) -> None:
        """`places`: partitions and the last offset in each that the high watermark must pass."""
        self._codes = [ErrorCode.REQUEST_TIMED_OUT] * len(places)
        self._waiting = len(places)
        self._later: Later[list[ErrorCode]] = Later()
        self._later.on_abandon(self._leave)
        self._timer: Timer = clock.call_later(max(timeout_ms, 0), self._time_is_up)
        for slot, (partition, last_offset) in enumerate(places):
            partition.wait(last_offset, self, slot)

    @property
    def codes(self) -> Later[list[ErrorCode]]:
        return self._later

    def settle(self, slot: int, code: ErrorCode) -> None:
        """The fate of one place is known. Late news are none."""
        if self._waiting == 0:
            return
        self._codes[slot] = code
        self._waiting -= 1
        if self._waiting == 0:
            self._timer.cancel()
            self._later.resolve(self._codes)

    def _time_is_up(self) -> None:
        self._waiting = 0
        self._later.resolve(self._codes)

    def _leave(self) -> None:
        # The entries in the rows of the partitions stay until the high watermark passes them: they cost little.
        self._waiting = 0
        self._timer.cancel()
