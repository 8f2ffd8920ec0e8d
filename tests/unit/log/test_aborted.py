"""Aborted transactions of a segment: what a fetch needs, and the bytes of `.txnindex`."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.log.aborted import ENTRY_SIZE, AbortedIndex, AbortedTxn
from headrace.log.errors import CorruptIndexError

FIRST = AbortedTxn(producer_id=1, first_offset=0, last_offset=10, last_stable_offset=5)
SECOND = AbortedTxn(producer_id=2, first_offset=5, last_offset=20, last_stable_offset=21)
THIRD = AbortedTxn(producer_id=1, first_offset=25, last_offset=30, last_stable_offset=31)
ALL = [FIRST, SECOND, THIRD]


@pytest.mark.parametrize(
    ("fetch_offset", "upper_offset", "found", "complete"),
    [
        (0, 5, [FIRST], True),  # after the first marker everything below 5 was decided
        (0, 6, [FIRST, SECOND], True),
        (11, 15, [SECOND], True),
        (21, 25, [], True),
        (21, 26, [THIRD], True),
        (0, 40, ALL, False),
        (31, 40, [], False),
    ],
)
def test_a_fetch_gets_the_transactions_that_overlap_it(
    fetch_offset: int, upper_offset: int, found: list[AbortedTxn], complete: bool
) -> None:
    assert AbortedIndex(ALL).find(fetch_offset, upper_offset) == (found, complete)


def test_a_search_ends_with_the_marker_at_which_everything_below_was_decided() -> None:
    assert AbortedIndex([FIRST]).find(0, 5) == ([FIRST], True)
    assert AbortedIndex([FIRST]).find(0, 6) == ([FIRST], False)


@pytest.mark.parametrize(("offset", "left"), [(31, 3), (30, 2), (21, 2), (20, 1), (10, 0)])
def test_truncation_drops_the_transactions_whose_marker_goes(offset: int, left: int) -> None:
    index = AbortedIndex(ALL)
    assert index.truncate(offset) == left * ENTRY_SIZE
    assert list(index) == ALL[:left]
    assert len(index) == left


def test_the_file_has_kafkas_bytes() -> None:
    data = AbortedIndex([AbortedTxn(0x0102, 3, 0x0A, 0x0B)]).to_bytes()
    assert data.hex(" ") == (
        "00 00 "  # version
        "00 00 00 00 00 00 01 02 "  # producer id
        "00 00 00 00 00 00 00 03 "  # first offset
        "00 00 00 00 00 00 00 0a "  # last offset: the marker's
        "00 00 00 00 00 00 00 0b"  # last stable offset
    )
    assert list(AbortedIndex.from_bytes(data, base_offset=4)) == [AbortedTxn(0x0102, 3, 0x0A, 0x0B)]


def test_a_marker_before_the_segment_is_corruption() -> None:
    with pytest.raises(CorruptIndexError, match="its marker must be above 10"):
        AbortedIndex.from_bytes(FIRST.pack(), base_offset=11)


def test_markers_out_of_order_are_corruption() -> None:
    with pytest.raises(CorruptIndexError, match="aborted transaction 1 at offsets 0 to 10"):
        AbortedIndex.from_bytes(SECOND.pack() + FIRST.pack(), base_offset=0)


def test_a_transaction_that_ends_before_it_begins_is_corruption() -> None:
    with pytest.raises(CorruptIndexError):
        AbortedIndex.from_bytes(FIRST._replace(first_offset=11).pack(), base_offset=0)


def test_an_unknown_version_is_corruption() -> None:
    with pytest.raises(CorruptIndexError, match="version 1"):
        AbortedIndex.from_bytes(b"\0\1" + FIRST.pack()[2:], base_offset=0)


def test_a_torn_entry_is_corruption() -> None:
    with pytest.raises(CorruptIndexError, match="67 bytes"):
        AbortedIndex.from_bytes((FIRST.pack() + SECOND.pack())[:-1], base_offset=0)


@given(st.lists(st.integers(0, 3), min_size=1, max_size=40), st.integers(0, 40), st.integers(0, 40))
@settings(max_examples=200, deadline=None)
def test_a_search_that_stops_early_misses_nothing(producers: list[int], a: int, b: int) -> None:
    """Each step a producer begins a transaction, or aborts the one it has; segments of ten offsets."""
    begun: dict[int, int] = {}
    indexes = [AbortedIndex() for _ in range(5)]
    everything = []
    for offset, producer in enumerate(producers):
        if producer not in begun:
            begun[producer] = offset
            continue
        first = begun.pop(producer)
        entry = AbortedTxn(producer, first, offset, min(begun.values(), default=offset + 1))
        indexes[offset // 10].append(entry)
        everything.append(entry)
    fetch_offset, upper_offset = min(a, b), max(a, b) + 1
    found: list[AbortedTxn] = []
    for index in indexes[fetch_offset // 10 :]:
        some, complete = index.find(fetch_offset, upper_offset)
        found += some
        if complete:
            break
    stable = min(begun.values(), default=len(producers))
    wanted = [
        txn for txn in everything if txn.last_offset >= fetch_offset and txn.first_offset < min(upper_offset, stable)
    ]
    # a reader of committed data never reads above the last stable offset, so only what begins below it must be found
    assert [txn for txn in found if txn.first_offset < stable] == wanted
