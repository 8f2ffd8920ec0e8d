"""What a snapshot has forgotten of its producers, read again from the log when a retry may be about it.

Kafka's snapshot keeps the last batch of each producer. A client may have five on their way, and after a restart it
sends again those whose answers it has not seen: all but the last would look as if a batch before them were missing. So
before a batch is refused, and only then, its producer's window is filled from the batches before the snapshot. An
opening reads nothing for it.

The walk goes back from the snapshot's offset, block by block, and only as far as the window in question needs it. What
it passes fills the windows of other producers, too, and the next question goes on where it stopped: no batch is read
twice, and however many producers ask, a log that was loaded once reads no more than RECALLED_BYTES and
RECALLED_BATCHES.

The snapshot is the truth about the last batch. One before it is believed if it is of the same epoch and its sequence
leads to the batch behind it. Where that ends (an epoch began, or compaction took a batch), so does the window. Before
segments so near are deleted or compacted, the windows are filled unasked: afterwards it would be too late.
"""

import contextlib
from typing import TYPE_CHECKING, Final

from headrace.log.errors import StorageError, reading
from headrace.log.producers import MAX_SEQUENCE, ProducerState, ProducerStates
from headrace.log.scan import RawHeader, headers
from headrace.log.segment import Segment
from headrace.log.segments import Segments
from headrace.protocol.batch import CONTROL_FLAG
from headrace.protocol.errors import CorruptBatchError

if TYPE_CHECKING:
    from headrace.log.log import Log

# A retry that matters was on its way when the broker stopped, and stands near the end: these are 16 batches of the
# largest usual size, or a tenth of a second and more of a busy partition. The walk takes 12 ms of the processor, once.
RECALLED_BYTES: Final = 16 << 20
RECALLED_BATCHES: Final = 20_000  # small ones cost by their number
_BLOCK_BYTES: Final = (
    256 << 10
)  # how far one step goes back; more only where batches or index entries are further apart
_READ_BYTES: Final = 64 << 10  # of a batch that is larger only the header is needed


def keep_windows(log: "Log", doomed_to: int) -> None:
    """Batches before this offset are about to go: look now for what may be asked for later."""
    log.load_producers_if_easy()
    states = log.producer_states
    if states is not None:
        with contextlib.suppress(StorageError):  # a log whose past cannot be read must still become smaller
            states.recall_all(doomed_to)


class ProducerRecall:
    """The walk back from a snapshot."""

    __slots__ = ("_batches_left", "_bytes_left", "_directory", "_offset", "_segments")

    def __init__(self, directory: str, segments: Segments, snapshot_offset: int) -> None:
        self._directory = directory
        self._segments = segments
        self._offset = snapshot_offset  # everything from here on is known, as far as it was of use
        self._bytes_left = RECALLED_BYTES
        self._batches_left = RECALLED_BATCHES

    def fill(self, wanted: ProducerState, states: ProducerStates) -> None:
        """Bring the batches back that the window of `wanted` lacks, as far as they can be had. Raises StorageError."""
        while wanted.may_lack_batches:
            if not self._fill_from_next_block(states):
                wanted.is_cut_short = False

    def fill_all(self, states: ProducerStates, *, doomed_to: int) -> None:
        """The same for everybody, if what goes up to this offset is near enough to be read. Raises StorageError."""
        kept = [each.size for each in self._segments.from_offset(doomed_to) if each.base_offset < self._offset]
        if sum(kept) < self._bytes_left:
            while any(state.may_lack_batches for state in states) and self._fill_from_next_block(states):
                pass

    def _fill_from_next_block(self, states: ProducerStates) -> bool:
        with reading("older batches of producers", self._directory):
            batches = self._step_back()
        for header in reversed(batches):
            state = states.get(header[9])
            if state is not None and state.may_lack_batches:
                _recall(state, header)
        return bool(batches)

    def _step_back(self) -> list[RawHeader]:
        """The headers of the block before those that were read; none where the log begins, or a bound is met."""
        while self._offset > self._segments[0].base_offset and self._batches_left > 0 and self._bytes_left > 0:
            segment = self._segments[self._segments.index_of(self._offset - 1)]
            try:
                batches, size_bytes = _read_block(segment, self._offset, max_bytes=self._bytes_left)
            except CorruptBatchError:
                batches, size_bytes = [], RECALLED_BYTES  # somebody has damaged the file: who reads it will hear of it
            self._offset = batches[0][0] if batches else segment.base_offset
            self._bytes_left -= size_bytes
            self._batches_left -= len(batches)
            if batches:
                return batches
        return []


def _read_block(segment: Segment, end_offset: int, *, max_bytes: int) -> tuple[list[RawHeader], int]:
    """The headers of the last batches before `end_offset`; none if they have more than `max_bytes`. And how many."""
    end = segment.find(end_offset)
    end = segment.size if end is None else end
    start = _block_start(segment, end)
    if end - start > max_bytes:
        return [], end - start
    return [header for _, header in headers(segment.file, start, end, read_bytes=_READ_BYTES)], end - start


def _block_start(segment: Segment, end: int) -> int:
    """Where a batch begins, about a block before `end`."""
    limit = end - _BLOCK_BYTES
    if limit < 0:
        return 0
    next(segment.from_entry(segment.offsets.find_position(limit), 0, end), None)  # an index that lies is made anew
    entry = segment.offsets.find_position(limit)
    return 0 if entry is None else entry.position


def _recall(state: ProducerState, header: RawHeader) -> None:
    """A batch of this producer, the last one before those that were looked at."""
    _, _, _, _, _, attributes, last_offset_delta, _, timestamp, _, epoch, sequence, _ = header
    batches = state.batches
    first_sequence, _, first_offset, _, _ = batches[0]
    if header[0] >= first_offset or attributes & CONTROL_FLAG:
        return  # it is known, or it has no place in the sequence: the end of a transaction
    last_sequence = (sequence + last_offset_delta) & MAX_SEQUENCE
    leads_on = (last_sequence + 1) & MAX_SEQUENCE == first_sequence
    if epoch != state.epoch or sequence < 0 or not leads_on:
        state.is_cut_short = False
        return
    batches.appendleft((sequence, last_sequence, header[0], header[0] + last_offset_delta, timestamp))
