"""How far the user is: which records were handed out, and which of them are done with.

Records are handed out as lists of one partition. One that a poll returned is in the user's hands until the next poll:
then it is done with. One that is iterated over is done with up to the record before the last one that was taken. The
iteration itself runs without any code of ours; how far it is, the iterator tells (`__length_hint__`), on any thread.
"""

from collections.abc import Iterator
from operator import length_hint

from headrace.client.consumer_record import ConsumerRecord
from headrace.client.subscriptions import PartitionState, Place


class HandedOut:
    """Records of one partition that the user has. `end` is the position behind all of them."""

    __slots__ = ("end", "era", "iterator", "jumps", "records", "start", "state")

    def __init__(self, state: PartitionState, era: int, records: list[ConsumerRecord], end: Place) -> None:
        """`era` is the one in which the records were fetched: the partition may have jumped meanwhile."""
        assert state.position is not None, f"{state.partition} has records and no position"
        self.state = state
        self.era = era
        self.jumps = state.jumps  # as of `era`, if that is the present one when they are handed out
        self.records = records
        self.start = state.position
        self.end = end
        self.iterator: Iterator[ConsumerRecord] | None = None  # of those that are iterated over

    @property
    def left(self) -> int:
        """Records that the user has not taken from the iterator yet."""
        return 0 if self.iterator is None else length_hint(self.iterator)

    @property
    def position(self) -> Place:
        """Behind the last record that the user took."""
        left = self.left
        return self._behind(len(self.records) - left) if left else self.end

    @property
    def done(self) -> Place:
        """Before the record that the user may be working at."""
        return self.start if self.iterator is None else self._behind(len(self.records) - self.left - 1)

    def _behind(self, count: int) -> Place:
        if count <= 0:
            return self.start
        try:
            record = self.records[count - 1]
        except IndexError:  # they were shortened at this moment
            return self.end
        return max(self.start, Place(record.offset + 1, record.leader_epoch))

    @property
    def is_current(self) -> bool:
        """Whether the partition is still assigned, and has not jumped since."""
        return self.jumps == self.state.jumps

    def shorten(self) -> None:
        """Let the iteration end with the record that it is at, or one soon after it."""
        left = self.left
        if left:
            taken = len(self.records) - left
            self.end = self.position
            del self.records[taken:]


class Progress:
    """What is in the user's hands. Used by the user's thread; the loop only asks."""

    __slots__ = ("_handed",)

    def __init__(self) -> None:
        self._handed: tuple[HandedOut, ...] = ()  # replaced, never changed

    def hand_out(self, handed: HandedOut) -> None:
        handed.state.position = handed.end
        self._handed = (*self._handed, handed)

    def finish(self) -> None:
        """The user comes back: what it took is done with."""
        for each in self._handed:
            if each.is_current:
                each.start = each.state.done = each.position
        self._handed = tuple(each for each in self._handed if each.left and each.is_current)

    def abandon(self) -> None:
        """The user gives up: what it may have been working at is not done."""
        handed, self._handed = self._handed, ()
        for each in reversed(handed):  # of several of one partition the first counts
            if each.is_current:
                each.state.done = each.state.position = each.done

    def shorten(self) -> bool:
        """Let iterations over stopped partitions end with the record that they are at, or one soon after it.

        Whether the user has records of such partitions. Runs on the loop's thread while the user goes on: what it takes
        at this moment beyond the new end counts as not taken, and comes again.
        """
        stopped = [each for each in self._handed if each.state.is_stopped and each.is_current]
        for each in stopped:
            each.shorten()
        return bool(stopped)

    def cut(self) -> None:
        """Partitions have jumped, or were lost: an iteration does not go on with what it has of them."""
        for each in self._handed:
            if each.iterator is not None and not each.is_current:
                each.records.clear()  # the iterator ends then, wherever it is

    @property
    def leftover(self) -> HandedOut | None:
        """What is iterated over, and not all taken."""
        if not self._handed:
            return None
        return next((each for each in self._handed if each.left and each.is_current), None)

    def mark(self) -> object:
        """Something that differs when the user has taken a record since."""
        return [(id(each), each.left) for each in self._handed]

    def position(self, state: PartitionState) -> Place | None:
        """Of a partition, as the user sees it."""
        for each in reversed(self._handed):
            if each.state is state and each.is_current:
                return each.position
        return state.position

    def done(self, state: PartitionState) -> Place | None:
        """Up to where everything is done with."""
        for each in self._handed:
            if each.state is state and each.is_current:
                return each.done
        return state.done
