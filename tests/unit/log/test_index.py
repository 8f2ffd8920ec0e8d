"""Offset and time index: Kafka's bytes, look-ups, cuts, and what is refused."""

from struct import pack

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.log.errors import CorruptIndexError
from headrace.log.index import OffsetEntry, OffsetIndex, TimeEntry, TimeIndex

LOG_SIZE = 1 << 30


def an_offset_index(*entries: tuple[int, int], base_offset: int = 100) -> OffsetIndex:
    index = OffsetIndex(base_offset)
    for offset, position in entries:
        index.append(offset, position)
    return index


def a_time_index(*entries: tuple[int, int], base_offset: int = 100) -> TimeIndex:
    index = TimeIndex(base_offset)
    for timestamp, offset in entries:
        index.append(timestamp, offset)
    return index


def test_an_offset_entry_is_the_relative_offset_and_the_position_as_int32() -> None:
    assert an_offset_index((109, 4200), (120, 9000)).to_bytes() == pack(">iiii", 9, 4200, 20, 9000)


def test_a_time_entry_is_the_timestamp_as_int64_and_the_relative_offset_as_int32() -> None:
    assert a_time_index((1_700, 109), (1_800, 120)).to_bytes() == pack(">qiqi", 1_700, 9, 1_800, 20)


def test_a_search_begins_at_the_last_indexed_batch_that_ends_at_or_before_the_offset() -> None:
    index = an_offset_index((109, 4200), (120, 9000))
    assert index.find(108) is None
    assert index.find(109) == OffsetEntry(109, 4200)
    assert index.find(119) == OffsetEntry(109, 4200)
    assert index.find(5000) == OffsetEntry(120, 9000)


def test_an_indexed_batch_is_found_by_a_position_behind_its_beginning() -> None:
    index = an_offset_index((109, 4200), (120, 9000))
    assert index.find_position(4199) is None
    assert index.find_position(4200) == OffsetEntry(109, 4200)
    assert index.find_position(1 << 31) == OffsetEntry(120, 9000)


def test_a_time_search_begins_before_every_record_that_could_match() -> None:
    index = a_time_index((1_700, 109), (1_800, 120))
    assert index.find(1_600) == 100
    assert index.find(1_700) == 100
    assert index.find(1_701) == 109
    assert index.find(9_999) == 120


def test_a_time_entry_is_added_only_if_the_timestamp_has_grown() -> None:
    index = a_time_index((1_700, 109), (1_700, 115), (1_600, 118), (1_701, 120))
    assert list(index) == [TimeEntry(1_700, 109), TimeEntry(1_701, 120)]
    assert index.last == TimeEntry(1_701, 120)
    assert TimeIndex(7).last == TimeEntry(-1, 7)


def test_a_cut_drops_the_entries_at_the_offset_and_behind_it() -> None:
    offsets = an_offset_index((109, 4200), (120, 9000), (130, 14000))
    offsets.truncate(120)
    assert list(offsets) == [OffsetEntry(109, 4200)]
    assert offsets.last_position == 4200
    offsets.truncate(0)
    assert (len(offsets), offsets.last_position) == (0, 0)
    times = a_time_index((1_700, 109), (1_800, 120))
    times.truncate(120)
    assert list(times) == [TimeEntry(1_700, 109)]


def test_zeros_behind_the_last_entry_are_the_padding_of_a_preallocated_file() -> None:
    offsets = an_offset_index((109, 256), (120, 65536))
    padded = offsets.to_bytes() + bytes(8 * 1000)
    assert list(OffsetIndex.from_bytes(padded, 100, log_size=LOG_SIZE)) == list(offsets)
    times = a_time_index((1_700, 109), (1_800, 356))
    assert list(TimeIndex.from_bytes(times.to_bytes() + bytes(12 * 1000), 100)) == list(times)
    assert len(OffsetIndex.from_bytes(bytes(8 * 1000), 100, log_size=LOG_SIZE)) == 0


def test_a_single_time_entry_of_zeros_is_the_first_record_at_time_zero() -> None:
    assert list(TimeIndex.from_bytes(bytes(12), 100)) == [TimeEntry(0, 100)]


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (bytes(7), "not a multiple of 8"),
        (pack(">ii", 9, LOG_SIZE), "of a log of"),
        (pack(">iiii", 9, 4200, 8, 9000), "go back"),
        (pack(">iiii", 9, 4200, 20, 4100), "go back"),
    ],
)
def test_an_offset_index_that_cannot_be_right_is_refused(data: bytes, complaint: str) -> None:
    with pytest.raises(CorruptIndexError, match=complaint):
        OffsetIndex.from_bytes(data, 100, log_size=LOG_SIZE)


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (bytes(13), "not a multiple of 12"),
        (pack(">qi", 5, -1), "relative offset -1"),
        (pack(">qiqi", 5, 1, 6, -1), "timestamp 6 at relative offset -1"),
        (pack(">qi", -5, 1), "without a timestamp"),
        (pack(">qiqi", 5, 1, 4, 2), "go back"),
        (pack(">qiqi", 5, 3, 6, 2), "go back"),
    ],
)
def test_a_time_index_that_cannot_be_right_is_refused(data: bytes, complaint: str) -> None:
    with pytest.raises(CorruptIndexError, match=complaint):
        TimeIndex.from_bytes(data, 100)


@settings(max_examples=50, deadline=None)
@given(
    steps=st.lists(st.tuples(st.integers(1, 1 << 20), st.integers(1, 1 << 20)), max_size=30),
    wanted=st.integers(-5, 1 << 25),
)
def test_look_ups_agree_with_a_walk_over_the_entries(steps: list[tuple[int, int]], wanted: int) -> None:
    entries, offset, position = [], 100, 0
    for more_offsets, more_bytes in steps:
        offset, position = offset + more_offsets, position + more_bytes
        entries.append(OffsetEntry(offset, position))
    index = OffsetIndex.from_bytes(an_offset_index(*entries).to_bytes(), 100, log_size=LOG_SIZE)
    assert list(index) == entries
    assert index.find(100 + max(wanted, 0)) == max(
        (e for e in entries if e.offset <= 100 + max(wanted, 0)), default=None
    )
    assert index.find_position(wanted) == max((e for e in entries if e.position <= wanted), default=None)


@settings(max_examples=50, deadline=None)
@given(steps=st.lists(st.tuples(st.integers(1, 1 << 40), st.integers(1, 1 << 24)), max_size=30))
def test_time_entries_and_their_bytes_become_one_another(steps: list[tuple[int, int]]) -> None:
    entries, timestamp, offset = [], 0, 100
    for later_by, more_offsets in steps:
        timestamp, offset = timestamp + later_by, offset + more_offsets
        entries.append(TimeEntry(timestamp, offset))
    index = a_time_index(*entries)
    data = b"".join(pack(">qi", entry.timestamp, entry.offset - 100) for entry in entries)
    assert index.to_bytes() == data
    again = TimeIndex.from_bytes(data, 100)
    assert list(again) == entries
    assert (again.last, again.last_timestamp) == (index.last, index.last_timestamp)
