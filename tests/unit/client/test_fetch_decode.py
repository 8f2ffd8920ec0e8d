"""From fetched bytes to records: the same as the plain reader makes of them, and as strict."""

import random

import pytest
from hypothesis import given

from headrace.client.consumer_record import ConsumerRecord
from headrace.client.fetch_decode import OpenBatch, open_batches
from headrace.client.topic_partition import TopicPartition
from headrace.protocol.batch import BatchHeader, check_header
from headrace.protocol.errors import CorruptBatchError
from headrace.protocol.messages.fetch import AbortedTransaction
from headrace.protocol.records import NewRecord, Record, build_batch, build_end_transaction_marker, read_records
from tests.support.record_strategies import BROKEN_RECORDS, UNUSUAL_RECORDS, damage, logs, random_log, seeds

PLACE = TopicPartition("orders", 3)


def plain(record: ConsumerRecord) -> Record:
    return Record(record.offset, record.timestamp, record.key, record.value, record.headers)


def read_all(data: bytes, *, position: int = 0, limit: int = 1000, **how: object) -> list[ConsumerRecord]:
    opened = open_batches(PLACE, data, position=position, aborted=None, checks_crc=True)
    records: list[ConsumerRecord] = []
    for batch in opened.batches:
        while not batch.is_read:
            records += batch.read(limit)
    return records


def expected(data: bytes) -> list[Record]:
    records: list[Record] = []
    place = 0
    while place < len(data):
        header = check_header(data, place)
        records += read_records(data, place)
        place += header.size_bytes
    return records


@given(logs, seeds)
def test_records_are_those_of_the_plain_reader_in_portions_of_any_size(log: bytes, seed: int) -> None:
    found = read_all(log, limit=random.Random(seed).choice([1, 2, 7, 1000]))
    assert [plain(record) for record in found] == expected(log)
    assert all((record.topic, record.partition) == PLACE for record in found)


@given(seeds)
def test_damaged_bytes_are_refused_or_read_as_the_plain_reader_reads_them(seed: int) -> None:
    header, payload = _one_batch(random.Random(seed))
    damaged = damage(payload, seed)
    try:
        theirs: list[Record] | None = _read_plain(header, damaged)
    except CorruptBatchError:
        theirs = None
    try:
        batch = OpenBatch(PLACE, header, damaged)
        ours: list[Record] | None = [plain(record) for record in batch.read(1000)]
    except CorruptBatchError:
        ours = None
    assert ours == theirs


def _one_batch(draw: random.Random) -> tuple[BatchHeader, bytes]:
    records = [
        NewRecord(
            draw.randrange(2**40),
            draw.choice([None, b"", draw.randbytes(5), draw.randbytes(70)]),
            draw.choice([None, b"", draw.randbytes(100)]),
            draw.choice([(), (), (("h", b"1"),)]),
        )
        for _ in range(draw.choice([1, 3, 70]))
    ]
    batch = bytes(build_batch(records))
    return check_header(batch), batch[61:]


def _read_plain(header: BatchHeader, payload: bytes) -> list[Record]:
    from headrace.protocol.batch import HEADER_SIZE, LOG_OVERHEAD, pack_header

    length = HEADER_SIZE - LOG_OVERHEAD + len(payload)
    return list(read_records(pack_header(header._replace(batch_length=length)) + payload))


@pytest.mark.parametrize(("payload", "reason"), BROKEN_RECORDS)
def test_a_record_that_breaks_its_format_is_refused(payload: bytes, reason: str) -> None:
    header = check_header(bytes(build_batch([NewRecord(0, None, None)])))
    with pytest.raises(CorruptBatchError):
        assert OpenBatch(PLACE, header, payload).read(1)[0].headers is None, reason


@pytest.mark.parametrize("payload", UNUSUAL_RECORDS)
def test_numbers_longer_than_they_need_to_be_and_the_largest_are_read(payload: bytes) -> None:
    header = check_header(bytes(build_batch([NewRecord(0, None, None)])))
    assert len(OpenBatch(PLACE, header, payload).read(1)) == 1


def test_large_deltas_and_lengths_take_the_long_way() -> None:
    records = [NewRecord(place * 1_000_000, b"k" * 70, b"v" * 20_000) for place in range(3)]
    records += [NewRecord(0, b"", b"") for _ in range(9000)]
    assert [plain(record) for record in read_all(bytes(build_batch(records)))] == expected(bytes(build_batch(records)))


def test_a_batch_that_begins_before_the_position_is_opened_and_one_behind_it_is_not() -> None:
    log = bytes(
        build_batch([NewRecord(0, None, b"a")] * 3) + build_batch([NewRecord(0, None, b"b")] * 3, base_offset=3)
    )
    opened = open_batches(PLACE, log, position=4, aborted=None, checks_crc=True)
    assert [batch.base_offset for batch in opened.batches] == [3]
    assert opened.next_offset == 6


def test_a_wrong_crc_is_an_error_unless_it_is_not_looked_at() -> None:
    log = bytearray(build_batch([NewRecord(0, None, b"abc")]))
    log[-3] ^= 1  # inside the value
    with pytest.raises(CorruptBatchError, match="CRC"):
        open_batches(PLACE, log, position=0, aborted=None, checks_crc=True)
    opened = open_batches(PLACE, log, position=0, aborted=None, checks_crc=False)
    assert opened.batches[0].read(1)[0].value != b"abc"


def test_what_comes_before_a_damaged_batch_is_opened_and_the_next_fetch_begins_with_it() -> None:
    sound = bytes(build_batch([NewRecord(0, None, b"a")] * 3))
    damaged = build_batch([NewRecord(0, None, b"b")], base_offset=3)
    damaged[-3] ^= 1
    log = sound + bytes(damaged)
    opened = open_batches(PLACE, log, position=0, aborted=None, checks_crc=True)
    assert ([batch.base_offset for batch in opened.batches], opened.next_offset) == ([0], 3)
    for data in (log, log[len(sound) :]):  # a broker begins with the batch that has the position, or before it
        with pytest.raises(CorruptBatchError, match="CRC"):
            open_batches(PLACE, data, position=3, aborted=None, checks_crc=True)


def test_a_torn_batch_at_the_end_is_left_out() -> None:
    log = bytes(build_batch([NewRecord(0, None, b"a")]) + build_batch([NewRecord(0, None, b"b")], base_offset=1))
    opened = open_batches(PLACE, log[:-1], position=0, aborted=None, checks_crc=True)
    assert (len(opened.batches), opened.next_offset) == (1, 1)


def test_aborted_records_and_markers_are_left_out_and_the_position_passes_them() -> None:
    log = bytearray()

    def add(batch: bytearray) -> None:
        log.extend(batch)

    def records(producer: int, offset: int, value: bytes) -> bytearray:
        return build_batch(
            [NewRecord(0, None, value)],
            base_offset=offset,
            producer_id=producer,
            producer_epoch=0,
            base_sequence=0,
            transactional=True,
        )

    def marker(producer: int, offset: int, *, commit: bool) -> bytearray:
        return build_end_transaction_marker(
            commit=commit, coordinator_epoch=0, producer_id=producer, producer_epoch=0, timestamp=0, base_offset=offset
        )

    add(records(1, 0, b"aborted"))
    add(records(2, 1, b"kept"))
    add(marker(1, 2, commit=False))
    add(records(1, 3, b"kept, too"))
    add(marker(1, 4, commit=True))
    add(marker(2, 5, commit=True))
    aborted = [AbortedTransaction(1, 0)]
    opened = open_batches(PLACE, log, position=0, aborted=aborted, checks_crc=True)
    values = [record.value for batch in opened.batches for record in batch.read(10)]
    assert (values, opened.next_offset) == ([b"kept", b"kept, too"], 6)
    opened = open_batches(PLACE, log, position=0, aborted=None, checks_crc=True)
    values = [record.value for batch in opened.batches for record in batch.read(10)]
    assert values == [b"aborted", b"kept", b"kept, too"]


def test_an_emptied_batch_moves_the_position() -> None:
    log = random_log(random.Random(1))
    opened = open_batches(PLACE, log, position=0, aborted=None, checks_crc=True)
    place = last = 0
    while place < len(log):
        header = check_header(log, place)
        place, last = place + header.size_bytes, header.next_offset
    assert opened.next_offset == last


def test_a_record_shows_itself_and_reads_its_headers_when_asked() -> None:
    batch = build_batch([NewRecord(5, b"k", b"v", (("trace", b"1"), ("trace", None)))], leader_epoch=7)
    (record,) = read_all(bytes(batch))
    assert record.headers == (("trace", b"1"), ("trace", None))
    assert (record.leader_epoch, record.is_log_append_time) == (7, False)
    assert repr(record) == (
        "ConsumerRecord(orders-3@0, timestamp=5, key=b'k', value=b'v', headers=(('trace', b'1'), ('trace', None)))"
    )
