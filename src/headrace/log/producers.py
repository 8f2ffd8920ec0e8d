"""What the log knows of its producers: idempotence, fencing, and which transactions are open.

Theory. A producer numbers its records; a batch carries the sequence of its first record and, by its offset delta, of
its last. The log accepts a batch only if it continues the sequence of its producer and epoch, so a retry can neither
be stored twice nor overtake:

    the same range as one of the last five batches   a retry: answered with the offsets it got the first time
    the next sequence                                stored
    a new, higher epoch                              must begin at 0, and forgets the old epoch's batches
    a lower epoch                                    a zombie: refused
    a producer the log never saw, or forgot          any sequence: retention may have deleted its earlier records
    anything else                                    out of order: refused, since a batch before it is missing

A transaction opens with the first transactional batch of a producer and ends with a marker of the coordinator.
Readers of committed data stop at the *first unstable offset*: the smallest first offset among the transactions that
are open ("undecided") and those whose marker the high watermark has not passed yet ("unreplicated").

`check` before the write, `apply` after it: a write that fails leaves no trace here. Checks are for the leader; a
replica and a recovery apply what the leader has accepted. All state is a replay of the log: a truncation reloads it
from a snapshot and applies the batches from there.
"""

from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from headrace.log.errors import (
    CoordinatorFencedError,
    InvalidProducerEpochError,
    InvalidTransactionStateError,
    OutOfOrderSequenceError,
)
from headrace.log.snapshots import NO_OFFSET, SnapshotEntry, pack_snapshot, unpack_snapshot
from headrace.protocol.batch import NO_PRODUCER_EPOCH, NO_SEQUENCE, NO_TIMESTAMP, TRANSACTIONAL_FLAG

BATCHES_KEPT: Final = (
    5  # Kafka's max.in.flight.requests.per.connection for idempotent producers: older ones cannot be retried
)
MAX_SEQUENCE: Final = 0x7FFFFFFF  # the sequence after it is 0
NO_COORDINATOR_EPOCH: Final = -1

RawHeader = tuple[int, ...]  # what `batch.unpack_header` gives; a BatchHeader is one, too


class CachedBatch(NamedTuple):
    """One of the last batches of a producer: enough to recognise a retry and to answer it."""

    first_sequence: int
    last_sequence: int
    first_offset: int
    last_offset: int
    timestamp: int


class CompletedTxn(NamedTuple):
    """A transaction that a marker has ended; `last_offset` is the marker's."""

    producer_id: int
    first_offset: int
    last_offset: int
    aborted: bool
    last_stable_offset: (
        int  # the first offset still open after it, or the one after the marker: what `.txnindex` records
    )


_NO_BATCH: Final = (NO_SEQUENCE, NO_SEQUENCE, NO_OFFSET, NO_OFFSET, NO_TIMESTAMP)


@dataclass(slots=True)
class ProducerState:
    """One producer. Invariant: `next_sequence` follows the last of `batches`, and is 0 when there is none."""

    producer_id: int
    epoch: int = NO_PRODUCER_EPOCH
    coordinator_epoch: int = NO_COORDINATOR_EPOCH  # of the last marker
    last_timestamp: int = NO_TIMESTAMP
    transaction_first_offset: int = NO_OFFSET
    next_sequence: int = 0
    # Plain tuples in the order of CachedBatch: a named one would cost a quarter of the whole check on each append.
    batches: deque[tuple[int, int, int, int, int]] = field(default_factory=lambda: deque(maxlen=BATCHES_KEPT))

    @property
    def last_batch(self) -> CachedBatch | None:
        return CachedBatch._make(self.batches[-1]) if self.batches else None

    def find(self, first_sequence: int, last_sequence: int) -> CachedBatch | None:
        for batch in self.batches:
            if batch[0] == first_sequence and batch[1] == last_sequence:
                return CachedBatch._make(batch)
        return None

    def extend(self, batches: Sequence[tuple[int, int, int, int, int]]) -> None:
        """Account for batches, in the order of CachedBatch, that continue the sequence outside of a transaction."""
        self.batches.extend(batches)
        _, last_sequence, _, _, self.last_timestamp = batches[-1]
        self.next_sequence = (last_sequence + 1) & MAX_SEQUENCE

    def to_snapshot(self) -> list[SnapshotEntry]:
        """An entry for each batch of the window. Whoever believes the last one only has what Kafka writes."""
        *older, (_, last_sequence, first_offset, last_offset, _) = self.batches or [_NO_BATCH]
        entry = SnapshotEntry(
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            last_sequence=last_sequence,
            last_offset=last_offset,
            offset_delta=last_offset - first_offset,
            timestamp=self.last_timestamp,
            coordinator_epoch=self.coordinator_epoch,
            transaction_first_offset=self.transaction_first_offset,
        )
        return [*(_older_entry(entry, *batch) for batch in older if batch[1] >= 0), entry]

    @classmethod
    def from_snapshot(cls, entry: SnapshotEntry, before: "ProducerState | None" = None) -> "ProducerState":
        """`before` is what the entries of the same producer before this one say."""
        state = cls(
            entry.producer_id,
            entry.producer_epoch,
            entry.coordinator_epoch,
            entry.timestamp,
            max(entry.transaction_first_offset, NO_OFFSET),
        )
        if entry.last_offset >= 0:
            first_sequence = (entry.last_sequence - entry.offset_delta) & MAX_SEQUENCE
            first_offset = entry.last_offset - entry.offset_delta
            if before is not None and (before.epoch, before.next_sequence) == (state.epoch, first_sequence):
                state.batches.extend(before.batches)
            state.batches.append(
                (first_sequence, entry.last_sequence, first_offset, entry.last_offset, entry.timestamp)
            )
            state.next_sequence = (entry.last_sequence + 1) & MAX_SEQUENCE
        return state


class ProducerStates:
    """All producers of one log, and its open transactions."""

    __slots__ = ("_ongoing", "_states", "_unreplicated")

    def __init__(self, states: Iterable[ProducerState] = ()) -> None:
        self._states: dict[int, ProducerState] = {state.producer_id: state for state in states}
        # First offset -> producer id. Offsets only grow, so insertion order is offset order; an OrderedDict finds its
        # first key in constant time however many were removed before it, which a dict does not.
        # None as long as there was none: most logs have no transactions, and a broker has thousands of logs.
        open_ones = [state for state in self._states.values() if state.transaction_first_offset != NO_OFFSET]
        open_ones.sort(key=lambda state: state.transaction_first_offset)
        self._ongoing: OrderedDict[int, int] | None = None
        for state in open_ones:
            self._open(state, state.transaction_first_offset)
        # (first offset, marker's offset) of ended transactions, both growing from left to right. One that began later
        # and ended earlier than another can never be the first unstable offset, so it is dropped when that other one
        # comes. None if there are none.
        self._unreplicated: deque[tuple[int, int]] | None = None

    def __len__(self) -> int:
        return len(self._states)

    def __iter__(self) -> Iterator[ProducerState]:
        return iter(self._states.values())

    def get(self, producer_id: int) -> ProducerState | None:
        return self._states.get(producer_id)

    @property
    def ongoing(self) -> Mapping[int, int]:
        """First offset -> producer id of the open transactions, by offset."""
        return {} if self._ongoing is None else self._ongoing

    def _open(self, state: ProducerState, first_offset: int) -> None:
        """A transaction of this producer begins there."""
        state.transaction_first_offset = first_offset
        if self._ongoing is None:
            self._ongoing = OrderedDict()
        self._ongoing[first_offset] = state.producer_id

    def _close(self, state: ProducerState) -> None:
        assert self._ongoing is not None, state
        del self._ongoing[state.transaction_first_offset]
        state.transaction_first_offset = NO_OFFSET

    @property
    def first_undecided_offset(self) -> int | None:
        if self._ongoing:
            for first_offset in self._ongoing:
                return first_offset
        return None

    @property
    def first_unstable_offset(self) -> int | None:
        if not self._ongoing and not self._unreplicated:
            return None
        undecided = self.first_undecided_offset
        if not self._unreplicated:
            return undecided
        unreplicated = self._unreplicated[0][0]
        return unreplicated if undecided is None or unreplicated < undecided else undecided

    def has_open_transaction(self, producer_id: int, epoch: int) -> bool:
        """Is a transaction of this producer open, in this epoch?"""
        state = self._states.get(producer_id)
        return state is not None and state.epoch == epoch and state.transaction_first_offset != NO_OFFSET

    def check(self, header: RawHeader) -> CachedBatch | None:
        """May this batch of a client be appended? None: yes; a CachedBatch: it is a retry, stored there already.

        Raises InvalidProducerEpochError, OutOfOrderSequenceError, InvalidTransactionStateError; and StorageError, if
        what tells a retry from a gap cannot be read.
        """
        (_, _, _, _, _, attributes, last_offset_delta, _, _, producer_id, epoch, sequence, _) = header
        state = self._states.get(producer_id)
        if state is None:
            return None
        if epoch == state.epoch:
            if sequence != state.next_sequence:
                duplicate = state.find(sequence, (sequence + last_offset_delta) & MAX_SEQUENCE)
                if duplicate is not None:
                    return duplicate
                raise OutOfOrderSequenceError(
                    f"producer {producer_id} epoch {epoch}: sequence {sequence}, expected {state.next_sequence}"
                )
        else:
            _check_epoch(state, epoch)
            if sequence != 0 and state.epoch != NO_PRODUCER_EPOCH:
                raise OutOfOrderSequenceError(
                    f"producer {producer_id}: sequence {sequence} at the start of epoch {epoch} after epoch "
                    f"{state.epoch}, expected 0"
                )
        if state.transaction_first_offset != NO_OFFSET:
            _check_transaction(state, attributes)
        return None

    def check_without_sequence(self, header: RawHeader) -> None:
        """May this batch of a coordinator be appended? Offset commits carry a producer's id and epoch, but no sequence.

        Raises InvalidProducerEpochError, InvalidTransactionStateError.
        """
        state = self._states.get(header[9])
        if state is not None:
            _check_epoch(state, header[10])
            _check_transaction(state, header[5])

    def apply(self, header: RawHeader, base_offset: int, max_timestamp: int) -> None:
        """Account for a data batch that now stands at `base_offset`."""
        (_, _, _, _, _, attributes, last_offset_delta, _, _, producer_id, epoch, sequence, _) = header
        state = self._states.get(producer_id)
        if state is None or epoch != state.epoch:
            state = self._begin_epoch(state, producer_id, epoch)
        last_sequence = (sequence + last_offset_delta) & MAX_SEQUENCE if sequence >= 0 else NO_SEQUENCE
        state.batches.append((sequence, last_sequence, base_offset, base_offset + last_offset_delta, max_timestamp))
        state.next_sequence = (last_sequence + 1) & MAX_SEQUENCE
        state.last_timestamp = max_timestamp
        if attributes & TRANSACTIONAL_FLAG and state.transaction_first_offset == NO_OFFSET:
            self._open(state, base_offset)

    def check_marker(self, header: RawHeader, *, coordinator_epoch: int, transaction_version: int) -> None:
        """May this end marker be appended? Raises InvalidProducerEpochError, CoordinatorFencedError.

        KIP-890: from transaction version 2 on, the coordinator raises the epoch before it writes the marker, so a
        marker of the current epoch is late, unless no transaction is open: then it is a harmless retry.
        """
        producer_id, epoch = header[9], header[10]
        state = self._states.get(producer_id)
        if state is None:
            return
        late = transaction_version >= 2 and epoch == state.epoch and state.transaction_first_offset != NO_OFFSET
        if epoch < state.epoch or late:
            raise InvalidProducerEpochError(
                f"producer {producer_id}: marker of epoch {epoch}, the last seen epoch is {state.epoch} "
                f"(transaction version {transaction_version})"
            )
        if coordinator_epoch < state.coordinator_epoch:
            raise CoordinatorFencedError(
                f"producer {producer_id}: marker of coordinator epoch {coordinator_epoch}, the last seen one is "
                f"{state.coordinator_epoch}"
            )

    def apply_marker(
        self, header: RawHeader, base_offset: int, *, commit: bool, coordinator_epoch: int, timestamp: int
    ) -> CompletedTxn | None:
        """Account for an end marker that now stands at `base_offset`. None when the transaction had no data here."""
        state = self._after_marker(header, timestamp)
        state.coordinator_epoch = coordinator_epoch
        first_offset = state.transaction_first_offset
        if first_offset == NO_OFFSET:
            return None
        self._close(state)
        if self._unreplicated is None:
            self._unreplicated = deque()
        while self._unreplicated and self._unreplicated[-1][0] > first_offset:
            self._unreplicated.pop()
        self._unreplicated.append((first_offset, base_offset))
        undecided = self.first_undecided_offset
        last_stable_offset = base_offset + 1 if undecided is None else undecided
        return CompletedTxn(state.producer_id, first_offset, base_offset, not commit, last_stable_offset)

    def apply_emptied_marker(self, header: RawHeader) -> None:
        """Account for a marker whose record compaction has removed: epoch and time are left, and still fence."""
        self._after_marker(header, header[8])

    def _after_marker(self, header: RawHeader, timestamp: int) -> ProducerState:
        producer_id, epoch = header[9], header[10]
        state = self._states.get(producer_id)
        if state is None or epoch != state.epoch:
            state = self._begin_epoch(state, producer_id, epoch)
        state.last_timestamp = timestamp
        return state

    def _begin_epoch(self, state: ProducerState | None, producer_id: int, epoch: int) -> ProducerState:
        """Of a producer that is new, or was known by another epoch."""
        if state is None:
            state = self._states[producer_id] = ProducerState(producer_id, epoch)
        else:
            state.epoch = epoch
            state.batches.clear()
            state.next_sequence = 0
        return state

    def settle_below(self, offset: int) -> None:
        """Transactions whose marker lies below `offset` (a high watermark or log start) no longer hold readers back."""
        unreplicated = self._unreplicated
        if unreplicated is not None:
            while unreplicated and unreplicated[0][1] < offset:
                unreplicated.popleft()
            if not unreplicated:
                self._unreplicated = None

    def expire(self, *, now_ms: int, expiration_ms: int) -> int:
        """Forget producers that were silent for `expiration_ms`, except in a transaction. How many they were."""
        idle = [
            state.producer_id
            for state in self._states.values()
            if state.transaction_first_offset == NO_OFFSET and now_ms - state.last_timestamp >= expiration_ms
        ]
        for producer_id in idle:
            del self._states[producer_id]
        return len(idle)

    def remove(self, producer_id: int) -> None:
        """Forget a producer, with its open transaction."""
        state = self._states.pop(producer_id, None)
        if state is not None and state.transaction_first_offset != NO_OFFSET:
            self._close(state)

    def clear(self) -> None:
        self._states.clear()
        self._ongoing = self._unreplicated = None

    def to_snapshot(self) -> bytes:
        return pack_snapshot(entry for state in self._states.values() for entry in state.to_snapshot())

    @classmethod
    def from_snapshot(cls, data: bytes) -> "ProducerStates":
        """Raises CorruptSnapshotError; the caller then falls back to an older snapshot, or to a scan of the log."""
        states: dict[int, ProducerState] = {}
        for entry in unpack_snapshot(data):
            states[entry.producer_id] = ProducerState.from_snapshot(entry, states.get(entry.producer_id))
        return cls(states.values())


def _older_entry(
    last: SnapshotEntry, _: int, last_sequence: int, first_offset: int, last_offset: int, timestamp: int
) -> SnapshotEntry:
    """Of a batch before the last one of the same producer, of which an open transaction is told once."""
    return last._replace(
        last_sequence=last_sequence,
        last_offset=last_offset,
        offset_delta=last_offset - first_offset,
        timestamp=timestamp,
        transaction_first_offset=NO_OFFSET,
    )


def _check_epoch(state: ProducerState, epoch: int) -> None:
    if epoch < state.epoch:
        raise InvalidProducerEpochError(
            f"producer {state.producer_id}: epoch {epoch} is older than the last seen epoch {state.epoch}"
        )


def _check_transaction(state: ProducerState, attributes: int) -> None:
    if state.transaction_first_offset != NO_OFFSET and not attributes & TRANSACTIONAL_FLAG:
        raise InvalidTransactionStateError(
            f"producer {state.producer_id}: a batch outside a transaction, while its transaction that began at offset "
            f"{state.transaction_first_offset} is open"
        )
