import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.protocol.batch import HEADER_SIZE
from headrace.protocol.compression import Codec
from headrace.protocol.record_encoding import (
    USUAL_BYTES,
    USUAL_OVERHEAD_BYTES,
    Row,
    encode_rows,
    seal_row,
    seal_rows,
    size_bound,
)
from headrace.protocol.records import NewRecord, build_batch, read_records

BYTES = st.none() | st.binary(max_size=20) | st.binary(min_size=2_005, max_size=2_060)
HEADERS = st.none() | st.lists(st.tuples(st.text(max_size=4), st.none() | st.binary(max_size=4)), max_size=3)
ROWS = st.lists(st.tuples(BYTES, BYTES, st.integers(0, 1 << 50), HEADERS), min_size=1, max_size=5)


@given(ROWS)
def test_is_what_the_protocol_would_write(rows: list[Row]) -> None:
    expected = build_batch(
        [NewRecord(timestamp, key, value, tuple(headers or ())) for key, value, timestamp, headers in rows]
    )
    assert encode_rows(rows).data == expected[HEADER_SIZE:]


@given(ROWS, st.sampled_from(list(Codec)), st.booleans())
def test_a_batch_is_what_the_protocol_would_write(rows: list[Row], codec: Codec, transactional: bool) -> None:
    records = [NewRecord(timestamp, key, value, tuple(headers or ())) for key, value, timestamp, headers in rows]
    expected = build_batch(
        records, codec=codec, transactional=transactional, producer_id=7, producer_epoch=3, base_sequence=5
    )
    batch = seal_rows(rows, codec=codec, transactional=transactional, producer_id=7, producer_epoch=3, base_sequence=5)
    assert batch == expected


def test_offsets_beyond_the_table_are_right() -> None:
    rows: list[Row] = [(None, b"v", 7, None)] * 3_000
    records = list(read_records(seal_rows(rows)))
    assert [record.offset for record in records] == list(range(3_000))


@given(BYTES, BYTES, st.integers(0, 1 << 50), HEADERS)
def test_no_record_is_larger_than_its_bound(
    key: bytes | None, value: bytes | None, timestamp: int, headers: list[tuple[str, bytes | None]] | None
) -> None:
    first: Row = (None, None, 0, None)
    both = encode_rows([first, (key, value, timestamp, headers)]).data
    assert len(both) - len(encode_rows([first]).data) <= size_bound(key, value, headers)


@pytest.mark.parametrize("key_size", [0, 100, USUAL_BYTES // 2])
@pytest.mark.parametrize("is_largest", [False, True])
def test_no_usual_record_is_larger_than_its_bound(key_size: int, is_largest: bool) -> None:
    day_ms = 24 * 60 * 60 * 1_000
    value_size = USUAL_BYTES - USUAL_OVERHEAD_BYTES - key_size if is_largest else 100
    earlier: list[Row] = [(None, None, 0, None)] * 9_000
    rows: list[Row] = [*earlier, (bytes(key_size), bytes(value_size), day_ms, None)]
    assert len(encode_rows(rows).data) - len(encode_rows(earlier).data) <= USUAL_OVERHEAD_BYTES + key_size + value_size


@pytest.mark.parametrize("key", [b"", b"k", bytes(63), bytes(64), bytes(2_047), bytes(2_048), bytes(40_000)])
@pytest.mark.parametrize("value", [None, b"", b"v", bytes(64), bytes(2_040), bytes(2_048), bytes(100_000)])
def test_one_row_is_sealed_as_one_of_many(key: bytes, value: bytes | None) -> None:
    assert seal_row(key, value, 1_700_000_000_000) == seal_rows([(key, value, 1_700_000_000_000, None)])
