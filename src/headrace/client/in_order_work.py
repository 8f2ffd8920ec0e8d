"""What "process in threads, commit in order" is made of: which offsets are done, and threads that work keys off.

A commit is an offset, not a record: it says that everything below it is done. With several threads records are done in
any order, so what may be committed is the highest offset below which all of them are. `Done` keeps that for one
partition.

Records of one partition with the same key stand in one line, and a line is worked off by one thread at a time: in
order. A line is there from its first record until its thread finds it empty; both are seen under one lock, so no line
ever has two threads, and no record is left in a line without one.
"""

import threading
from collections import deque
from collections.abc import Callable, Hashable, Iterable
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Self

from headrace.client.consumer_record import ConsumerRecord


class Done:
    """Which offsets of one partition are done. They are begun in rising order, with gaps where the log has some."""

    __slots__ = ("_begun", "_finished", "position")

    def __init__(self) -> None:
        self._begun: deque[int] = deque()  # those that are not below the position
        self._finished: set[int] = set()
        self.position: int | None = None  # below it all is done: what may be committed; None as long as nothing is

    def __len__(self) -> int:
        """How many were begun since the first one that is not done."""
        return len(self._begun)

    @property
    def next(self) -> int | None:
        """Where to go on if nothing is worked at any more: at the first that is not done."""
        return self._begun[0] if self._begun else self.position

    def begin(self, offset: int) -> None:
        assert not self._begun or offset > self._begun[-1], f"offset {offset} after {self._begun[-1]}"
        self._begun.append(offset)

    def finish(self, offset: int) -> None:
        self._finished.add(offset)
        while self._begun and self._begun[0] in self._finished:
            first = self._begun.popleft()
            self._finished.discard(first)
            self.position = first + 1


class OwnedPartition:
    """One partition, for as long as it is ours. If it comes back after it went, it is another one."""

    __slots__ = ("busy", "committed", "done", "is_over")

    def __init__(self) -> None:
        self.done = Done()
        self.committed: int | None = None
        self.busy = 0  # lines that have a thread, or wait for one
        self.is_over = False  # nothing of it is begun any more


class Workers:
    """Threads that call `work(record)`. The first exception of it ends all of them, and is the `failure`."""

    def __init__(self, work: Callable[[ConsumerRecord], object], threads: int) -> None:
        self._work = work
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="headrace-in-order")
        self._lines: dict[Hashable, deque[ConsumerRecord]] = {}
        self.changed = threading.Condition()  # guards everything, what is done included
        self.failure: BaseException | None = None

    def begin(self, owned: OwnedPartition, record: ConsumerRecord) -> None:
        line: Hashable = (owned, record.offset, None) if record.key is None else (owned, _hashable(record.key))
        with self.changed:
            owned.done.begin(record.offset)
            waiting = self._lines.get(line)
            if waiting is not None:
                waiting.append(record)
                return
            self._lines[line] = deque([record])
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
            while (record := self._next(owned, line)) is not None:
                self._work(record)
                with self.changed:
                    owned.done.finish(record.offset)
                    self.changed.notify_all()
        except BaseException as error:  # whatever it is, it is raised again on the thread that waits for us
            with self.changed:
                self.failure = self.failure or error
        with self.changed:
            owned.busy -= 1
            self.changed.notify_all()

    def _next(self, owned: OwnedPartition, line: Hashable) -> ConsumerRecord | None:
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
