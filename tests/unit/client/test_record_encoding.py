from hypothesis import given
from hypothesis import strategies as st

from headrace.client.pending_batch import PendingBatch
from headrace.client.record_encoding import Row, encode_rows, size_bound
from headrace.protocol.batch import HEADER_SIZE
from headrace.protocol.records import NewRecord, build_batch, read_records

BYTES = st.none() | st.binary(max_size=20) | st.binary(min_size=2_040, max_size=2_060)
HEADERS = st.none() | st.lists(st.tuples(st.text(max_size=4), st.none() | st.binary(max_size=4)), max_size=3)
ROWS = st.lists(st.tuples(BYTES, BYTES, st.integers(0, 1 << 50), HEADERS), min_size=1, max_size=5)


@given(ROWS)
def test_is_what_the_protocol_would_write(rows: list[Row]) -> None:
    expected = build_batch(
        [NewRecord(timestamp, key, value, tuple(headers or ())) for key, value, timestamp, headers in rows]
    )
    assert encode_rows(rows).data == expected[HEADER_SIZE:]


def test_offsets_beyond_the_table_are_right() -> None:
    rows: list[Row] = [(None, b"v", 7, None)] * 3_000
    batch = PendingBatch("t", 0, 0.0)
    batch.rows = rows
    records = list(read_records(batch.encoded(0, None, transactional=False)))
    assert [record.offset for record in records] == list(range(3_000))


@given(BYTES, BYTES, st.integers(0, 1 << 50), HEADERS)
def test_no_record_is_larger_than_its_bound(
    key: bytes | None, value: bytes | None, timestamp: int, headers: list[tuple[str, bytes | None]] | None
) -> None:
    first: Row = (None, None, 0, None)
    both = encode_rows([first, (key, value, timestamp, headers)]).data
    assert len(both) - len(encode_rows([first]).data) <= size_bound(key, value, headers)
