"""Encoding columns: what the per-record reader finds in the batches, and how large they are."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.protocol.batch import (
    stamp,
    verify,
    write_crc,
)
from headrace.protocol.columns import SCHEMA, decode_batches, encode_batches
from headrace.protocol.compression import Codec
from headrace.protocol.records import (
    Headers,
    NewRecord,
    build_batch,
    read_records,
)
from tests.support.column_oracle import decoded_rows, text_records
from tests.support.record_strategies import (
    codecs,
    contents,
    headers,
)

tables = st.lists(
    st.tuples(contents, contents, st.none() | headers, st.integers(-(2**40), 2**40)), min_size=1, max_size=60
)


def table_of(rows: Sequence[tuple[bytes | None, bytes | None, Headers | None, int]]) -> Any:
    keys, values, header_lists, milliseconds = zip(*rows, strict=True)
    entries = [None if row is None else [{"key": k, "value": v} for k, v in row] for row in header_lists]
    return pa.table(
        {
            "timestamp": pa.array([number * 1000 for number in milliseconds], pa.int64()).cast(
                pa.timestamp("us", tz="UTC")
            ),
            "headers": pa.array(entries, SCHEMA.field("headers").type),
            "key": pa.array(keys, pa.binary()),
            "value": pa.array(values, pa.binary()),
        }
    )


def records_in(encoded: Sequence[bytearray]) -> list[NewRecord]:
    for batch in encoded:
        verify(batch)
    return [NewRecord(*record[1:]) for batch in encoded for record in read_records(batch)]


@given(
    rows=tables, codec=codecs, batch_bytes=st.integers(100, 3000), chunk=st.integers(1, 60), skipped=st.integers(0, 5)
)
@settings(max_examples=150, deadline=None)
def test_what_was_encoded_is_read_one_by_one(
    rows: list[tuple[bytes | None, bytes | None, Headers | None, int]],
    codec: Codec,
    batch_bytes: int,
    chunk: int,
    skipped: int,
) -> None:
    chunks = table_of(rows).to_batches(max_chunksize=chunk)
    table = pa.Table.from_batches(chunks).slice(skipped)
    encoded = encode_batches(table, codec=codec, batch_bytes=batch_bytes)
    expected = [NewRecord(time, key, value, entries or ()) for key, value, entries, time in rows[skipped:]]
    assert records_in(encoded) == expected
    for batch in encoded:
        header = verify(batch)
        assert header.codec == codec
        assert header.max_timestamp == max(record.timestamp for record in read_records(batch))
        assert len(batch) <= batch_bytes or header.record_count == 1


@given(rows=tables)
@settings(max_examples=40, deadline=None)
def test_columns_come_back_from_encoding(rows: list[tuple[bytes | None, bytes | None, Headers | None, int]]) -> None:
    offset = 0
    log = bytearray()
    for batch in encode_batches(table_of(rows), batch_bytes=1500):
        stamp(batch, 0, base_offset=offset, leader_epoch=0)
        offset = verify(batch).next_offset
        log += batch
    table = decode_batches(log, topic="orders", partition=3).table
    assert table.column("offset").to_pylist() == list(range(len(rows)))
    for name in ("key", "value", "timestamp"):
        assert table.column(name).to_pylist() == table_of(rows).column(name).to_pylist()


def test_the_first_batch_is_the_one_that_the_record_builder_makes() -> None:
    records = [*text_records(70), NewRecord(900, None, None, (("h", None), ("é", b"x")))]
    rows = [(record.key, record.value, record.headers, record.timestamp) for record in records]
    options = {"producer_id": 5, "producer_epoch": 2, "base_sequence": 9, "transactional": True}
    assert encode_batches(table_of(rows), **options) == [build_batch(records, **options)]  # type: ignore[arg-type]


def test_batches_are_nearly_as_large_as_they_may_be() -> None:
    value = np.random.default_rng(2).integers(0, 256, 100, np.uint8).tobytes()
    table = pa.table({"value": [value] * 50_000, "timestamp": pa.array(range(50_000), pa.int64())})
    for codec in Codec:
        encoded = encode_batches(table, codec=codec, batch_bytes=100_000)
        assert max(len(batch) for batch in encoded) <= 100_000
    sizes = [len(batch) for batch in encode_batches(table, batch_bytes=100_000)]
    assert min(sizes[:-1]) > 97_000


def test_the_bound_on_a_records_size_holds_where_a_delta_grows_to_two_bytes() -> None:
    table = pa.table({"value": [b"x"] * 200, "timestamp": pa.array([0] + [64] * 199)})
    for size in range(300, 700):
        assert max(len(batch) for batch in encode_batches(table, batch_bytes=size)) <= size


def test_headers_may_be_of_another_kind_of_list() -> None:
    kind = pa.large_list(pa.struct([("key", pa.large_string()), ("value", pa.large_binary())]))
    column = pa.array([[{"key": "h", "value": b"1"}], None, []], kind)
    records = records_in(encode_batches(pa.table({"value": [b""] * 3, "headers": column}), timestamp_ms=0))
    assert [record.headers for record in records] == [(("h", b"1"),), (), ()]


@pytest.mark.parametrize("codec", Codec)
def test_data_that_cannot_be_compressed_still_fits(codec: Codec) -> None:
    noise = np.random.default_rng(3).integers(0, 256, (3000, 500), np.uint8)
    table = pa.table({"value": [row.tobytes() for row in noise], "timestamp": pa.array([0] * 3000)})
    for size in (3000, 20_000, 1_000_000):
        assert max(len(batch) for batch in encode_batches(table, codec=codec, batch_bytes=size)) <= size


def test_sequences_go_on_from_batch_to_batch_and_wrap() -> None:
    table = pa.table({"value": [b"x" * 100] * 10, "timestamp": pa.array([0] * 10)})
    encoded = encode_batches(table, batch_bytes=300, producer_id=1, producer_epoch=0, base_sequence=2**31 - 4)
    assert len(encoded) == 5
    headers_ = [verify(batch) for batch in encoded]
    assert [header.base_sequence for header in headers_] == [2**31 - 4, 2**31 - 2, 0, 2, 4]
    assert [header.last_sequence for header in headers_] == [2**31 - 3, 2**31 - 1, 1, 3, 5]
    many = pa.table({"value": [b"x"] * 20_000, "timestamp": pa.array([0] * 20_000)})
    numbered = [
        verify(b) for b in encode_batches(many, batch_bytes=5000, producer_id=1, producer_epoch=0, base_sequence=0)
    ]
    assert [header.base_sequence for header in numbered[1:]] == [header.last_sequence + 1 for header in numbered[:-1]]
    assert numbered[-1].last_sequence == 19_999
    plain = encode_batches(table, batch_bytes=300)
    assert {verify(batch).base_sequence for batch in plain} == {-1}


@pytest.mark.parametrize(
    "kind", [pa.string(), pa.large_string(), pa.large_binary(), pa.binary_view(), pa.string_view()]
)
def test_keys_and_values_may_be_any_kind_of_text_or_bytes(kind: Any) -> None:
    words = ["alice", None, "", "zoë" * 30]
    column = pa.array(words, pa.string()).cast(kind)
    records = records_in(encode_batches(pa.table({"key": column, "value": column}), timestamp_ms=7))
    assert [record.value for record in records] == [None if word is None else word.encode() for word in words]
    assert [record.key for record in records] == [record.value for record in records]
    assert {record.timestamp for record in records} == {7}


@pytest.mark.parametrize(("unit", "scale"), [("s", 1), ("ms", 1000), ("us", 1_000_000), ("ns", 1_000_000_000)])
def test_timestamps_may_have_any_unit(unit: str, scale: int) -> None:
    column = pa.array([1_700_000_000 * scale, None, -5 * scale], pa.int64()).cast(pa.timestamp(unit))
    records = records_in(encode_batches(pa.table({"value": [b""] * 3, "timestamp": column}), timestamp_ms=42))
    assert [record.timestamp for record in records] == [1_700_000_000_000, 42, -5000]


def test_a_record_batch_without_rows_or_keys_is_fine() -> None:
    assert encode_batches(SCHEMA.empty_table()) == []
    (batch,) = encode_batches(pa.RecordBatch.from_pydict({"value": [b"a"]}), timestamp_ms=0)
    assert [record[2:] for record in read_records(batch)] == [(None, b"a", ())]


def test_mistakes_of_the_caller_are_told() -> None:
    with pytest.raises(ValueError, match="no column 'value' among key"):
        encode_batches(pa.table({"key": [b"a"]}))
    with pytest.raises(ValueError, match="no timestamp_ms"):
        encode_batches(pa.table({"value": [b"a"]}))
    with pytest.raises(ValueError, match="integer milliseconds"):
        encode_batches(pa.table({"value": [b"a"], "timestamp": ["noon"]}))
    with pytest.raises(ValueError, match="column 'value' is int64"):
        encode_batches(pa.table({"value": [1]}), timestamp_ms=0)
    with pytest.raises(ValueError, match="column 'headers' is string"):
        encode_batches(pa.table({"value": [b""], "headers": ["a=b"]}), timestamp_ms=0)
    with pytest.raises(ValueError, match="without a key"):
        encode_batches(table_of([(None, b"", ((None, b""),), 0)]))  # type: ignore[list-item]
    with pytest.raises(ValueError, match="milliseconds cannot express"):
        encode_batches(pa.table({"value": [b""], "timestamp": pa.array([2**60]).cast(pa.timestamp("s"))}))
    with pytest.raises(ValueError, match="apart"):
        encode_batches(pa.table({"value": [b"", b""], "timestamp": pa.array([-(2**63), 2**63 - 1])}))


def test_a_null_list_of_headers_is_none_even_where_arrow_has_entries_for_it() -> None:
    entries = pa.array(
        [{"key": "a", "value": b"1"}, {"key": "b", "value": b"2"}], SCHEMA.field("headers").type.value_type
    )
    column = pa.ListArray.from_arrays(pa.array([0, 1, 2], pa.int32()), entries, mask=pa.array([True, False]))
    records = records_in(encode_batches(pa.table({"value": [b"x", b"y"], "headers": column}), timestamp_ms=0))
    assert [record.headers for record in records] == [(), (("b", b"2"),)]


def test_a_single_batch_keeps_its_crc_when_stamped_and_read_as_columns() -> None:
    (batch,) = encode_batches(pa.table({"value": [b"a", b"b"]}), timestamp_ms=5)
    stamp(batch, 0, base_offset=1000, leader_epoch=3)
    assert [row[5] for row in decoded_rows(bytes(batch))] == [1000, 1001]
    write_crc(batch, 0, len(batch))
    assert verify(batch).base_offset == 1000
