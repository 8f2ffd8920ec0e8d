"""Transactions as compaction meets them, batch by batch in offset order.

Everything that compaction looks at lies below the last stable offset, so each transaction there has been decided;
those that were aborted are known from the transaction indexes before the walk begins.

Data of an aborted transaction may go at once. A marker may go only when the walk met no batch of its transaction: as
long as one is left, a reader needs the marker (and, of an abort, the index entry) to judge it. Batches that stay only
for their producer's sequence count as left, even without records.
"""

from collections.abc import Iterable
from typing import NamedTuple

from headrace.log.aborted import AbortedTxn
from headrace.protocol.batch import BatchHeader
from headrace.protocol.records import ControlType


class MarkerVerdict(NamedTuple):
    may_go: bool
    index_entry: AbortedTxn | None  # what the cleaned segment's transaction index must keep


_STAYS = MarkerVerdict(False, None)


class DecidedTransactions:
    """One walk over a log. Both methods must see every batch, in order."""

    __slots__ = ("_aborted", "_committed_with_data", "_current", "_waiting", "_with_data")

    def __init__(self, aborted: Iterable[AbortedTxn]) -> None:
        # By first offset, latest first: `pop` gives the next one that begins.
        self._waiting = sorted(aborted, key=lambda txn: txn.first_offset, reverse=True)
        self._current: dict[int, AbortedTxn] = {}  # producer id -> the aborted transaction that the walk is in
        self._with_data: set[int] = set()  # producer ids of `_current` of which a batch was met
        self._committed_with_data: set[int] = set()

    def is_aborted(self, header: BatchHeader) -> bool:
        """Was this data batch aborted?"""
        if not header.is_transactional:
            return False
        self._begin_up_to(header.last_offset)
        producer_id = header.producer_id
        aborted = self._current.get(producer_id)
        if aborted is not None and header.base_offset <= aborted.last_offset:
            self._with_data.add(producer_id)
            return True
        self._committed_with_data.add(producer_id)
        return False

    def judge_marker(self, header: BatchHeader, control_type: ControlType) -> MarkerVerdict:
        self._begin_up_to(header.last_offset)
        producer_id = header.producer_id
        if control_type is ControlType.COMMIT:
            if producer_id in self._committed_with_data:
                self._committed_with_data.remove(producer_id)
                return _STAYS
            return MarkerVerdict(True, None)
        if control_type is ControlType.ABORT:
            aborted = self._current.pop(producer_id, None)
            if producer_id in self._with_data:
                self._with_data.remove(producer_id)
                return MarkerVerdict(False, aborted)
            if producer_id in self._committed_with_data:  # data that no index called aborted: keep all evidence
                self._committed_with_data.remove(producer_id)
                return _STAYS
            return MarkerVerdict(True, None)
        return _STAYS  # a control record of a kind that ends no transaction

    def _begin_up_to(self, offset: int) -> None:
        waiting = self._waiting
        while waiting and waiting[-1].first_offset <= offset:
            txn = waiting.pop()
            self._current[txn.producer_id] = txn
            self._with_data.discard(txn.producer_id)
