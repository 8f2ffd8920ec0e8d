"""What "process in threads, commit in order" is made of: which offsets are done, and threads that work keys off.

A commit is an offset, not a record: it says that everything below it is done. With several threads records are done in
any order, so what may be committed is the highest offset below which all of them are. `Done` keeps that for one
partition. If the log was cut, or the position is set back for another reason, the same offsets are begun again: what
was begun before counts only below the offset at which it went on.

Records of one partition with the same key stand in one line, and a line is worked off by one thread at a time: in
order. A line is there from its first record until its thread finds it empty; both are seen under one lock, so no line
ever has two threads, and no record is left in a line without one.
"""

import threading
from collections import deque
from collections.abc import Callable, Hashable, Iterable
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import NamedTuple, Self

from headrace.client.consumer_record import ConsumerRecord


class _Begun(NamedTuple):
    ticket: int
    offset: int  # where to go on if it is not done
    next_offset: int  # and if it is


class Done:
    """Which offsets of one partition are done. They are begun in rising order, with gaps where the log has some.

    Offsets that do not rise are those after a position that was set back.
    """

    __slots__ = ("_begun", "_finished", "_last", "_tickets", "position")

    def __init__(self) -> None:
        self._begun: deque[_Begun] = deque()  # from the first one on that is not done
        self._finished: set[int] = set()  # tickets of those that are done, and follow one that is not
        self._tickets = 0
        self._last = -1
        self.position: int | None = None  # below it all is done: what may be committed; None as long as nothing is

    def __len__(self) -> int:
        """How many were begun since the first one that is not done."""
        return len(self._begun)

    @property
    def next(self) -> int | None:
        """Where to go on if nothing is worked at any more: at the first that is not done."""
        return self._begun[0].offset if self._begun else self.position

    def begin(self, offset: int) -> int:
        """A ticket, for `finish`."""
        if offset <= self._last:
            self._set_back(offset)
        self._last = offset
        self._tickets += 1
        self._begun.append(_Begun(self._tickets, offset, offset + 1))
        return self._tickets

    def _set_back(self, offset: int) -> None:
        """What was begun from there on may be cut off: it is waited for, and nothing above is done by it."""
        self._begun = deque(
            _Begun(each.ticket, min(each.offset, offset), min(each.next_offset, offset)) for each in self._begun
        )
        if self.position is not None:
            self.position = min(self.position, offset)

    def finish(self, ticket: int) -> None:
        self._finished.add(ticket)
        while self._begun and self._begun[0].ticket in self._finished:
            first = self._begun.popleft()
            self._finished.discard(first.ticket)
            self.position = first.next_offset


class OwnedPartition:
    """One partition, for as long as it is ours. If it comes back after it went, it is another one."""

    __slots__ = ("busy", "committed", "done", "is_over")

    def __init__(self) -> None:
        self.done = Done()
        self.committed: int | None = None
        self.busy = 0  # lines that have a thread, or wait for one
        self.is_over = False  # nothing of it is begun any more


_Waiting = tuple[int, ConsumerRecord]  # with its ticket


class Workers:
    """Threads that call `work(record)`. The first exception of it ends all of them, and is the `failure`."""

    def __init__(self, work: Callable[[ConsumerRecord], object], threads: int) -> None:
        self._work = work
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="headrace-in-order")
        self._lines: dict[Hashable, deque[_Waiting]] = {}
        self.changed = threading.Condition()  # guards everything, what is done included
        self.failure: BaseException | None = None

    def begin(self, owned: OwnedPartition, record: ConsumerRecord) -> None:
        line: Hashable = (owned, record.offset, None) if record.key is None else (owned, _hashable(record.key))
        with self.changed:
            begun = owned.done.begin(record.offset), record
            waiting = self._lines.get(line)
            if waiting is not None:
                waiting.append(begun)
                return
            self._lines[line] = deque([begun])
            owned.busy += 1
        self._pool.submit(self._work_off, owned, line)

    def end(self, partitions: Iterable[OwnedPartition]) -> None:
        """Wait for the records of these that are being worked at; those that wait for a thread are not begun."""
        ending = list(partitions)
        with self.changed:
            for owned in ending:
                owned.is_over = True
            self.changed.wait_for(lambda: not any(owned.busy for owned in ending))

    def drop(self, partitions: Iterable[OwnedPartition]) -> None:
        """The same without waiting."""
        with self.changed:
            for owned in partitions:
                owned.is_over = True

    def _work_off(self, owned: OwnedPartition, line: Hashable) -> None:
        try:
            while (begun := self._next(owned, line)) is not None:
                ticket, record = begun
                self._work(record)
                with self.changed:
                    owned.done.finish(ticket)
                    self.changed.notify_all()
        except BaseException as error:  # whatever it is, it is raised again on the thread that waits for us
            with self.changed:
                self.failure = self.failure or error
        with self.changed:
            owned.busy -= 1
            self.changed.notify_all()

    def _next(self, owned: OwnedPartition, line: Hashable) -> _Waiting | None:
        """The next record of a line; None if that was the last one, and the line is gone with it."""
        with self.changed:
            waiting = self._lines[line]
            if waiting and not owned.is_over and self.failure is None:
                return waiting.popleft()
            del self._lines[line]
            return None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pool.shutdown()


def _hashable(key: object) -> Hashable:
    try:
        hash(key)
    except TypeError:
        return repr(key)
    return key  # type: ignore[return-value, unused-ignore]
