"""The batch header: its bytes, its claims, and what may be stamped without touching the CRC."""

from struct import pack_into

import pytest

from headrace.protocol.batch import (
    CONTROL_FLAG,
    DELETE_HORIZON_FLAG,
    HEADER_SIZE,
    LOG_APPEND_TIME_FLAG,
    NO_SEQUENCE,
    TRANSACTIONAL_FLAG,
    BatchHeader,
    check_header,
    pack_header,
    read_header,
    stamp,
    verify,
    write_crc,
)
from headrace.protocol.errors import CorruptBatchError
from headrace.protocol.records import NewRecord, build_batch

HEADER = BatchHeader(
    base_offset=5,
    batch_length=49,
    leader_epoch=3,
    magic=2,
    crc=0x01020304,
    attributes=0x13,
    last_offset_delta=9,
    base_timestamp=1000,
    max_timestamp=1009,
    producer_id=77,
    producer_epoch=2,
    base_sequence=40,
    record_count=10,
)


def a_batch() -> bytearray:
    return build_batch([NewRecord(1000 + i, b"key", b"value %d" % i) for i in range(10)], base_offset=5, leader_epoch=3)


def with_field(at: int, form: str, number: int) -> bytearray:
    batch = a_batch()
    pack_into(form, batch, at, number)
    write_crc(batch, 0, len(batch))
    return batch


def test_the_header_is_61_bytes_in_kafkas_order() -> None:
    expected = bytes.fromhex(
        "0000000000000005"  # base offset
        "00000031"  # batch length: what follows
        "00000003"  # leader epoch
        "02"  # magic
        "01020304"  # CRC
        "0013"  # attributes: lz4, transactional
        "00000009"  # last offset delta
        "00000000000003e8"  # base timestamp
        "00000000000003f1"  # max timestamp
        "000000000000004d"  # producer id
        "0002"  # producer epoch
        "00000028"  # base sequence
        "0000000a"  # record count
    )
    assert len(expected) == HEADER_SIZE
    assert pack_header(HEADER) == expected
    assert read_header(b"before" + expected, 6) == HEADER


def test_the_header_answers_what_its_bits_say() -> None:
    assert (HEADER.codec, HEADER.is_transactional, HEADER.is_control, HEADER.is_log_append_time) == (
        3,
        True,
        False,
        False,
    )
    assert (HEADER.size_bytes, HEADER.last_offset, HEADER.next_offset, HEADER.last_sequence) == (61, 14, 15, 49)
    assert HEADER.delete_horizon_ms is None
    flags = LOG_APPEND_TIME_FLAG | TRANSACTIONAL_FLAG | CONTROL_FLAG | DELETE_HORIZON_FLAG
    marked = HEADER._replace(attributes=flags)
    assert (marked.codec, marked.is_transactional, marked.is_control, marked.is_log_append_time) == (
        0,
        True,
        True,
        True,
    )
    assert marked.delete_horizon_ms == 1000


def test_sequences_wrap_to_zero_after_the_largest_int32() -> None:
    assert HEADER._replace(base_sequence=2**31 - 1 - 9).last_sequence == 2**31 - 1
    assert HEADER._replace(base_sequence=2**31 - 9).last_sequence == 0
    assert HEADER._replace(base_sequence=2**31 - 1).last_sequence == 8
    assert HEADER._replace(base_sequence=NO_SEQUENCE).last_sequence == NO_SEQUENCE


def test_a_flip_of_any_bit_that_the_crc_covers_is_detected() -> None:
    batch = a_batch()
    header = verify(batch)
    for place in range(16, len(batch)):  # magic, CRC, and all that follows
        for bit in range(8):
            batch[place] ^= 1 << bit
            with pytest.raises(CorruptBatchError):
                verify(batch)
            batch[place] ^= 1 << bit
    assert verify(batch) == header


def test_stamping_changes_offset_and_epoch_and_leaves_the_crc_good() -> None:
    batch = a_batch()
    before = verify(batch)
    stamp(batch, 0, base_offset=2**40, leader_epoch=8)
    assert verify(batch) == before._replace(base_offset=2**40, leader_epoch=8)


def test_a_batch_may_stand_anywhere_in_a_larger_buffer() -> None:
    batch = a_batch()
    buffer = bytearray(b"x" * 7 + batch + b"y" * 5)
    assert verify(memoryview(buffer), 7) == verify(batch)
    stamp(buffer, 7, base_offset=1, leader_epoch=1)
    pack_into(">q", buffer, 7 + 35, 5)  # the max timestamp, which the CRC covers
    with pytest.raises(CorruptBatchError, match="CRC"):
        verify(buffer, 7)
    write_crc(buffer, 7, 7 + len(batch))
    assert verify(buffer, 7).max_timestamp == 5


@pytest.mark.parametrize(
    ("at", "form", "number", "reason"),
    [
        (16, ">b", 1, "magic 1"),
        (23, ">i", -1, "last offset delta -1"),
        (23, ">i", 8, "10 records with last offset delta 8"),
        (57, ">i", -1, "-1 records"),
        (57, ">i", 11, "11 records"),
        (0, ">q", 2**63 - 9, "out of range"),
    ],
)
def test_a_header_whose_numbers_cannot_be_true_is_refused(at: int, form: str, number: int, reason: str) -> None:
    with pytest.raises(CorruptBatchError, match=reason):
        verify(with_field(at, form, number))


@pytest.mark.parametrize("length", [-1, 0, 48, 2**31 - 1])
def test_a_batch_length_that_is_too_short_or_goes_beyond_the_buffer_is_refused(length: int) -> None:
    batch = a_batch()
    pack_into(">i", batch, 8, length)
    with pytest.raises(CorruptBatchError, match=f"batch length {length}"):
        check_header(batch)


def test_a_header_that_is_not_all_there_is_refused() -> None:
    with pytest.raises(CorruptBatchError, match="60 bytes left"):
        read_header(a_batch()[:60])
    with pytest.raises(CorruptBatchError):
        verify(a_batch()[:-1])
