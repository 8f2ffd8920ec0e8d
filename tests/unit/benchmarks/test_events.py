"""The records that pipelines are measured with are the same each time, and spread as the benchmarks say."""

import json

import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.beside_spark.events import MINUTES, PARTITIONS, events


def test_they_are_the_same_each_time() -> None:
    assert pa.concat_tables(events(1_000, 100)).equals(pa.concat_tables(events(1_000, 100)))


def test_however_many_there_are_they_are_spread_over_the_same_minutes_in_the_order_of_time() -> None:
    for records in (1_000, 110_000):  # in one table, and in two
        times = pa.concat_tables(events(records, 100))["timestamp"].cast(pa.int64())
        assert len(times) == records
        assert pc.all(pc.less_equal(times.slice(0, records - 1), times.slice(1))).as_py()
        minutes = pc.unique(pc.divide(times, 60_000))
        assert len(minutes) == MINUTES


def test_partitions_have_the_same_number_of_records() -> None:
    counts = pa.concat_tables(events(1_000, 100))["partition"].value_counts()
    assert [each["counts"].as_py() for each in counts] == [1_000 // PARTITIONS] * PARTITIONS


def test_a_value_is_json_with_the_user_of_the_key_and_the_number_of_the_record() -> None:
    rows = pa.concat_tables(events(1_000, 100)).to_pylist()
    assert [json.loads(row["value"]) for row in rows] == [
        {"user": f"u{int(row['key']):07d}", "n": number} for number, row in enumerate(rows)
    ]
    assert {int(row["key"]) for row in rows} == set(range(100))
