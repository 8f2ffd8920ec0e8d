"""What the client's loop has for whoever consumes: fetched records, rebalances to hear of, errors.

The loop puts in, one other thread takes out, and waits if there is nothing. Everything goes by whole fetches: no lock
and no wake-up per record. The lock is held for a few instructions only.

How the other side waits is its own affair: `when_ready` takes a function that is called once, on the loop's thread, as
soon as there is something.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterable
from typing import NamedTuple

from headrace.client.consumer_progress import HandedOut, Progress
from headrace.client.consumer_record import ConsumerRecord
from headrace.client.fetch_decode import OpenBatch
from headrace.client.group_notices import RebalanceNotice
from headrace.client.subscriptions import PartitionState, Place


class Fetched:
    """What one fetch brought of one partition."""

    __slots__ = ("batches", "era", "next", "size_bytes", "state", "unread")

    def __init__(self, state: PartitionState, batches: list[OpenBatch], next_place: Place, size_bytes: int) -> None:
        self.state = state
        self.era = state.era
        self.batches = deque(batches)  # those that still hold records
        self.unread: list[ConsumerRecord] = []  # taken from the batches, and not handed out
        self.next = next_place  # the position behind all of it
        self.size_bytes = size_bytes

    @property
    def is_current(self) -> bool:
        """Whether the partition is still assigned, and has not jumped since."""
        return self.era == self.state.era


class _Problem(NamedTuple):
    """An error for the user; if it is about a partition, as long as the partition is there and has not jumped."""

    error: Exception
    state: PartitionState | None
    era: int

    @property
    def is_current(self) -> bool:
        return self.state is None or self.era == self.state.era


class Inbox:
    def __init__(self, *, on_room: Callable[[], None]) -> None:
        """`on_room` is called, on any thread, when there is room after `is_full` or `is_taken_soon` said otherwise."""
        self._lock = threading.Lock()
        self._fetched: deque[Fetched] = deque()
        self._notices: deque[RebalanceNotice] = deque()
        self._problems: deque[_Problem] = deque()
        self._bytes = 0
        self._last_error: Exception | None = None
        self._is_woken = False
        self._is_room_wanted = False
        self._is_return_wanted = False
        self._on_room = on_room
        self._on_ready: Callable[[], object] | None = None
        self.is_closed = False
        self.changes = 0  # counts what has ever come; whoever watches it sees whether something did

    @property
    def is_waited_for(self) -> bool:
        """Whether the other side waits for something to come."""
        return self._on_ready is not None

    # The loop's side

    def put(self, fetched: Fetched) -> None:
        with self._lock:
            self._fetched.append(fetched)
            self._bytes += fetched.size_bytes
            fetched.state.buffered_bytes += fetched.size_bytes
            self.changes += 1
            on_ready, self._on_ready = self._on_ready, None
        if on_ready is not None:
            on_ready()

    def notify(self, notice: RebalanceNotice) -> None:
        with self._lock:
            self._notices.append(notice)
        self._tell()

    def fail(self, error: Exception, about: PartitionState | None = None) -> None:
        """Raise it at the next poll; once, however often it comes until then, and not if the user seeks before."""
        with self._lock:
            if all(str(error) != str(known.error) for known in self._problems if known.is_current):
                self._problems.append(_Problem(error, about, -1 if about is None else about.era))
        self._tell()

    def break_off(self, error: Exception) -> None:
        """Raise it at every poll from now on."""
        self._last_error = error
        self._tell()

    def is_full(self, states: Iterable[PartitionState], *, partition_bytes: int, all_bytes: int) -> bool:
        """Whether one of the partitions, or all together, have enough. If so, `on_room` tells when to look again."""
        with self._lock:
            is_full = self._bytes >= all_bytes or any(state.buffered_bytes >= partition_bytes for state in states)
            self._is_room_wanted = self._is_room_wanted or is_full
            return is_full

    def is_taken_soon(self, up_to_bytes: int) -> bool:
        """Whether there is something, but little. If so, `on_room` tells when the other side waits for more.

        And not before: to wake the loop takes time, in which whoever has waited for a record would wait on.
        """
        with self._lock:
            is_little = 0 < self._bytes <= up_to_bytes
            self._is_return_wanted = self._is_return_wanted or is_little
            return is_little

    def drop_stale(self) -> None:
        """Forget what was fetched for partitions that were revoked, or have jumped."""
        with self._lock:
            self._drop_stale()

    def jump(self, state: PartitionState, place: Place) -> None:
        """Let the partition go on there, and forget what was fetched of it; but not while records are handed out."""
        with self._lock:
            state.jump(place)
            self._drop_stale()

    def refetch(self, state: PartitionState, place: Place) -> None:
        """The same from where the user is: what it has in its hands still counts, and is not done with."""
        with self._lock:
            state.refetch(place)
            self._drop_stale()

    def fall_back(self, state: PartitionState, end: Place) -> None:
        """Of what was read, the log has nothing beyond `end`: go on there, or where the user is if that is before."""
        with self._lock:  # else the user could get records between the look at its position and the jump
            position = state.position
            if position is not None and position.offset <= end.offset:
                state.refetch(position)
            else:
                state.jump(end)
            self._drop_stale()

    def _drop_stale(self) -> None:
        kept = deque(fetched for fetched in self._fetched if fetched.is_current)
        for fetched in self._fetched:
            if not fetched.is_current:
                self._count_out(fetched)
        self._fetched = kept

    def stop(self, states: Iterable[PartitionState], progress: Progress) -> bool:
        """Hand out no more records of these partitions; whether the user has some of them already.

        An iteration over such records ends with the one that it is at.
        """
        with self._lock:
            for state in states:
                state.is_stopped = True
            return progress.shorten()

    def close(self) -> None:
        self.is_closed = True
        self._tell()

    def touch(self) -> None:
        """Something else has changed: whoever waits looks again."""
        self._tell()

    def _tell(self) -> None:
        with self._lock:
            self.changes += 1
            on_ready, self._on_ready = self._on_ready, None
        if on_ready is not None:
            on_ready()

    # The consumer's side

    def wakeup(self) -> None:
        """From any thread: whoever waits, or waits next, is interrupted."""
        with self._lock:
            self._is_woken = True
        self._tell()

    def take_wakeup(self) -> bool:
        if not self._is_woken:
            return False
        with self._lock:
            was_woken, self._is_woken = self._is_woken, False
        return was_woken

    def take_error(self) -> Exception | None:
        if not self._problems:
            return self._last_error
        with self._lock:  # the loop may be looking through them
            while self._problems:
                problem = self._problems.popleft()
                if problem.is_current:
                    return problem.error
            return self._last_error

    def take_notice(self) -> RebalanceNotice | None:
        return self._notices.popleft() if self._notices else None

    def return_notice(self, notice: RebalanceNotice) -> None:
        """Whoever took it was interrupted before the listener was called: the next poll hears of it."""
        with self._lock:
            self._notices.appendleft(notice)

    def take(self) -> Fetched | None:
        """The oldest fetch of a partition that is not paused."""
        if not self._fetched:
            return None
        with self._lock:
            for place, fetched in enumerate(self._fetched):
                if not fetched.state.is_paused or not fetched.is_current:  # what is stale is dropped by the taker
                    del self._fetched[place]
                    self._count_out(fetched)
                    break
            else:
                return None
            was_wanted, self._is_room_wanted = self._is_room_wanted, False
        if was_wanted:
            self._on_room()
        return fetched

    def hand_out(self, handed: HandedOut, progress: Progress) -> bool:
        """Note that the user has these records now; False if it must not have them any more."""
        with self._lock:
            if handed.state.is_stopped or handed.era != handed.state.era:
                return False
            progress.hand_out(handed)
            return True

    def finish(self, progress: Progress) -> None:
        """The user comes back: what it took is done with. Not while the loop stops or moves partitions."""
        with self._lock:
            progress.finish()

    def abandon(self, progress: Progress) -> None:
        """The user gives up: what it may have been working at is not done."""
        with self._lock:
            progress.abandon()

    def put_back(self, fetched: Fetched) -> None:
        """It was taken, and is paused before all of it was read."""
        with self._lock:
            self._fetched.appendleft(fetched)
            self._bytes += fetched.size_bytes
            fetched.state.buffered_bytes += fetched.size_bytes

    def when_ready(self, on_ready: Callable[[], object], *, seen: int) -> bool:
        """Call it, on the loop's thread, when something comes; False if something came since `changes` was `seen`."""
        with self._lock:
            if self.changes != seen:
                return False
            self._on_ready = on_ready
            was_wanted, self._is_return_wanted = self._is_return_wanted, False
        if was_wanted:
            self._on_room()
        return True

    def stop_waiting(self) -> None:
        self._on_ready = None

    def _count_out(self, fetched: Fetched) -> None:
        self._bytes -= fetched.size_bytes
        fetched.state.buffered_bytes -= fetched.size_bytes
