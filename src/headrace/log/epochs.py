"""Leader epochs of one log: which epoch wrote from which offset on.

Theory. Each leader stamps its epoch into the batches it appends, so a log is a row of epochs, and two replicas have
the same records up to the end of the last epoch that they share. A follower asks its leader where an epoch ended
(`end_offset_for`) and truncates itself to that; a consumer asks the same to learn that its position was truncated.
Entries are the epochs that have records, each with its first offset; both grow strictly from left to right.

Kept in `leader-epoch-checkpoint`, a text file with Kafka's exact content. It must never lack an entry that the log
needs: `assign` says whether it changed something, and the log writes the file before it goes on. Entries too many do
no harm, since opening a log truncates them.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from operator import itemgetter
from typing import Final, NamedTuple

from headrace.log.checkpoints import TABLE_VERSION, parse_number, parse_table
from headrace.log.errors import CorruptCheckpointError

FILE_NAME: Final = "leader-epoch-checkpoint"
UNKNOWN_EPOCH: Final = -1
UNKNOWN_OFFSET: Final = -1

_epoch_of: Final = itemgetter(0)
_start_of: Final = itemgetter(1)


class EpochEntry(NamedTuple):
    epoch: int
    start_offset: int


class EpochHistory:
    """Invariant: epochs and start offsets of `entries` both grow strictly."""

    __slots__ = ("_entries",)

    def __init__(self, entries: Iterable[tuple[int, int]] = ()) -> None:
        self._entries: list[EpochEntry] = []
        for epoch, start_offset in entries:
            self.assign(epoch, start_offset)

    @property
    def entries(self) -> list[EpochEntry]:
        return list(self._entries)

    @property
    def latest_epoch(self) -> int | None:
        return self._entries[-1].epoch if self._entries else None

    @property
    def earliest(self) -> EpochEntry | None:
        return self._entries[0] if self._entries else None

    def assign(self, epoch: int, start_offset: int) -> bool:
        """`epoch` writes from `start_offset` on. True if that is news.

        The log is right and the history follows: entries at or above the new one, by epoch or by offset, are dropped.
        They were of epochs without records, or of records that a truncation has removed.
        """
        assert epoch >= 0, epoch
        assert start_offset >= 0, start_offset
        entries = self._entries
        if entries and entries[-1].epoch == epoch and start_offset >= entries[-1].start_offset:
            return False
        while entries and (entries[-1].epoch >= epoch or entries[-1].start_offset >= start_offset):
            entries.pop()
        entries.append(EpochEntry(epoch, start_offset))
        return True

    def epoch_at(self, offset: int) -> int | None:
        """The epoch that wrote `offset`; None before the first entry."""
        index = bisect_right(self._entries, offset, key=_start_of)
        return self._entries[index - 1].epoch if index else None

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """The largest known epoch up to `epoch`, and where it ended, as OffsetForLeaderEpoch answers.

        An epoch older than all known ones answers itself and the start of the first: its records were deleted, and a
        follower should go on from there. An epoch newer than all known ones, or -1, is unknown: (-1, -1).
        """
        entries = self._entries
        if epoch == UNKNOWN_EPOCH or not entries or epoch > entries[-1].epoch:
            return UNKNOWN_EPOCH, UNKNOWN_OFFSET
        if epoch == entries[-1].epoch:
            return epoch, log_end_offset
        index = bisect_right(entries, epoch, key=_epoch_of)
        found = entries[index - 1].epoch if index else epoch
        return found, entries[index].start_offset

    def truncate_from_end(self, offset: int) -> bool:
        """Drop the epochs that began at `offset` or later. True if there were any."""
        index = bisect_left(self._entries, offset, key=_start_of)
        changed = index < len(self._entries)
        del self._entries[index:]
        return changed

    def truncate_from_start(self, offset: int) -> bool:
        """Drop the epochs that ended before `offset`; the one that wrote it starts there now. True if that is news."""
        index = bisect_right(self._entries, offset, key=_start_of)
        if not index or (index == 1 and self._entries[0].start_offset == offset):
            return False
        self._entries[:index] = [EpochEntry(self._entries[index - 1].epoch, offset)]
        return True

    def clear(self) -> None:
        self._entries.clear()

    def format(self) -> str:
        lines = [f"{epoch} {start_offset}\n" for epoch, start_offset in self._entries]
        return f"{TABLE_VERSION}\n{len(lines)}\n{''.join(lines)}"

    @classmethod
    def parse(cls, text: str, *, path: str = FILE_NAME) -> "EpochHistory":
        """Raises CorruptCheckpointError with the line. Entries that contradict one another are settled by `assign`."""
        history = cls()
        for line, fields in parse_table(text, path=path):
            numbers = [parse_number(field, path=path, line=line) for field in fields]
            if len(numbers) != 2 or min(numbers) < 0:
                raise CorruptCheckpointError(
                    f"{path}, line {line}: {' '.join(fields)!r}, expected epoch and start offset"
                )
            history.assign(numbers[0], numbers[1])
        return history
