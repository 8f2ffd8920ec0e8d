"""What compaction leaves of one batch: records, tombstones, markers, aborted data, batches without records."""

import pytest

from headrace.log.aborted import AbortedTxn
from headrace.log.cleaner_filter import BatchFilter, LastWord, last_words
from headrace.log.cleaner_keys import ENTRY_BYTES, NewestOffsets
from headrace.log.cleaner_transactions import DecidedTransactions
from headrace.log.producers import ProducerState
from headrace.protocol.batch import BatchHeader, read_header, verify
from headrace.protocol.compression import Codec
from headrace.protocol.errors import CorruptBatchError
from headrace.protocol.records import NewRecord, Record, build_batch, build_end_transaction_marker, read_records

NOW_MS = 1_000_000
RETENTION_MS = 500
HORIZON_MS = NOW_MS + RETENTION_MS
FAR = 1 << 40

Pair = tuple[bytes | None, bytes | None]


def batch(
    offset: int,
    *pairs: Pair,
    producer: int = -1,
    sequence: int = -1,
    epoch: int = -1,
    transactional: bool = False,
    codec: Codec = Codec.NONE,
) -> bytearray:
    records = [NewRecord(100 + offset + index, key, value) for index, (key, value) in enumerate(pairs)]
    return build_batch(
        records,
        base_offset=offset,
        producer_id=producer,
        producer_epoch=epoch,
        base_sequence=sequence,
        transactional=transactional,
        codec=codec,
        leader_epoch=3,
    )


def marker(offset: int, *, commit: bool, producer: int = 9, epoch: int = 0) -> bytearray:
    return build_end_transaction_marker(
        commit=commit, coordinator_epoch=1, producer_id=producer, producer_epoch=epoch, timestamp=77, base_offset=offset
    )


def a_filter(
    newest: dict[bytes, int] | None = None,
    *,
    end_offset: int = FAR,
    aborted: list[AbortedTxn] | None = None,
    producers: dict[int, LastWord] | None = None,
    now_ms: int = NOW_MS,
) -> BatchFilter:
    keys = NewestOffsets(start_offset=0, limit_bytes=1 << 20)
    for key, offset in (newest or {}).items():
        keys.put(key, offset)
    keys.end_offset = end_offset
    return BatchFilter(
        newest=keys,
        transactions=DecidedTransactions(aborted or []),
        producers=producers or {},
        delete_retention_ms=RETENTION_MS,
        now_ms=now_ms,
    )


def clean(cleaning: BatchFilter, data: bytearray, *, keep_header: bool = False) -> bytes | None:
    cleaned = cleaning.clean(memoryview(data), read_header(data), keep_header=keep_header)
    if cleaned is None:
        return None
    verify(cleaned)
    return bytes(cleaned)


def rows(data: bytes | bytearray | None) -> list[tuple[int, int, bytes | None, bytes | None]]:
    assert data is not None
    return [(record.offset, record.timestamp, record.key, record.value) for record in read_records(data)]


def header_of(data: bytes | None) -> BatchHeader:
    assert data is not None
    return read_header(data)


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP, Codec.LZ4])
def test_superseded_records_go_and_the_others_keep_offset_and_timestamp(codec: Codec) -> None:
    original = batch(10, (b"a", b"1"), (b"b", b"2"), (b"c", b"3"), producer=7, sequence=40, epoch=2, codec=codec)
    cleaned = clean(a_filter({b"a": 99, b"b": 11}), original)
    assert rows(cleaned) == [(11, 111, b"b", b"2"), (12, 112, b"c", b"3")]
    before, after = read_header(original), header_of(cleaned)
    assert (after.base_offset, after.last_offset, after.record_count) == (10, 12, 2)
    assert (after.producer_id, after.producer_epoch, after.base_sequence) == (7, 2, 40)
    assert (after.last_sequence, after.codec, after.leader_epoch) == (before.last_sequence, codec, 3)


def test_a_batch_that_loses_nothing_is_copied_as_it_is() -> None:
    original = batch(10, (b"a", b"1"), (b"b", b"2"), codec=Codec.ZSTD)
    assert clean(a_filter({b"a": 10, b"b": 11}), original) == bytes(original)


def test_a_batch_that_loses_everything_goes() -> None:
    assert clean(a_filter({b"a": 99}), batch(10, (b"a", b"1"))) is None


def test_records_without_a_key_go() -> None:
    assert rows(clean(a_filter(), batch(0, (None, b"x"), (b"a", b"1")))) == [(1, 101, b"a", b"1")]


def test_above_the_end_of_the_map_everything_stays() -> None:
    original = batch(10, (b"a", b"1"), (b"a", b"2"), (None, b"3"))
    assert rows(clean(a_filter({b"a": 99}, end_offset=11), original)) == [
        (11, 111, b"a", b"2"),
        (12, 112, None, b"3"),
    ]


def test_long_keys_are_told_apart() -> None:
    long, other = b"k" * 100, b"k" * 99 + b"x"
    assert rows(clean(a_filter({long: 99}), batch(0, (long, b"1"), (other, b"2")))) == [(1, 101, other, b"2")]


def test_a_tombstone_gets_a_delete_horizon_at_its_first_cleaning() -> None:
    cleaned = clean(a_filter(), batch(10, (b"a", None), (b"b", b"2")))
    assert rows(cleaned) == [(10, 110, b"a", None), (11, 111, b"b", b"2")]
    assert header_of(cleaned).delete_horizon_ms == HORIZON_MS


def test_a_tombstone_goes_when_its_horizon_has_come_and_not_before() -> None:
    first = clean(a_filter(), batch(10, (b"a", None), (b"b", b"2")))
    assert first is not None
    waiting = clean(a_filter(now_ms=HORIZON_MS - 1), bytearray(first))
    assert waiting == first
    assert rows(clean(a_filter(now_ms=HORIZON_MS), bytearray(first))) == [(11, 111, b"b", b"2")]


def test_a_superseded_tombstone_goes_at_once() -> None:
    assert clean(a_filter({b"a": 99}), batch(10, (b"a", None))) is None


def test_a_batch_that_lost_its_tombstones_keeps_its_horizon_and_its_timestamps() -> None:
    first = clean(a_filter(), batch(10, (b"a", None), (b"b", b"2"), (b"c", b"3")))
    assert first is not None
    later = clean(a_filter({b"b": 99}, now_ms=HORIZON_MS + 9), bytearray(first))
    assert rows(later) == [(12, 112, b"c", b"3")]
    assert header_of(later).delete_horizon_ms == HORIZON_MS


def test_the_last_batch_of_a_known_producer_stays_without_records() -> None:
    original = batch(10, (b"a", b"1"), (b"a", b"2"), producer=7, sequence=40, epoch=2)
    cleaned = clean(a_filter({b"a": 99}, producers={7: LastWord(11, 2)}), original)
    before, after = read_header(original), header_of(cleaned)
    assert rows(cleaned) == []
    assert (after.base_offset, after.last_offset, after.record_count) == (10, 11, 0)
    assert (after.last_sequence, after.max_timestamp) == (before.last_sequence, before.max_timestamp)
    assert clean(a_filter({b"a": 99}, producers={7: LastWord(11, 2)}), bytearray(cleaned or b"")) == cleaned
    assert clean(a_filter({b"a": 99}, producers={7: LastWord(50, 2)}), bytearray(cleaned or b"")) is None


def test_a_header_is_kept_without_records_when_the_caller_wants_it() -> None:
    cleaned = clean(a_filter({b"a": 99}), batch(10, (b"a", b"1")), keep_header=True)
    assert rows(cleaned) == []
    assert header_of(cleaned).next_offset == 11


def test_aborted_data_goes_and_committed_data_of_the_same_producer_stays() -> None:
    cleaning = a_filter(aborted=[AbortedTxn(9, 10, 12, 13)])
    assert clean(cleaning, batch(8, (b"x", b"0"), producer=9, epoch=0, sequence=0)) is not None
    assert clean(cleaning, batch(10, (b"a", b"1"), producer=9, epoch=0, sequence=1, transactional=True)) is None
    assert clean(cleaning, marker(12, commit=False)) == bytes(marker(12, commit=False))
    assert cleaning.aborted == [AbortedTxn(9, 10, 12, 13)]
    later = batch(13, (b"b", b"2"), producer=9, epoch=0, sequence=2, transactional=True)
    assert clean(cleaning, later) == bytes(later)
    assert clean(cleaning, marker(14, commit=True)) == bytes(marker(14, commit=True))


@pytest.mark.parametrize("commit", [True, False])
def test_a_marker_without_data_gets_a_horizon_and_goes_after_it(commit: bool) -> None:
    aborted = [] if commit else [AbortedTxn(9, 10, 12, 13)]
    cleaning = a_filter(aborted=aborted)
    first = clean(cleaning, marker(12, commit=commit))
    assert header_of(first).delete_horizon_ms == HORIZON_MS
    assert cleaning.aborted == []  # no reader needs the entry: there is nothing left to judge
    assert clean(a_filter(aborted=aborted, now_ms=HORIZON_MS - 1), bytearray(first or b"")) == first
    assert clean(a_filter(aborted=aborted, now_ms=HORIZON_MS), bytearray(first or b"")) is None


def test_a_marker_with_a_horizon_stays_while_data_of_its_transaction_is_there() -> None:
    waiting = bytearray(clean(a_filter(), marker(12, commit=True)) or b"")
    cleaning = a_filter(now_ms=HORIZON_MS)
    assert clean(cleaning, batch(10, (b"a", b"1"), producer=9, epoch=0, sequence=0, transactional=True)) is not None
    assert clean(cleaning, waiting) == bytes(waiting)


def test_data_kept_only_for_its_producers_sequence_keeps_marker_and_index_entry() -> None:
    entry = AbortedTxn(9, 10, 12, 13)
    cleaning = a_filter(aborted=[entry], producers={9: LastWord(10, 0)})
    emptied = clean(cleaning, batch(10, (b"a", b"1"), producer=9, epoch=0, sequence=0, transactional=True))
    assert rows(emptied) == []
    assert clean(cleaning, marker(12, commit=False)) == bytes(marker(12, commit=False))
    assert cleaning.aborted == [entry]


def test_a_marker_that_is_the_last_word_about_a_producer_stays_whole() -> None:
    cleaning = a_filter(producers={9: LastWord(None, 4)})
    assert clean(cleaning, marker(12, commit=True, epoch=4)) == bytes(marker(12, commit=True, epoch=4))
    assert header_of(clean(cleaning, marker(13, commit=True, epoch=3))).delete_horizon_ms == HORIZON_MS


def test_an_abort_whose_data_no_index_names_is_kept_with_its_data() -> None:
    cleaning = a_filter()
    assert clean(cleaning, batch(10, (b"a", b"1"), producer=9, epoch=0, sequence=0, transactional=True)) is not None
    assert clean(cleaning, marker(12, commit=False)) == bytes(marker(12, commit=False))
    assert header_of(clean(cleaning, marker(13, commit=True))).delete_horizon_ms == HORIZON_MS


def test_data_after_the_place_of_an_abort_marker_is_not_aborted_even_if_the_marker_is_not_met() -> None:
    cleaning = a_filter(aborted=[AbortedTxn(9, 10, 12, 13)])
    later = batch(13, (b"b", b"2"), producer=9, epoch=0, sequence=2, transactional=True)
    assert clean(cleaning, later) == bytes(later)


def test_transactions_of_several_producers_may_interleave() -> None:
    aborted = [AbortedTxn(1, 0, 4, 0), AbortedTxn(2, 1, 6, 7)]
    cleaning = a_filter(aborted=aborted)

    def data(offset: int, producer: int) -> bytearray:
        return batch(offset, (b"%d" % offset, b"v"), producer=producer, epoch=0, sequence=0, transactional=True)

    left = [
        clean(cleaning, one) is not None
        for one in (
            data(0, 1),
            data(1, 2),
            data(2, 3),
            data(3, 1),
            marker(4, commit=False, producer=1),
            data(5, 1),
            marker(6, commit=False, producer=2),
            marker(7, commit=True, producer=3),
            marker(8, commit=True, producer=1),
        )
    ]
    assert left == [False, False, True, False, True, True, True, True, True]
    assert cleaning.aborted == aborted


def test_an_emptied_marker_goes_unless_it_is_a_last_word() -> None:
    emptied = bytearray(clean(a_filter(now_ms=HORIZON_MS), _expired_marker(), keep_header=True) or b"")
    assert rows(emptied) == []
    assert clean(a_filter(), emptied) is None
    assert clean(a_filter(producers={9: LastWord(None, 0)}), emptied) == bytes(emptied)


def _expired_marker() -> bytearray:
    return bytearray(clean(a_filter(), marker(12, commit=True)) or b"")


def test_a_batch_that_lies_about_its_records_is_not_cleaned() -> None:
    damaged = batch(0, (b"a", b"1"))
    damaged[60] = 2  # the record count
    with pytest.raises(CorruptBatchError):
        a_filter().clean(memoryview(damaged), read_header(damaged), keep_header=False)


def test_the_map_of_keys_takes_the_first_batch_whatever_its_size_and_then_what_fits() -> None:
    newest = NewestOffsets(start_offset=0, limit_bytes=3 * ENTRY_BYTES)
    assert newest.has_room_for(1000)
    newest.put(b"a", 0)
    assert newest.has_room_for(2)
    assert not newest.has_room_for(3)


def test_the_last_word_about_a_producer_is_its_last_data_or_else_its_epoch() -> None:
    with_data = ProducerState(1, epoch=3)
    with_data.batches.append((0, 1, 10, 11, 5))
    assert last_words([with_data, ProducerState(2, epoch=8)]) == {1: LastWord(11, 3), 2: LastWord(None, 8)}


def test_records_keep_their_headers() -> None:
    original = build_batch(
        [NewRecord(1, b"a", b"1"), NewRecord(2, b"b", b"2", (("h", b"x"), ("n", None)))], base_offset=5
    )
    cleaned = clean(a_filter({b"a": 99}), original)
    assert cleaned is not None
    assert list(read_records(cleaned)) == [Record(6, 2, b"b", b"2", (("h", b"x"), ("n", None)))]
