"""Idempotence, fencing and open transactions, rule by rule, then against a plain model; and the bytes of snapshots."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.log.errors import (
    CoordinatorFencedError,
    CorruptSnapshotError,
    InvalidProducerEpochError,
    InvalidTransactionStateError,
    OutOfOrderSequenceError,
)
from headrace.log.producers import MAX_SEQUENCE, CachedBatch, CompletedTxn, ProducerStates
from headrace.log.snapshots import SnapshotEntry, pack_snapshot, unpack_snapshot
from headrace.protocol.batch import CONTROL_FLAG, TRANSACTIONAL_FLAG, BatchHeader

PLAIN = BatchHeader(
    base_offset=0,
    batch_length=100,
    leader_epoch=0,
    magic=2,
    crc=0,
    attributes=0,
    last_offset_delta=0,
    base_timestamp=1000,
    max_timestamp=1000,
    producer_id=7,
    producer_epoch=0,
    base_sequence=0,
    record_count=1,
)


def batch(
    sequence: int, count: int = 1, *, producer: int = 7, epoch: int = 0, transactional: bool = False
) -> BatchHeader:
    return PLAIN._replace(
        base_sequence=sequence,
        last_offset_delta=count - 1,
        record_count=count,
        producer_id=producer,
        producer_epoch=epoch,
        attributes=TRANSACTIONAL_FLAG if transactional else 0,
    )


def marker(*, producer: int = 7, epoch: int = 0) -> BatchHeader:
    return batch(-1, producer=producer, epoch=epoch)._replace(attributes=TRANSACTIONAL_FLAG | CONTROL_FLAG)


def append(states: ProducerStates, header: BatchHeader, offset: int, timestamp: int = 1000) -> CachedBatch | None:
    duplicate = states.check(header)
    if duplicate is None:
        states.apply(header, offset, timestamp)
    return duplicate


def end(
    states: ProducerStates, header: BatchHeader, offset: int, *, commit: bool = True, coordinator_epoch: int = 0
) -> CompletedTxn | None:
    states.check_marker(header, coordinator_epoch=coordinator_epoch, transaction_version=1)
    return states.apply_marker(
        header, offset, commit=commit, coordinator_epoch=coordinator_epoch, timestamp=header.max_timestamp
    )


def test_a_retry_is_answered_with_the_offsets_of_the_first_time() -> None:
    states = ProducerStates()
    append(states, batch(0, 3), 100)
    append(states, batch(3, 2), 103)
    assert append(states, batch(0, 3), 999) == CachedBatch(0, 2, 100, 102, 1000)
    assert append(states, batch(3, 2), 999) == CachedBatch(3, 4, 103, 104, 1000)


def test_a_gap_in_the_sequence_is_refused() -> None:
    states = ProducerStates()
    append(states, batch(0, 3), 0)
    with pytest.raises(OutOfOrderSequenceError, match="sequence 4, expected 3"):
        append(states, batch(4), 3)


def test_a_part_of_a_stored_batch_is_not_a_retry() -> None:
    states = ProducerStates()
    append(states, batch(0, 3), 0)
    with pytest.raises(OutOfOrderSequenceError):
        append(states, batch(0, 2), 3)


def test_only_the_last_five_batches_are_recognised() -> None:
    states = ProducerStates()
    for sequence in range(6):
        append(states, batch(sequence), sequence)
    assert append(states, batch(1), 6) == CachedBatch(1, 1, 1, 1, 1000)
    with pytest.raises(OutOfOrderSequenceError):
        append(states, batch(0), 6)


def test_a_new_epoch_begins_at_sequence_0_and_forgets_the_batches_of_the_old_one() -> None:
    states = ProducerStates()
    append(states, batch(0, 3), 0)
    with pytest.raises(OutOfOrderSequenceError, match="expected 0"):
        append(states, batch(3, epoch=1), 3)
    assert append(states, batch(0, 3, epoch=1), 3) is None
    state = states.get(7)
    assert state is not None
    assert list(state.batches) == [(0, 2, 3, 5, 1000)]


def test_an_older_epoch_is_fenced() -> None:
    states = ProducerStates()
    append(states, batch(0, epoch=3), 0)
    with pytest.raises(InvalidProducerEpochError, match="epoch 2 is older than the last seen epoch 3"):
        append(states, batch(1, epoch=2), 1)
    with pytest.raises(InvalidProducerEpochError):
        states.check_without_sequence(batch(-1, epoch=2))


def test_an_unknown_producer_may_begin_anywhere_since_retention_may_have_taken_its_past() -> None:
    states = ProducerStates()
    assert append(states, batch(41), 0) is None
    assert append(states, batch(42), 1) is None


def test_the_sequence_wraps_to_0_after_its_largest_value() -> None:
    states = ProducerStates()
    append(states, batch(MAX_SEQUENCE - 1, 3), 0)
    state = states.get(7)
    assert state is not None
    assert state.batches[0][:2] == (MAX_SEQUENCE - 1, 0)
    assert append(states, batch(MAX_SEQUENCE - 1, 3), 9) == CachedBatch(MAX_SEQUENCE - 1, 0, 0, 2, 1000)
    assert append(states, batch(1), 3) is None


def test_the_sequence_after_the_largest_one_is_0() -> None:
    states = ProducerStates()
    append(states, batch(MAX_SEQUENCE), 0)
    assert append(states, batch(0), 1) is None


def test_a_coordinator_writes_without_sequences() -> None:
    states = ProducerStates()
    for offset in range(3):
        header = batch(-1, transactional=True)
        states.check_without_sequence(header)
        states.apply(header, offset, 1000)
    state = states.get(7)
    assert state is not None
    assert state.next_sequence == 0
    assert states.first_undecided_offset == 0


def test_a_batch_outside_the_open_transaction_of_its_producer_is_refused() -> None:
    states = ProducerStates()
    append(states, batch(0, transactional=True), 5)
    with pytest.raises(InvalidTransactionStateError, match="began at offset 5"):
        append(states, batch(1), 6)
    with pytest.raises(InvalidTransactionStateError):
        append(states, batch(0, epoch=1), 6)
    with pytest.raises(InvalidTransactionStateError):
        states.check_without_sequence(batch(-1))


def test_a_transaction_opens_with_its_first_batch_and_ends_with_its_marker() -> None:
    states = ProducerStates()
    append(states, batch(0, transactional=True), 10)
    append(states, batch(1, transactional=True), 11)
    assert (states.first_undecided_offset, states.first_unstable_offset) == (10, 10)
    assert end(states, marker(), 12, commit=False) == CompletedTxn(7, 10, 12, True, 13)
    assert (states.first_undecided_offset, states.first_unstable_offset) == (None, 10)
    states.settle_below(12)  # the high watermark stands before the marker
    assert (states.first_undecided_offset, states.first_unstable_offset) == (None, 10)
    states.settle_below(13)
    assert (states.first_undecided_offset, states.first_unstable_offset) == (None, None)
    assert append(states, batch(2), 13) is None  # the sequence goes on under the same epoch


def test_the_last_stable_offset_of_a_completed_transaction_is_the_first_one_still_open() -> None:
    states = ProducerStates()
    append(states, batch(0, producer=1, transactional=True), 0)
    append(states, batch(0, producer=2, transactional=True), 1)
    append(states, batch(0, producer=3, transactional=True), 2)
    assert end(states, marker(producer=2), 3) == CompletedTxn(2, 1, 3, False, 0)
    assert end(states, marker(producer=1), 4) == CompletedTxn(1, 0, 4, False, 2)
    assert end(states, marker(producer=3), 5) == CompletedTxn(3, 2, 5, False, 6)


def test_a_marker_without_data_completes_nothing_but_fences() -> None:
    states = ProducerStates()
    assert end(states, marker(epoch=4), 0) is None
    with pytest.raises(InvalidProducerEpochError):
        append(states, batch(0, epoch=3), 1)
    with pytest.raises(OutOfOrderSequenceError):
        append(states, batch(1, epoch=4), 1)
    assert append(states, batch(0, epoch=4), 1) is None


def test_a_marker_of_an_older_coordinator_is_fenced() -> None:
    states = ProducerStates()
    end(states, marker(), 0, coordinator_epoch=5)
    with pytest.raises(CoordinatorFencedError, match="coordinator epoch 4, the last seen one is 5"):
        end(states, marker(), 1, coordinator_epoch=4)


def test_a_marker_of_an_older_epoch_is_fenced() -> None:
    states = ProducerStates()
    append(states, batch(0, epoch=2, transactional=True), 0)
    with pytest.raises(InvalidProducerEpochError):
        end(states, marker(epoch=1), 1)


def test_from_transaction_version_2_on_a_marker_must_raise_the_epoch() -> None:
    states = ProducerStates()
    append(states, batch(0, epoch=2, transactional=True), 0)
    states.check_marker(marker(epoch=2), coordinator_epoch=0, transaction_version=1)
    with pytest.raises(InvalidProducerEpochError, match="transaction version 2"):
        states.check_marker(marker(epoch=2), coordinator_epoch=0, transaction_version=2)
    states.check_marker(marker(epoch=3), coordinator_epoch=0, transaction_version=2)
    states.apply_marker(marker(epoch=3), 1, commit=True, coordinator_epoch=0, timestamp=1000)
    states.check_marker(marker(epoch=3), coordinator_epoch=0, transaction_version=2)  # a retry: nothing is open
    with pytest.raises(InvalidProducerEpochError):
        states.check_marker(marker(epoch=2), coordinator_epoch=0, transaction_version=2)
    assert append(states, batch(0, epoch=3, transactional=True), 2) is None


def test_a_marker_emptied_by_compaction_still_fences() -> None:
    states = ProducerStates()
    states.apply_emptied_marker(marker(epoch=4))
    with pytest.raises(InvalidProducerEpochError):
        append(states, batch(0, epoch=3), 1)


def test_silent_producers_are_forgotten_except_in_a_transaction() -> None:
    states = ProducerStates()
    append(states, batch(0, producer=1), 0, timestamp=1000)
    append(states, batch(0, producer=2), 1, timestamp=1001)
    append(states, batch(0, producer=3, transactional=True), 2, timestamp=1000)
    assert states.expire(now_ms=2000, expiration_ms=1000) == 1
    assert [state.producer_id for state in states] == [2, 3]


def test_a_removed_producer_takes_its_open_transaction_along() -> None:
    states = ProducerStates()
    append(states, batch(0, producer=1, transactional=True), 0)
    append(states, batch(0, producer=2, transactional=True), 1)
    states.remove(1)
    states.remove(99)
    assert states.first_undecided_offset == 1
    assert states.get(1) is None


def test_a_snapshot_has_kafkas_bytes() -> None:
    states = ProducerStates()
    append(states, batch(5, 3, producer=0x0102, epoch=4, transactional=True), 40, timestamp=0x1111)
    assert states.to_snapshot().hex(" ") == (
        "00 01 "  # version
        "91 6f ea a4 "  # CRC-32C of the rest
        "00 00 00 01 "  # producers
        "00 00 00 00 00 00 01 02 "  # producer id
        "00 04 "  # epoch
        "00 00 00 07 "  # last sequence
        "00 00 00 00 00 00 00 2a "  # last offset
        "00 00 00 02 "  # offset delta
        "00 00 00 00 00 00 11 11 "  # timestamp
        "ff ff ff ff "  # coordinator epoch
        "00 00 00 00 00 00 00 28"  # first offset of the open transaction
    )


def test_a_snapshot_keeps_everything() -> None:
    states = ProducerStates()
    append(states, batch(0, 3, producer=1, transactional=True), 10, timestamp=5)
    append(states, batch(3, 2, producer=1, transactional=True), 20, timestamp=6)
    append(states, batch(MAX_SEQUENCE, 2, producer=2), 30, timestamp=7)
    end(states, marker(producer=3, epoch=9), 32, coordinator_epoch=4)
    reloaded = ProducerStates.from_snapshot(states.to_snapshot())
    assert list(reloaded) == list(states)
    assert reloaded.ongoing == {10: 1}
    assert reloaded.check(batch(0, 3, producer=1, transactional=True)) == CachedBatch(0, 2, 10, 12, 5)
    assert reloaded.check(batch(3, 2, producer=1, transactional=True)) == CachedBatch(3, 4, 20, 21, 6)
    assert reloaded.check(batch(MAX_SEQUENCE, 2, producer=2)) == CachedBatch(MAX_SEQUENCE, 0, 30, 31, 7)


def test_open_transactions_of_a_snapshot_are_ordered_by_offset_whatever_its_order() -> None:
    entry = SnapshotEntry(1, 0, 0, 90, 0, 1000, 0, 50)
    data = pack_snapshot([entry, entry._replace(producer_id=2, transaction_first_offset=30)])
    assert ProducerStates.from_snapshot(data).first_undecided_offset == 30


@pytest.mark.parametrize("position", range(56))
def test_a_snapshot_with_any_byte_changed_is_refused(position: int) -> None:
    data = bytearray(pack_snapshot([SnapshotEntry(1, 0, 0, 90, 0, 1000, 0, 50)]))
    data[position] ^= 0x10
    with pytest.raises(CorruptSnapshotError):
        unpack_snapshot(bytes(data))


def test_a_snapshot_cut_anywhere_is_refused() -> None:
    data = pack_snapshot([SnapshotEntry(1, 0, 0, 90, 0, 1000, 0, 50)] * 2)
    for size in range(len(data)):
        with pytest.raises(CorruptSnapshotError):
            unpack_snapshot(data[:size])


def test_a_snapshot_whose_count_lies_is_refused_though_its_crc_is_right() -> None:
    whole = pack_snapshot([SnapshotEntry(1, 0, 0, 90, 0, 1000, 0, 50)])
    none = pack_snapshot([])
    assert unpack_snapshot(none) == []
    from fastcrc.crc32 import iscsi

    body = (2).to_bytes(4, "big") + whole[10:]
    with pytest.raises(CorruptSnapshotError, match="46 bytes of entries, which should be 2"):
        unpack_snapshot(whole[:2] + iscsi(body).to_bytes(4, "big") + body)


@given(st.lists(st.tuples(st.integers(0, 4), st.sampled_from(["begin", "end", "settle"])), max_size=60))
@settings(max_examples=200, deadline=None)
def test_the_first_unstable_offset_is_the_minimum_over_open_and_unreplicated_transactions(
    steps: list[tuple[int, str]],
) -> None:
    states = ProducerStates()
    sequences: dict[int, int] = {}
    open_at: dict[int, int] = {}
    unreplicated: list[tuple[int, int]] = []
    high_watermark = 0
    for offset, (producer, step) in enumerate(steps):
        if step == "begin":
            sequence = sequences.get(producer, 0)
            sequences[producer] = sequence + 1
            append(states, batch(sequence, producer=producer, transactional=True), offset)
            open_at.setdefault(producer, offset)
        elif step == "end":
            first = open_at.pop(producer, None)
            completed = end(states, marker(producer=producer), offset)
            if first is None:
                assert completed is None
            else:
                stable = min(open_at.values(), default=offset + 1)
                assert completed == CompletedTxn(producer, first, offset, False, stable)
                unreplicated.append((first, offset))
        else:
            high_watermark = max(high_watermark, offset - producer)
            states.settle_below(high_watermark)
            unreplicated = [(first, last) for first, last in unreplicated if last >= high_watermark]
        assert states.first_undecided_offset == min(open_at.values(), default=None)
        assert states.first_unstable_offset == min(
            [*open_at.values(), *(first for first, _ in unreplicated)], default=None
        )
        reloaded = ProducerStates.from_snapshot(states.to_snapshot())
        assert reloaded.ongoing == states.ongoing
        assert list(reloaded) == list(states)
