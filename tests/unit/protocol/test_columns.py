"""Columns against the per-record reader as oracle: the same rows, of the wanted offsets, of committed transactions."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.protocol.columns import SCHEMA, decode_batches
from headrace.protocol.compression import Codec
from headrace.protocol.records import (
    Headers,
    NewRecord,
    build_batch,
    build_end_transaction_marker,
    iter_batches,
    rebuild_batch,
)
from tests.support.column_oracle import MAX_MILLISECONDS, decoded_rows, expected_rows, rows_of, text_records
from tests.support.record_strategies import (
    batches,
    headers,
    logs,
    opened,
)


@given(log=logs)
@settings(max_examples=60, deadline=None)
def test_columns_hold_what_the_per_record_reader_finds(log: bytes) -> None:
    assert decoded_rows(log) == expected_rows(log)


@given(log=logs, data=st.data())
@settings(max_examples=60, deadline=None)
def test_a_range_of_offsets_is_cut_exactly(log: bytes, data: st.DataObject) -> None:
    offsets = [0, *(row[5] for row in expected_rows(log)), *(header.next_offset for _, header in iter_batches(log))]
    near = st.sampled_from(offsets).flatmap(lambda offset: st.integers(offset - 2, offset + 2))
    first_offset, end_offset = sorted((data.draw(near), data.draw(near)))
    columns = decode_batches(log, topic="orders", partition=3, first_offset=first_offset, end_offset=end_offset)
    assert rows_of(columns.table) == expected_rows(log, first_offset, end_offset)
    assert first_offset <= columns.next_offset <= end_offset


@given(log=logs, cut=st.integers(1, 300))
@settings(max_examples=40, deadline=None)
def test_a_partial_last_batch_is_left_for_the_next_fetch(log: bytes, cut: int) -> None:
    shortened = log[: max(0, len(log) - cut)]
    columns = decode_batches(shortened, topic="orders", partition=3)
    assert rows_of(columns.table) == expected_rows(shortened, 0)
    whole = [header for _, header in iter_batches(shortened)]
    assert columns.next_offset == (whole[-1].next_offset if whole else 0)


def test_many_small_batches_and_one_large_one_give_the_same_rows() -> None:
    records = text_records(30_000)  # several slices, and more than one group
    large = build_batch(records)
    for codec in (Codec.NONE, Codec.LZ4):
        small = b"".join(
            build_batch(records[first : first + 160], base_offset=first, codec=codec) for first in range(0, 30_000, 160)
        )
        assert decode_batches(small, topic="orders", partition=3).table.equals(
            decode_batches(large, topic="orders", partition=3).table
        )
    assert decoded_rows(bytes(large)) == expected_rows(bytes(large))


def test_control_batches_are_left_out_and_stepped_over() -> None:
    marker = build_end_transaction_marker(
        commit=True, coordinator_epoch=0, producer_id=7, producer_epoch=0, timestamp=5, base_offset=10
    )
    log = bytes(build_batch(text_records(10)) + marker)
    columns = decode_batches(log, topic="orders", partition=3)
    assert columns.table.num_rows == 10
    assert columns.next_offset == 11
    columns = decode_batches(bytes(marker), topic="orders", partition=3, first_offset=10)
    assert (columns.table.num_rows, columns.next_offset) == (0, 11)


def test_nothing_at_all_is_an_empty_table_and_the_same_offset() -> None:
    columns = decode_batches(b"", topic="orders", partition=3, first_offset=17)
    assert (columns.table.schema, columns.table.num_rows, columns.next_offset) == (SCHEMA, 0, 17)


def test_after_the_end_of_a_range_the_offsets_that_compaction_removed_are_stepped_over() -> None:
    log = bytes(build_batch(text_records(3)) + build_batch(text_records(3), base_offset=50))
    columns = decode_batches(log, topic="orders", partition=3, end_offset=40)
    assert (columns.table.num_rows, columns.next_offset) == (3, 40)
    with pytest.raises(ValueError, match="below the first"):
        decode_batches(log, topic="orders", partition=3, first_offset=5, end_offset=4)


def test_a_timestamp_is_an_instant_in_microseconds_as_in_sparks_kafka_source() -> None:
    moment = datetime(2024, 2, 29, 12, 30, 15, 123_000, tzinfo=UTC)
    batch = build_batch([NewRecord(int(moment.timestamp() * 1000), None, None), NewRecord(-1, None, None)])
    table = decode_batches(batch, topic="orders", partition=3).table
    assert table.schema.field("timestamp").type == pa.timestamp("us", tz="UTC")
    assert table.column("timestamp")[0].as_py() == moment
    assert table.column("timestamp").cast(pa.int64())[1].as_py() == -1000


def test_a_timestamp_that_microseconds_cannot_express_is_null() -> None:
    edge = MAX_MILLISECONDS
    for beyond in (edge + 1, 2**63 - 1, -edge - 1, -(2**63)):
        batch = build_batch([NewRecord(beyond, None, b"a")]) + build_batch([NewRecord(edge, None, b"b")], base_offset=1)
        table = decode_batches(bytes(batch), topic="orders", partition=3).table
        assert table.column("timestamp").cast(pa.int64()).to_pylist() == [None, edge * 1000]


def test_log_append_time_and_a_delete_horizon_are_read_as_the_batch_says() -> None:
    records = text_records(4)
    appended = build_batch(records, log_append_time_ms=777)
    header, read = opened(build_batch(records, base_offset=4))
    marked = rebuild_batch(header, read, delete_horizon_ms=99_999)
    rows = decoded_rows(bytes(appended + marked))
    assert [row[6] for row in rows] == [777] * 4 + [1000, 1001, 1002, 1003]
    assert [row[7] for row in rows] == [1] * 4 + [0] * 4


def test_records_without_headers_have_null_for_headers() -> None:
    mixed = [NewRecord(0, None, b"a"), NewRecord(0, None, b"b", (("h", b"1"), ("h", None))), NewRecord(0, None, b"c")]
    assert [row[2] for row in decoded_rows(bytes(build_batch(mixed)))] == [None, (("h", b"1"), ("h", None)), None]


@given(rows=st.lists(headers, min_size=20, max_size=40))
@settings(max_examples=30, deadline=None)
def test_headers_of_many_records_are_read_in_rounds(rows: list[Headers]) -> None:
    batch = bytes(build_batch([NewRecord(0, b"k", b"v", row) for row in rows]))
    assert decoded_rows(batch) == expected_rows(batch)


def test_a_record_with_very_many_headers_is_read_as_well() -> None:
    many: Headers = tuple((str(i), b"x" * (i % 200)) for i in range(3000))
    batch = bytes(build_batch([NewRecord(0, None, None, many), *text_records(40), NewRecord(0, None, None, many[:5])]))
    assert decoded_rows(batch) == expected_rows(batch)


# Transactions


def transactional(first_offset: int, producer_id: int, values: Sequence[bytes]) -> bytearray:
    return build_batch(
        [NewRecord(0, None, value) for value in values],
        base_offset=first_offset,
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=first_offset,
        transactional=True,
    )


def marker(offset: int, producer_id: int, *, commit: bool) -> bytearray:
    return build_end_transaction_marker(
        commit=commit, coordinator_epoch=0, producer_id=producer_id, producer_epoch=0, timestamp=0, base_offset=offset
    )


TRANSACTIONS = bytes(
    transactional(0, 1, [b"1 aborted", b"1 aborted"])
    + transactional(2, 2, [b"2 kept"])
    + build_batch([NewRecord(0, None, b"plain")], base_offset=3)
    + transactional(4, 1, [b"1 aborted"])
    + marker(5, 1, commit=False)
    + transactional(6, 1, [b"1 kept"])
    + marker(7, 2, commit=True)
    + marker(8, 1, commit=True)
    + transactional(9, 2, [b"2 aborted"])
    + marker(10, 2, commit=False)
    + transactional(11, 2, [b"2 kept again"])
)
ABORTED = [(2, 9), (1, 0)]


def committed(log: bytes, aborted: Iterable[tuple[int, int]] = ABORTED, **options: Any) -> list[bytes | None]:
    return [row[1] for row in decoded_rows(log, aborted=aborted, **options)]


def test_aborted_transactions_are_left_out() -> None:
    assert committed(TRANSACTIONS) == [b"2 kept", b"plain", b"1 kept", b"2 kept again"]
    assert len(committed(TRANSACTIONS, [])) == 8


def test_a_transaction_that_began_before_the_wanted_offset_is_still_left_out() -> None:
    assert committed(TRANSACTIONS, first_offset=4) == [b"1 kept", b"2 kept again"]
    assert committed(TRANSACTIONS, first_offset=1, end_offset=10) == [b"2 kept", b"plain", b"1 kept"]


def test_a_batch_that_holds_the_first_offset_of_an_aborted_transaction_is_left_out() -> None:
    assert committed(TRANSACTIONS, [(1, 1), (2, 9)]) == committed(TRANSACTIONS)


def test_a_marker_that_compaction_has_emptied_ends_nothing() -> None:
    header, _ = opened(marker(5, 1, commit=False))
    log = bytes(transactional(4, 1, [b"aborted"]) + rebuild_batch(header, []) + transactional(6, 1, [b"aborted, too"]))
    assert committed(log, [(1, 0)]) == []


def test_a_large_aborted_transaction_between_two_small_batches_does_no_harm() -> None:
    kept = build_batch([NewRecord(0, None, b"kept")])
    log = bytes(kept + transactional(1, 1, [b"aborted" * 9] * 500) + marker(501, 1, commit=False))
    log += bytes(build_batch([NewRecord(0, None, b"kept, too")], base_offset=502))
    assert committed(log, [(1, 1)]) == [b"kept", b"kept, too"]


@given(batch=batches)
@settings(max_examples=30, deadline=None)
def test_any_buffer_may_be_decoded_and_nothing_of_it_is_kept(batch: bytearray) -> None:
    expected = expected_rows(bytes(batch), 0)
    column = decode_batches(memoryview(batch), topic="orders", partition=3).table
    batch.clear()  # the rows are copies, and nothing holds the buffer: it may be used again at once
    assert rows_of(column) == expected
