"""What is done to a log that was not closed: trust nothing behind the recovery point, and keep all that is whole.

Theory. Below the recovery point everything was synced, files and names. Behind it a crash may have left any part of
what was written: torn batches, pages of zeros, files without names, names without content. But batches were written in
order, and each carries its CRC. So recovery reads from the segment with the recovery point on, and goes as far as

* every batch is whole: length, magic, counts, CRC;
* offsets grow, from the segment's base offset on;
* each segment begins where the one before it ends.

Where that stops being true the log ends: the rest of that segment is cut off, and later segments go. What was lost is
therefore always a suffix, and never anything that was synced.

A gap between two segments is no loss if compaction made it, as Apache Kafka's does. That is so in a log whose topic is
compacted, in one that shows gaps between its batches, and as far as the cleaner's checkpoint says that it was compacted
(a broker recovers its logs before it knows its topics). Any other gap means that the end of the earlier segment is
missing, exactly at a batch boundary.

All else is made again from the batches that were read: indexes, aborted transactions, leader epochs, producers. They
start from what was synced: epochs that began before the first segment read, and the newest whole snapshot before it.
Snapshots behind it are deleted first: they may be of another past, which a truncation has removed.
"""

from typing import NamedTuple

from headrace.log.aborted import AbortedIndex
from headrace.log.epoch_file import EpochFile
from headrace.log.index import MAX_RELATIVE_OFFSET
from headrace.log.producer_history import ProducerHistory, apply_batch, to_aborted
from headrace.log.producers import ProducerStates
from headrace.log.scan import verified_batches
from headrace.log.segment import Segment
from headrace.log.segments import Segments


class RecoveryReport(NamedTuple):
    """What a recovery did, for whoever tells people about it."""

    start_offset: int  # of the first segment that was read
    end_offset: int  # of the log
    read_bytes: int
    cut_bytes: int  # of the segment in which the log ends now
    dropped_segments: int

    def after(self, first: "RecoveryReport") -> "RecoveryReport":
        """Of a log that was recovered twice: what the first one cut off, this one has not seen."""
        return self._replace(
            cut_bytes=first.cut_bytes + self.cut_bytes, dropped_segments=first.dropped_segments + self.dropped_segments
        )

    @property
    def loss(self) -> str:
        """What was cut off, in words; empty if everything was whole."""
        if not self.cut_bytes and not self.dropped_segments:
            return ""
        behind = f" and {self.dropped_segments} segments behind them" if self.dropped_segments else ""
        return (
            f"{self.cut_bytes} bytes{behind} were not whole, and are cut off; the log ends at offset {self.end_offset}"
        )


class _Walk:
    """One pass over the segments from the recovery point on."""

    def __init__(self, producers: ProducerHistory, epochs: EpochFile, start_offset: int) -> None:
        self.epochs = epochs
        self.states: ProducerStates = producers.before(start_offset)
        self.end_offset = start_offset
        self.has_gaps = False

    def take(self, segment: Segment) -> int:
        """Rebuild what belongs to a segment, and cut it where it stops being whole. The bytes that were cut."""
        segment.reset_indexes()
        segment.aborted = AbortedIndex()
        file = segment.file
        size = file.size
        end = 0
        expected = self.end_offset = segment.base_offset
        for position, header, batch in verified_batches(file, 0, size):
            if header.base_offset < expected or header.last_offset - segment.base_offset > MAX_RELATIVE_OFFSET:
                break
            self.has_gaps |= header.base_offset != expected
            expected = self.end_offset = header.next_offset
            end = position + header.size_bytes
            segment.account(position, header.last_offset, header.max_timestamp)
            self.epochs.assign(header.leader_epoch, header.base_offset)
            transaction = apply_batch(self.states, header, batch, base_offset=header.base_offset)
            if transaction is not None and transaction.aborted:
                segment.add_aborted(to_aborted(transaction))
        segment.size = end
        if end < size:
            file.truncate(end)
            file.sync()
        return size - end

    def continues_at(self, segment: Segment, *, gaps_to: int) -> bool:
        if segment.base_offset == self.end_offset:
            return True
        return segment.base_offset > self.end_offset and (segment.base_offset <= gaps_to or self.has_gaps)


def recover(
    segments: Segments, producers: ProducerHistory, epochs: EpochFile, *, recovery_point: int, gaps_to: int
) -> tuple[RecoveryReport, ProducerStates, list[str]]:
    """Bring the log from the segment with `recovery_point` on into a state that can be trusted.

    Compaction may have left gaps before segments that begin at `gaps_to` or earlier. Returns the producers at its end,
    too, and the paths that are to be removed. Raises OSError.
    """
    start = segments.index_of(recovery_point)
    start_offset = segments[start].base_offset
    producers.drop_snapshots_after(start_offset)
    epochs.truncate_from_end(start_offset)
    walk = _Walk(producers, epochs, start_offset)
    read_bytes = cut_bytes = 0
    rest: list[Segment] = []
    for segment in list(segments)[start:]:
        if rest or cut_bytes or not walk.continues_at(segment, gaps_to=gaps_to):
            rest.append(segment)
            continue
        if segment.base_offset > start_offset:
            producers.write_snapshot(segment.base_offset, walk.states)
        read_bytes += segment.size
        cut_bytes = walk.take(segment)
    removable = segments.cut_off(rest)
    for segment in segments.sealed[start:]:
        segment.write_indexes()
    report = RecoveryReport(start_offset, walk.end_offset, read_bytes, cut_bytes, len(rest))
    return report, walk.states, removable
