"""Appending: offsets, stamps, who may write what, rolling, producers, timestamps, epochs."""

from collections.abc import Callable

import pytest

from headrace.log.append import MAX_OPENED_RECORDS, Origin
from headrace.log.config import UNLIMITED, LogConfig, TimestampType
from headrace.log.epochs import EpochEntry
from headrace.log.errors import (
    CoordinatorFencedError,
    InvalidProducerEpochError,
    InvalidRecordError,
    InvalidTimestampError,
    InvalidTransactionStateError,
    MessageTooLargeError,
    OutOfOrderSequenceError,
    RecordListTooLargeError,
    RefusedBatchError,
    UnexpectedOffsetError,
)
from headrace.log.log import Log
from headrace.log.memory_fs import MemoryFileSystem
from headrace.protocol.batch import read_header, verify, write_crc
from headrace.protocol.compression import Codec
from headrace.protocol.errors import CorruptBatchError
from headrace.protocol.records import ControlType, NewRecord, build_batch, control_key, read_records, seal_batch
from tests.support.log_batches import EPOCH, NOW_MS, a_batch, a_marker, append, batches_of, end_transaction, values_of

OpenLog = Callable[..., Log]


@pytest.fixture
def open_log() -> OpenLog:
    fs = MemoryFileSystem()
    fs.make_dir("/data")

    def open_log(**config: object) -> Log:
        return Log.open(fs, "/data/t-0", LogConfig(**config), clean=False, now_ms=NOW_MS)  # type: ignore[arg-type]

    return open_log


def test_batches_get_the_next_offsets_and_the_leaders_epoch(open_log: OpenLog) -> None:
    log = open_log()
    first = append(log, b"a", b"b", b"c")
    second = append(log, b"d")
    assert (first.base_offset, first.last_offset, first.max_timestamp, first.duplicate) == (0, 2, NOW_MS, False)
    assert (second.base_offset, second.last_offset, second.log_append_time_ms) == (3, 3, -1)
    assert log.log_end_offset == 4
    headers = [header for header, _ in batches_of(log)]
    assert [(header.base_offset, header.leader_epoch) for header in headers] == [(0, EPOCH), (3, EPOCH)]
    assert values_of(log) == [b"a", b"b", b"c", b"d"]


def test_the_received_buffer_itself_is_stamped_and_stays_valid(open_log: OpenLog) -> None:
    log = open_log()
    append(log, b"x")
    for buffer in (a_batch(b"y"), memoryview(a_batch(b"z"))):
        log.append(buffer, leader_epoch=EPOCH, now_ms=NOW_MS)
        assert verify(buffer).base_offset == log.log_end_offset - 1


def test_several_batches_are_appended_in_one_go(open_log: OpenLog) -> None:
    log = open_log()
    result = log.append(a_batch(b"a", b"b") + a_batch(b"c"), leader_epoch=EPOCH, now_ms=NOW_MS)
    assert (result.base_offset, result.last_offset) == (0, 2)
    assert [header.base_offset for header, _ in batches_of(log)] == [0, 2]


def test_the_quick_way_and_the_long_way_write_the_same(open_log: OpenLog) -> None:
    """The first append of an epoch goes the long way; with the epoch known, plain batches go the quick one."""
    log = open_log(index_interval_bytes=200, segment_bytes=1500)
    mixed = []
    for number in range(60):
        batch = a_batch(b"v" * (number % 40), timestamps=[NOW_MS + number * 7 % 50])
        log.append(batch, leader_epoch=EPOCH + number // 50, now_ms=NOW_MS)
        mixed.append(bytes(batch))
    other = Log.open(MemoryFileSystem(), "/o-0", log.config, clean=False, now_ms=NOW_MS)
    for data in mixed:
        other.append(bytearray(data), leader_epoch=0, now_ms=NOW_MS, origin=Origin.REPLICATION)
    assert [data for _, data in batches_of(other)] == mixed
    assert len(log.segments) == len(other.segments) > 2
    for mine, theirs in zip(log.segments, other.segments, strict=True):
        assert list(mine.offsets) == list(theirs.offsets)
        assert list(mine.times) == list(theirs.times)
        assert (mine.max_timestamp, mine.max_timestamp_offset) == (theirs.max_timestamp, theirs.max_timestamp_offset)


def damaged(batch: bytearray, position: int, value: int) -> bytearray:
    batch[position] = value
    return batch


@pytest.mark.parametrize("warm", [False, True])
@pytest.mark.parametrize(
    ("batch", "complaint"),
    [
        (bytearray(b"short"), "not a batch"),
        (bytearray(), "not a batch"),
        (damaged(a_batch(b"value"), 65, 99), "CRC"),
        (damaged(a_batch(b"value"), 16, 1), "magic 1"),
        (damaged(a_batch(b"value"), 11, 200), "batch length"),
        (a_batch(b"value")[:-1], "batch length"),
        (a_batch(b"value") + b"rest", "bytes left"),
    ],
)
def test_damaged_batches_are_refused(open_log: OpenLog, batch: bytearray, complaint: str, warm: bool) -> None:
    log = open_log()
    if warm:
        append(log)
        append(log)
    end = log.log_end_offset
    with pytest.raises(CorruptBatchError, match=complaint):
        log.append(batch, leader_epoch=EPOCH, now_ms=NOW_MS)
    assert log.log_end_offset == end
    assert len(values_of(log)) == end


def with_counts(count: int, last_offset_delta: int) -> bytearray:
    batch = a_batch(b"a", b"b")
    batch[23:27] = last_offset_delta.to_bytes(4, "big", signed=True)
    batch[57:61] = count.to_bytes(4, "big", signed=True)
    write_crc(batch, 0, len(batch))
    return batch


@pytest.mark.parametrize("warm", [False, True])
@pytest.mark.parametrize(
    ("batch", "error", "complaint"),
    [
        (with_counts(1, 1), InvalidRecordError, "no gaps"),
        (with_counts(0, -1), CorruptBatchError, "0 records"),
        (with_counts(1 << 30, (1 << 30) - 1), CorruptBatchError, "cannot be in"),
        (a_marker(commit=True, producer=7), InvalidRecordError, "control batch"),
        (build_batch([NewRecord(1, None, b"")], log_append_time_ms=5), InvalidTimestampError, "LogAppendTime"),
        (a_batch(producer=7, sequence=-1), InvalidRecordError, "sequence -1"),
        (a_batch(producer=7, producer_epoch=-1), InvalidRecordError, "epoch -1"),
        (a_batch(b"x" * 5000), MessageTooLargeError, "max.message.bytes is 4000"),
        (a_batch(timestamps=[NOW_MS + 3_600_001]), InvalidTimestampError, "3600001 ms ahead"),
        (a_batch(producer=7) + a_batch(producer=8), InvalidRecordError, "2 batches with producer ids"),
    ],
)
def test_what_a_client_may_not_send_is_refused(
    open_log: OpenLog, batch: bytearray, error: type[Exception], complaint: str, warm: bool
) -> None:
    log = open_log(max_message_bytes=4000)
    if warm:
        append(log)
        append(log)
    with pytest.raises(error, match=complaint):
        log.append(batch, leader_epoch=EPOCH, now_ms=NOW_MS)


def test_more_records_than_bytes_are_believed_only_after_decompressing(open_log: OpenLog) -> None:
    log = open_log()
    batch = a_batch(*[b""] * 2000, codec=Codec.ZSTD)
    assert len(batch) < 2000
    assert log.append(batch, leader_epoch=EPOCH, now_ms=NOW_MS).last_offset == 1999


def test_batches_that_do_not_fit_into_a_segment_together_are_refused(open_log: OpenLog) -> None:
    log = open_log(segment_bytes=300)
    with pytest.raises(RecordListTooLargeError, match=r"segment\.bytes is 300"):
        log.append(a_batch(b"x" * 100) + a_batch(b"y" * 100), leader_epoch=EPOCH, now_ms=NOW_MS)
    append(log)
    append(log)
    with pytest.raises(RecordListTooLargeError):
        append(log, b"z" * 300)


def test_a_compacted_topic_takes_no_record_without_a_key(open_log: OpenLog) -> None:
    log = open_log(cleanup_policy=frozenset({"compact"}))
    for _ in range(2):
        append(log, b"v", keys=[b"k"])
        with pytest.raises(InvalidRecordError, match="without a key"):
            append(log, b"v", b"w", keys=[b"k", None], codec=Codec.LZ4)


def test_a_topic_whose_records_are_looked_at_takes_only_so_many_in_one_batch(open_log: OpenLog) -> None:
    log = open_log(cleanup_policy=frozenset({"compact"}))
    batch = a_batch(b"v", codec=Codec.ZSTD)
    batch[23:27] = MAX_OPENED_RECORDS.to_bytes(4, "big")
    batch[57:61] = (MAX_OPENED_RECORDS + 1).to_bytes(4, "big")
    write_crc(batch, 0, len(batch))
    with pytest.raises(InvalidRecordError, match="1000001 records in one batch"):
        log.append(batch, leader_epoch=EPOCH, now_ms=NOW_MS)


def test_records_that_are_too_old_for_the_topic_are_refused(open_log: OpenLog) -> None:
    log = open_log(message_timestamp_before_max_ms=1000)
    append(log, b"v", b"w", timestamps=[NOW_MS, NOW_MS - 1000])
    with pytest.raises(InvalidTimestampError, match="1001 ms behind"):
        append(log, b"v", b"w", timestamps=[NOW_MS, NOW_MS - 1001])


def test_log_append_time_is_the_brokers_clock_under_a_valid_crc(open_log: OpenLog) -> None:
    log = open_log(message_timestamp_type=TimestampType.LOG_APPEND_TIME)
    for number in range(3):
        result = append(log, b"a", b"b", timestamps=[5, NOW_MS * 2], now_ms=NOW_MS + number)
        assert (result.log_append_time_ms, result.max_timestamp) == (NOW_MS + number, NOW_MS + number)
    for number, (_, data) in enumerate(batches_of(log)):
        assert verify(data).is_log_append_time
        assert [record.timestamp for record in read_records(data)] == [NOW_MS + number] * 2


@pytest.mark.parametrize("before_max_ms", [UNLIMITED, 1000])
def test_under_log_append_time_no_record_is_opened_for_its_timestamp(open_log: OpenLog, before_max_ms: int) -> None:
    log = open_log(message_timestamp_type=TimestampType.LOG_APPEND_TIME, message_timestamp_before_max_ms=before_max_ms)
    header = read_header(a_batch(timestamps=[5]))
    nobody_can_read_this = seal_batch(header, b"?" * 20)
    log.append(nobody_can_read_this, leader_epoch=EPOCH, now_ms=NOW_MS)
    ((stored, _),) = batches_of(log)
    assert (stored.is_log_append_time, stored.max_timestamp) == (True, NOW_MS)


# Rolling


def test_a_segment_is_rolled_before_it_grows_above_its_size(open_log: OpenLog) -> None:
    log = open_log(segment_bytes=250)
    for _ in range(5):
        append(log, b"v" * 30)
    assert [segment.base_offset for segment in log.segments] == [0, 2, 4]
    assert all(segment.size <= 250 for segment in log.segments)


def test_a_segment_is_rolled_when_a_record_is_too_much_later_than_its_first_batch(
    open_log: OpenLog,
) -> None:
    log = open_log(segment_ms=1000)
    for timestamp in (0, 500, 1000, 1001, 400, 2001, 2002):
        append(log, timestamps=[NOW_MS + timestamp])
    assert [segment.base_offset for segment in log.segments] == [0, 3, 6]


def test_a_jitter_rolls_a_segment_somewhat_earlier(open_log: OpenLog) -> None:
    log = open_log(segment_ms=1000, segment_jitter_ms=999)
    append(log, timestamps=[NOW_MS])
    ages = []
    for age in range(1002):
        append(log, timestamps=[NOW_MS + age])
        if len(log.segments) == 2:
            ages.append(age)
            break
    assert 0 < ages[0] < 1001


@pytest.mark.parametrize(("policy", "bases"), [("delete", [0]), ("compact", [0, 3, 5])])
def test_a_compacted_log_is_rolled_when_a_record_has_waited_for_compaction_too_long(
    open_log: OpenLog, policy: str, bases: list[int]
) -> None:
    """What stands in the active segment is not compacted, so that a record must not stay in it for longer."""
    log = open_log(segment_ms=5000, max_compaction_lag_ms=1000, cleanup_policy=frozenset({policy}))
    for timestamp in (0, 500, 1000, 1001, 2001, 2002):
        append(log, timestamps=[NOW_MS + timestamp])
    assert [segment.base_offset for segment in log.segments] == bases


def test_records_without_timestamps_age_by_the_brokers_clock(open_log: OpenLog) -> None:
    log = open_log(segment_ms=1000)
    for age in (0, 1000, 1001):
        append(log, timestamps=[-1], now_ms=NOW_MS + age)
    assert [segment.base_offset for segment in log.segments] == [0, 2]


def test_the_age_of_a_segment_that_was_cut_to_nothing_begins_with_its_next_batch(open_log: OpenLog) -> None:
    log = open_log(segment_ms=1000)
    append(log, timestamps=[NOW_MS])
    log.truncate_to(0)
    for timestamp in (NOW_MS + 500, NOW_MS + 1500, NOW_MS + 1501):
        append(log, timestamps=[timestamp])
    assert [segment.base_offset for segment in log.segments] == [0, 2]


def test_a_segment_is_rolled_when_an_index_is_full(open_log: OpenLog) -> None:
    # Room for four offset entries, or two time entries and a spare one.
    log = open_log(index_interval_bytes=50, segment_index_bytes=36)
    for number in range(12):
        append(log, b"v" * 60, timestamps=[NOW_MS + number])
    assert len(log.segments) > 1
    log.close()
    for segment in list(log.segments)[:-1]:
        assert len(segment.offsets) <= 4
        assert len(segment.times) <= 3


def test_a_segment_is_rolled_when_offsets_exceed_what_its_index_can_say(open_log: OpenLog) -> None:
    log = open_log()
    far = 2 + (1 << 31)  # too far for a segment that begins at the log's end, too
    for offset in (0, 1, far, far + 1, 3 * far):
        batch = a_batch(base_offset=offset, leader_epoch=EPOCH)
        log.append(batch, leader_epoch=EPOCH, now_ms=NOW_MS, origin=Origin.REPLICATION)
    assert [segment.base_offset for segment in log.segments] == [0, far, 3 * far]
    assert [header.base_offset for header, _ in batches_of(log)] == [0, 1, far, far + 1, 3 * far]


def test_a_segment_takes_clients_batches_up_to_the_last_offset_that_its_index_can_say(open_log: OpenLog) -> None:
    log = open_log()
    for offset in (0, (1 << 31) - 5):
        batch = a_batch(base_offset=offset, leader_epoch=EPOCH)
        log.append(batch, leader_epoch=EPOCH, now_ms=NOW_MS, origin=Origin.REPLICATION)
    for _ in range(6):
        append(log)
    assert log.log_end_offset == (1 << 31) + 2
    assert [segment.base_offset for segment in log.segments] == [0, 1 << 31]


def test_an_empty_segment_is_replaced_by_one_that_begins_where_replication_goes_on(open_log: OpenLog) -> None:
    log = open_log()
    far = 1 << 40
    log.append(a_batch(base_offset=far), leader_epoch=EPOCH, now_ms=NOW_MS, origin=Origin.REPLICATION)
    assert [segment.base_offset for segment in log.segments] == [far]


def test_rolling_an_empty_segment_changes_nothing(open_log: OpenLog) -> None:
    log = open_log()
    log.roll(now_ms=NOW_MS)
    append(log)
    log.roll(now_ms=NOW_MS)
    log.roll(now_ms=NOW_MS)
    assert [segment.base_offset for segment in log.segments] == [0, 1]


def test_a_new_config_holds_from_the_next_append_on(open_log: OpenLog) -> None:
    log = open_log()
    for _ in range(3):
        append(log)
    log.update_config(LogConfig(max_message_bytes=50))
    with pytest.raises(MessageTooLargeError):
        append(log)


# Replication


def test_replicated_batches_keep_offsets_epochs_and_gaps(open_log: OpenLog) -> None:
    log = open_log()
    data = a_batch(b"a", base_offset=3, leader_epoch=1) + a_batch(b"b", base_offset=10, leader_epoch=2)
    result = log.append(data, leader_epoch=9, now_ms=NOW_MS, origin=Origin.REPLICATION)
    assert (result.base_offset, result.last_offset, log.log_end_offset) == (3, 10, 11)
    assert log.epochs.entries == [EpochEntry(1, 3), EpochEntry(2, 10)]


def test_a_part_of_a_batch_at_the_end_of_a_fetch_is_left_out(open_log: OpenLog) -> None:
    log = open_log()
    whole = a_batch(b"a", base_offset=0)
    for part in (a_batch(b"b", base_offset=1)[:-1], a_batch(b"b", base_offset=1)[:20]):
        log.truncate_to(0)
        log.append(whole + part, leader_epoch=EPOCH, now_ms=NOW_MS, origin=Origin.REPLICATION)
        assert values_of(log) == [b"a"]
    nothing = log.append(a_batch()[:62], leader_epoch=EPOCH, now_ms=NOW_MS, origin=Origin.REPLICATION)
    assert (nothing.base_offset, nothing.last_offset) == (1, 0)


def test_replicated_batches_that_do_not_continue_the_log_are_refused(open_log: OpenLog) -> None:
    log = open_log()
    append(log, b"a", b"b")
    for data in (a_batch(base_offset=1), a_batch(base_offset=5) + a_batch(base_offset=5)):
        with pytest.raises(UnexpectedOffsetError, match="truncate to the leader first"):
            log.append(data, leader_epoch=EPOCH, now_ms=NOW_MS, origin=Origin.REPLICATION)
    assert log.log_end_offset == 2


def test_replication_is_bound_by_no_limit_that_the_leader_did_not_have(open_log: OpenLog) -> None:
    log = open_log(segment_bytes=300, max_message_bytes=100)
    data = b"".join(a_batch(b"v" * 100, timestamps=[NOW_MS * 2], base_offset=offset) for offset in range(5))
    data += a_batch(b"v" * 500, base_offset=5)
    log.append(bytearray(data), leader_epoch=EPOCH, now_ms=NOW_MS, origin=Origin.REPLICATION)
    assert log.log_end_offset == 6
    assert len(log.segments) > 2


# Producers


def test_a_retry_is_answered_with_the_offsets_of_the_first_time(open_log: OpenLog) -> None:
    log = open_log()
    append(log)
    for sequence in range(5):
        append(log, b"v", producer=7, sequence=sequence)
    for sequence in range(5):
        result = append(log, b"v", producer=7, sequence=sequence)
        assert (result.base_offset, result.last_offset, result.duplicate) == (1 + sequence, 1 + sequence, True)
    assert log.log_end_offset == 6


def test_a_gap_in_the_sequence_and_a_zombie_are_refused(open_log: OpenLog) -> None:
    log = open_log()
    append(log, b"a", b"b", producer=7, producer_epoch=3)
    with pytest.raises(OutOfOrderSequenceError):
        append(log, producer=7, producer_epoch=3, sequence=3)
    with pytest.raises(InvalidProducerEpochError):
        append(log, producer=7, producer_epoch=2, sequence=2)
    append(log, producer=7, producer_epoch=4, sequence=0)
    assert log.log_end_offset == 3


def test_a_refused_batch_leaves_no_trace_of_its_producer(open_log: OpenLog) -> None:
    log = open_log(max_message_bytes=100)
    with pytest.raises(MessageTooLargeError):
        append(log, b"x" * 200, producer=7)
    assert log.producers.get(7) is None


def test_a_plain_batch_in_an_open_transaction_is_refused(open_log: OpenLog) -> None:
    log = open_log()
    append(log, producer=7, transactional=True)
    with pytest.raises(InvalidTransactionStateError):
        append(log, producer=7, sequence=1)
    end_transaction(log, commit=True, producer=7)
    append(log, producer=7, sequence=1)


def test_markers_of_old_coordinators_and_old_epochs_are_refused(open_log: OpenLog) -> None:
    log = open_log()
    append(log, producer=7, producer_epoch=2, transactional=True)

    def mark(coordinator_epoch: int, producer_epoch: int, transaction_version: int = 0) -> None:
        marker = a_marker(commit=True, producer=7, producer_epoch=producer_epoch, coordinator_epoch=coordinator_epoch)
        log.append(
            marker,
            leader_epoch=EPOCH,
            now_ms=NOW_MS,
            origin=Origin.COORDINATOR,
            transaction_version=transaction_version,
        )

    with pytest.raises(InvalidProducerEpochError):
        mark(5, 1)
    with pytest.raises(InvalidProducerEpochError):
        mark(5, 2, transaction_version=2)
    mark(5, 2)
    with pytest.raises(CoordinatorFencedError):
        mark(4, 2)
    assert issubclass(CoordinatorFencedError, RefusedBatchError)


def test_a_coordinator_writes_offsets_of_a_transaction_without_sequences(open_log: OpenLog) -> None:
    log = open_log()
    batch = build_batch(
        [NewRecord(NOW_MS, b"k", b"v")], producer_id=7, producer_epoch=0, base_sequence=-1, transactional=True
    )
    for _ in range(2):
        log.append(bytearray(batch), leader_epoch=EPOCH, now_ms=NOW_MS, origin=Origin.COORDINATOR)
    assert log.log_end_offset == 2
    assert log.producers.first_undecided_offset == 0


def test_control_batches_without_a_producer_are_stored_and_mean_nothing_here(open_log: OpenLog) -> None:
    log = open_log()
    batch = build_batch([NewRecord(NOW_MS, control_key(ControlType.LEADER_CHANGE), b"...")], control=True)
    log.append(batch, leader_epoch=EPOCH, now_ms=NOW_MS, origin=Origin.COORDINATOR)
    assert read_header(next(batches_of(log))[1]).is_control
    assert len(log.producers) == 0


def test_a_control_batch_of_a_producer_that_ends_no_transaction_is_refused(open_log: OpenLog) -> None:
    log = open_log()
    batch = build_batch(
        [NewRecord(NOW_MS, control_key(ControlType.LEADER_CHANGE), bytes(6))],
        producer_id=7,
        producer_epoch=0,
        transactional=True,
        control=True,
    )
    with pytest.raises(InvalidRecordError):
        log.append(batch, leader_epoch=EPOCH, now_ms=NOW_MS, origin=Origin.COORDINATOR)
    assert log.log_end_offset == 0


def test_a_replicated_marker_that_cannot_be_read_is_refused_before_it_is_stored(open_log: OpenLog) -> None:
    log = open_log()
    batch = build_batch(
        [NewRecord(NOW_MS, b"", b"")], producer_id=7, producer_epoch=0, control=True, transactional=True
    )
    with pytest.raises(CorruptBatchError, match="control record"):
        log.append(batch, leader_epoch=EPOCH, now_ms=NOW_MS, origin=Origin.REPLICATION)
    assert log.log_end_offset == 0


def test_epochs_are_noted_where_they_begin(open_log: OpenLog) -> None:
    log = open_log()
    for epoch, count in ((1, 2), (4, 3), (5, 1)):
        for _ in range(count):
            append(log, epoch=epoch)
    log.assign_epoch(8)
    assert log.epochs.entries == [EpochEntry(1, 0), EpochEntry(4, 2), EpochEntry(5, 5), EpochEntry(8, 6)]


def test_silent_producers_are_forgotten(open_log: OpenLog) -> None:
    log = open_log(producer_id_expiration_ms=1000)
    append(log, producer=7, timestamps=[NOW_MS])
    append(log, producer=8, timestamps=[NOW_MS + 500])
    assert log.expire_producers(NOW_MS + 1200) == 1
    assert [state.producer_id for state in log.producers] == [8]
