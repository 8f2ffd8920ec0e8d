"""What compaction leaves of one batch.

A record stays if no newer record of its key is known, and if it is not a tombstone past its time. A record without a
key could never be superseded; a compacted topic refuses it on append, and one that stood there before goes. Above the
end of the map of keys nothing is known yet, and everything stays.

A tombstone must be visible for `delete.retention.ms` to readers that are behind. The time begins with the first
cleaning that sees the tombstone as the newest of its key: the batch gets a delete horizon (KIP-534), and a later
cleaning after that horizon drops it. Markers of transactions without data wait in the same way.

Offsets never change: base offset and last offset of a batch stay, and with them its sequences, however many records
go. A batch that loses nothing is copied as it is, compressed or not. A batch without records goes, too, except

* the last batch of a producer that the log still knows: its sequence numbers are needed after a replay of the log. If
  the last word about a producer is a marker, the marker stays whole, since its epoch fences zombies;
* one that the caller wants to keep: the last batch of a segment remembers how far the segment went.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from headrace.log.aborted import AbortedTxn
from headrace.log.cleaner_keys import NewestOffsets
from headrace.log.cleaner_transactions import DecidedTransactions
from headrace.log.producers import ProducerState
from headrace.protocol.batch import BatchHeader
from headrace.protocol.records import Record, read_control_type, read_records, rebuild_batch


class LastWord(NamedTuple):
    """Where the log last heard of a producer."""

    data_offset: int | None  # the last offset of its last data batch; None if a marker came since its epoch began
    epoch: int


def last_words(states: Iterable[ProducerState]) -> dict[int, LastWord]:
    words = {}
    for state in states:
        last = state.last_batch
        words[state.producer_id] = LastWord(last.last_offset if last else None, state.epoch)
    return words


class BatchFilter:
    """One walk over the segments of a log; every batch must pass, in order."""

    def __init__(
        self,
        *,
        newest: NewestOffsets,
        transactions: DecidedTransactions,
        producers: Mapping[int, LastWord],
        delete_retention_ms: int,
        now_ms: int,
    ) -> None:
        self._newest = newest
        self._transactions = transactions
        self._producers = producers
        self._new_horizon_ms = now_ms + delete_retention_ms
        self._now_ms = now_ms
        self.aborted: list[AbortedTxn] = []  # index entries to keep, of the markers passed so far

    def clean(self, batch: memoryview, header: BatchHeader, *, keep_header: bool) -> memoryview | bytearray | None:
        """What is left of the batch; None if nothing is. Raises CorruptBatchError."""
        records = list(read_records(batch))
        if header.is_control:
            return self._clean_marker(batch, header, records, keep_header=keep_header)
        return self._clean_data(batch, header, records, keep_header=keep_header)

    def _clean_marker(
        self, batch: memoryview, header: BatchHeader, records: list[Record], *, keep_header: bool
    ) -> memoryview | bytearray | None:
        is_last_word = self._is_last_word(header)
        if not records:  # an earlier cleaning took its record
            return batch if is_last_word or keep_header else None
        may_go, index_entry = self._transactions.judge_marker(header, read_control_type(records[0].key))
        if index_entry is not None:
            self.aborted.append(index_entry)
        if not may_go or is_last_word:
            return batch
        horizon_ms = header.delete_horizon_ms
        if horizon_ms is None:
            return rebuild_batch(header, records, delete_horizon_ms=self._new_horizon_ms)
        if self._now_ms < horizon_ms:
            return batch
        return rebuild_batch(header, []) if keep_header else None

    def _clean_data(
        self, batch: memoryview, header: BatchHeader, records: list[Record], *, keep_header: bool
    ) -> memoryview | bytearray | None:
        if self._transactions.is_aborted(header):
            kept = []
        else:
            kept = self._kept(records, header)
        if not kept:
            if not (keep_header or self._is_last_word(header)):
                return None
            return rebuild_batch(header, []) if records else batch
        gets_horizon = header.delete_horizon_ms is None and any(record.value is None for record in kept)
        if len(kept) == len(records) and not gets_horizon:
            return batch
        return rebuild_batch(header, kept, delete_horizon_ms=self._new_horizon_ms if gets_horizon else None)

    def _kept(self, records: list[Record], header: BatchHeader) -> list[Record]:
        horizon_ms = header.delete_horizon_ms
        tombstones_go = horizon_ms is not None and self._now_ms >= horizon_ms
        end_offset = self._newest.end_offset
        is_superseded = self._newest.is_superseded
        return [
            record
            for record in records
            if record.offset >= end_offset
            or (
                record.key is not None
                and not (tombstones_go and record.value is None)
                and not is_superseded(record.key, record.offset)
            )
        ]

    def _is_last_word(self, header: BatchHeader) -> bool:
        word = self._producers.get(header.producer_id)
        if word is None:
            return False
        if word.data_offset is None:
            return header.is_control and header.producer_epoch == word.epoch
        return header.last_offset == word.data_offset
