"""Topics as Arrow tables against a broker in this process; rows that go in come out."""

import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import headrace
import headrace.arrow as ha
from headrace.client import arrow_write
from headrace.client.arrow_partitions import partitions_of
from headrace.client.column_batch import ColumnBatch
from headrace.client.errors import KafkaError, UnknownTopicError
from headrace.client.murmur2 import partition_of
from tests.support.topic_reading import read_topic
from tests.support.waiting import DEADLINE_SECONDS

SECOND = 1_000_000


@pytest.fixture
def broker() -> Iterator[headrace.Broker]:
    with headrace.Broker() as broker:
        broker.create_topic("one", partitions=1)
        broker.create_topic("wide", partitions=4)
        yield broker


def numbers(count: int) -> pa.Table:
    return pa.table(
        {
            "key": [f"k{number % 100}".encode() for number in range(count)],
            "value": [str(number).encode() for number in range(count)],
            "timestamp": pa.array([number * SECOND for number in range(count)], pa.timestamp("us", tz="UTC")),
        }
    )


class RefusedMeanwhile(ColumnBatch):
    """When it is asked for an error, there is none yet; by the time of the next question there is one."""

    @property
    def error(self) -> KafkaError | None:
        found, settled = super().error, threading.Event()
        self.when_settled(lambda _: settled.set())
        assert settled.wait(DEADLINE_SECONDS)
        return found


class TestPartitions:
    @given(st.lists(st.none() | st.binary(max_size=40), max_size=60), st.integers(1, 1_000))
    def test_are_those_of_single_keys(self, keys: list[bytes | None], count: int) -> None:
        expected = [-1 if key is None else partition_of(key, count) for key in keys]
        assert partitions_of(pa.array(keys, pa.binary()), count).tolist() == expected

    def test_of_slices_and_chunks(self) -> None:
        keys = pa.array([f"key {number}" for number in range(1_000)])
        chunked = pa.chunked_array([keys[:300], keys[300:]])[200:900]
        expected = [partition_of(f"key {number}".encode(), 7) for number in range(200, 900)]
        assert partitions_of(chunked, 7).tolist() == expected


class TestWriteAndRead:
    def test_all_that_goes_in_comes_out(self, broker: headrace.Broker) -> None:
        rows = numbers(10_000)
        assert ha.write(rows, "one", broker.address) == 10_000
        table = ha.read("one", broker.address)
        assert table.select(["key", "value"]).to_pylist() == rows.select(["key", "value"]).to_pylist()
        assert table.column("timestamp").cast(pa.timestamp("us", tz="UTC")).equals(rows.column("timestamp"))
        assert table.column("offset").to_pylist() == list(range(10_000))
        assert set(table.column("topic").to_pylist()) == {"one"}

    def test_keys_go_where_every_client_sends_them_and_stay_in_order(self, broker: headrace.Broker) -> None:
        ha.write(numbers(20_000), "wide", broker.address)
        table = ha.read("wide", broker.address)
        placed = dict(zip(table.column("key").to_pylist(), table.column("partition").to_pylist(), strict=True))
        assert placed == {key: partition_of(key, 4) for key in placed}
        for partition in range(4):
            values = [
                int(row["value"]) for row in table.to_pylist() if row["partition"] == partition and row["key"] == b"k7"
            ]
            assert values == sorted(values)
        assert sorted(map(int, table.column("value").to_pylist())) == list(range(20_000))

    def test_rows_without_a_key_are_spread(self, broker: headrace.Broker) -> None:
        ha.write(pa.table({"value": [b"v"] * 1_000}), "wide", broker.address)
        counts = np.bincount(ha.read("wide", broker.address).column("partition").to_numpy(), minlength=4)
        assert counts.tolist() == [250, 250, 250, 250]

    def test_so_are_those_of_many_small_tables(self, broker: headrace.Broker) -> None:
        with headrace.Producer(broker.address) as producer:
            for _ in range(200):
                ha.write({"value": [b"alone"]}, "wide", producer)
        assert set(ha.read("wide", broker.address).column("partition").to_pylist()) == {0, 1, 2, 3}

    def test_columns_may_have_other_names(self, broker: headrace.Broker) -> None:
        table = pa.table({"user": ["a", "b"], "text": ["x", "y"], "place": [3, 1]})
        ha.write(table, "wide", broker.address, key="user", value="text", partition="place")
        found = ha.read("wide", broker.address, columns=["partition", "key", "value"])
        assert sorted(map(tuple, (row.values() for row in found.to_pylist()))) == [(1, b"b", b"y"), (3, b"a", b"x")]
        with pytest.raises(KeyError, match="user, text, place"):
            ha.write(table, "wide", broker.address, key="usr")
        with pytest.raises(ValueError, match="0 to 3"):
            ha.write(pa.table({"value": [b"v"], "partition": [4]}), "wide", broker.address)

    def test_a_row_without_a_partition_goes_to_that_of_its_key(self, broker: headrace.Broker) -> None:
        keys = [f"key {number}".encode() for number in range(50)]
        named = pa.array([None if number % 2 else 3 for number in range(50)], pa.int32())
        ha.write(pa.table({"key": keys, "value": keys, "partition": named}), "wide", broker.address)
        found = ha.read("wide", broker.address)
        placed = dict(zip(found.column("key").to_pylist(), found.column("partition").to_pylist(), strict=True))
        assert placed == {key: partition_of(key, 4) if index % 2 else 3 for index, key in enumerate(keys)}

    def test_headers_and_nulls(self, broker: headrace.Broker) -> None:
        headers = pa.array(
            [[{"key": "a", "value": b"1"}], None],
            pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
        )
        rows = pa.table({"key": [b"k", b"k"], "value": pa.array([b"v", None], pa.binary()), "headers": headers})
        ha.write(rows, "one", broker.address)
        table = ha.read("one", broker.address)
        assert table.column("headers").to_pylist() == [[{"key": "a", "value": b"1"}], None]
        assert table.column("value").to_pylist() == [b"v", None]

    @pytest.mark.parametrize("codec", ["lz4", "zstd", "gzip", "snappy"])
    def test_every_codec(self, broker: headrace.Broker, codec: str) -> None:
        ha.write(numbers(1_000), "one", broker.address, compression_type=codec)
        assert ha.read("one", broker.address).num_rows == 1_000

    def test_data_frames(self, broker: headrace.Broker) -> None:
        ha.write({"value": ["a", "b"]}, "one", broker.address)
        with pytest.raises(TypeError, match="is no table"):
            ha.write([1, 2], "one", broker.address)
        assert ha.read("one", broker.address).num_rows == 2

    def test_pandas(self, broker: headrace.Broker) -> None:
        pandas = pytest.importorskip("pandas")
        frame = pandas.DataFrame(
            {
                "key": pandas.Categorical(["a", None, "b"]),
                "value": ["x", None, "z"],
                "timestamp": pandas.to_datetime([1_000, None, 3_000], unit="ms"),
            }
        )
        assert ha.write(frame[frame.key != "a"], "wide", broker.address) == 2
        assert ha.write(frame, "one", broker.address) == 3
        back = ha.read("one", broker.address).to_pandas()
        assert back.key.tolist() == [b"a", None, b"b"]
        assert back.value.tolist() == [b"x", None, b"z"]
        assert back.timestamp[2] == pandas.Timestamp(3, unit="s", tz="UTC")

    @pytest.mark.parametrize("topic", ["one", "wide"])
    def test_views_such_as_polars_hands_on(self, broker: headrace.Broker, topic: str) -> None:
        headers = pa.list_(pa.struct([("key", pa.string_view()), ("value", pa.binary_view())]))
        rows = pa.table(
            {
                "key": pa.array(["a", None, ""], pa.string_view()),
                "value": pa.array([b"x" * 100, None, b""], pa.binary_view()),
                "headers": pa.array([[{"key": "h", "value": b"1"}], None, []], headers),
            }
        )

        class Frame:
            def __arrow_c_stream__(self, requested_schema: object = None) -> object:
                return rows.__arrow_c_stream__(requested_schema)

        assert ha.write(Frame(), topic, broker.address) == 3
        back = ha.read(topic, broker.address, columns=["key", "value", "headers"]).to_pylist()
        assert sorted(back, key=lambda row: str(row["key"])) == [
            {"key": None, "value": None, "headers": None},
            {"key": b"", "value": b"", "headers": None},
            {"key": b"a", "value": b"x" * 100, "headers": [{"key": "h", "value": b"1"}]},
        ]

    def test_columns_of_nothing_but_nulls(self, broker: headrace.Broker) -> None:
        names = ["key", "value", "headers", "timestamp", "partition"]
        assert ha.write(pa.table({name: pa.nulls(3) for name in names}), "wide", broker.address) == 3
        back = ha.read("wide", broker.address)
        assert back.column("value").null_count == 3
        assert back.column("timestamp").null_count == 0

    @pytest.mark.parametrize(
        "times", [pa.array([5, -5]), pa.array([datetime(2000, 1, 1), datetime(1960, 1, 1)], pa.timestamp("us"))]
    )
    def test_a_time_before_1970_stops_all_rows(self, broker: headrace.Broker, times: pa.Array) -> None:
        with pytest.raises(ValueError, match=r"one has the timestamp .*before 1970"):
            ha.write(pa.table({"value": ["a", "b"], "timestamp": times}), "one", broker.address)
        assert ha.read("one", broker.address).num_rows == 0

    def test_a_retry_neither_loses_nor_doubles_nor_reorders(self, broker: headrace.Broker) -> None:
        broker.faults.drop("Produce", when="after", times=2)
        broker.faults.answer("Produce", error="NOT_LEADER_OR_FOLLOWER", times=2)
        ha.write(numbers(50_000), "one", broker.address, batch_bytes=50_000, retry_backoff_ms=1)
        assert [int(value) for value in ha.read("one", broker.address).column("value").to_pylist()] == list(
            range(50_000)
        )

    def test_what_the_broker_refuses_is_told(self, broker: headrace.Broker) -> None:
        broker.faults.answer("Produce", error="INVALID_RECORD", times=1)
        with pytest.raises(KafkaError, match="INVALID_RECORD"):
            ha.write(numbers(10), "one", broker.address)

    def test_what_is_refused_while_the_writer_looks_is_told(
        self, broker: headrace.Broker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(arrow_write, "ColumnBatch", RefusedMeanwhile)
        broker.faults.answer("Produce", error="TOPIC_AUTHORIZATION_FAILED", times=1)
        with pytest.raises(KafkaError):
            ha.write(numbers(10), "one", broker.address)

    def test_in_a_transaction(self, broker: headrace.Broker) -> None:
        with headrace.Producer(broker.address, transactional_id="x") as producer:
            with producer.transaction():
                ha.write(numbers(1_000), "one", producer)
            producer.begin_transaction()
            ha.write(numbers(500), "one", producer)
            producer.abort_transaction()
            with producer.transaction():
                producer.send("one", b"last")
        committed = ha.read("one", broker.address, isolation="read_committed")
        assert committed.num_rows == 1_001
        assert ha.read("one", broker.address).num_rows == 1_501
        assert len(read_topic(broker.address, "one", committed=True)) == 1_001


class TestPartitionColumn:
    @pytest.mark.parametrize(
        ("named", "words"),
        [([0, 1, 7], "0 to 3"), ([0, 1 << 32, 1], "0 to 3"), ([0, -1, 1], "0 to 3"), ([0, 1.5, 1], "truncated")],
    )
    def test_a_row_for_a_partition_that_is_not_there_stops_all_of_them(
        self, broker: headrace.Broker, named: list[float], words: str
    ) -> None:
        with pytest.raises(ValueError, match=words):
            ha.write(pa.table({"value": [b"v"] * 3, "partition": named}), "wide", broker.address)
        assert ha.read("wide", broker.address).num_rows == 0

    def test_a_column_of_nothing_names_no_partition(self, broker: headrace.Broker) -> None:
        assert ha.write(pa.table({"value": [b"v"] * 3, "partition": pa.nulls(3)}), "wide", broker.address) == 3
        assert ha.read("wide", broker.address).num_rows == 3


class TestRanges:
    @pytest.fixture
    def filled(self, broker: headrace.Broker) -> headrace.Broker:
        ha.write(numbers(1_000), "one", broker.address, batch_bytes=2_000)
        return broker

    def offsets(self, broker: headrace.Broker, **bounds: Any) -> list[int]:
        found: list[int] = ha.read("one", broker.address, columns=["offset"], **bounds).column("offset").to_pylist()
        return found

    @pytest.mark.parametrize(
        ("bounds", "first", "last"),
        [
            ({"start": 100, "end": 200}, 100, 200),
            ({"start": -10}, 990, 1_000),
            ({"end": -990}, 0, 10),
            ({"start": {0: 5}, "end": {0: 7}}, 5, 7),
            ({"start": 5_000}, 1_000, 1_000),
            ({"start": datetime.fromtimestamp(300, UTC), "end": datetime.fromtimestamp(310, UTC)}, 300, 310),
            ({"start": datetime.fromtimestamp(999_999, UTC)}, 1_000, 1_000),
            ({"start": "latest"}, 1_000, 1_000),
        ],
    )
    def test_by_offset_and_by_time(
        self, filled: headrace.Broker, bounds: dict[str, Any], first: int, last: int
    ) -> None:
        assert self.offsets(filled, **bounds) == list(range(first, last))

    def test_by_the_position_of_a_group(self, filled: headrace.Broker) -> None:
        with headrace.Admin(filled.address) as admin:
            admin.alter_group_offsets("g", {headrace.TopicPartition("one", 0): 990})
        assert self.offsets(filled, start=ha.Group("g")) == list(range(990, 1_000))
        assert self.offsets(filled, start=ha.Group("nobody")) == list(range(1_000))

    def test_partitions_that_a_dict_leaves_out_are_read_as_a_whole(self, broker: headrace.Broker) -> None:
        ha.write(pa.table({"value": [b"v"] * 8, "partition": [0, 1, 2, 3] * 2}), "wide", broker.address)

        def found(**bounds: Any) -> list[int]:
            return sorted(ha.read("wide", broker.address, **bounds).column("partition").to_pylist())

        assert found(end={0: 1}) == [0, 1, 1, 2, 2, 3, 3]
        assert found(start={0: 1}) == [0, 1, 1, 2, 2, 3, 3]

    def test_some_partitions(self, broker: headrace.Broker) -> None:
        ha.write(pa.table({"value": [b"v"] * 8}), "wide", broker.address)
        assert ha.read("wide", broker.address, partitions=[1, 3]).num_rows == 4
        with pytest.raises(UnknownTopicError, match="0 to 3"):
            ha.read("wide", broker.address, partitions=[4])

    def test_deleted_records_are_left_out(self, filled: headrace.Broker) -> None:
        with headrace.Admin(filled.address) as admin:
            admin.delete_records({headrace.TopicPartition("one", 0): 600})
        assert self.offsets(filled, start=0) == list(range(600, 1_000))

    def test_an_empty_topic_is_an_empty_table(self, broker: headrace.Broker) -> None:
        table = ha.read("one", broker.address, columns=["key", "offset"])
        assert table.num_rows == 0
        assert table.column_names == ["key", "offset"]

    def test_a_scan_comes_in_pieces(self, filled: headrace.Broker) -> None:
        pieces = list(ha.scan("one", filled.address))
        assert sum(piece.num_rows for piece in pieces) == 1_000
        assert all(isinstance(piece, pa.RecordBatch) for piece in pieces)

    def test_a_scan_may_be_left(self, filled: headrace.Broker) -> None:
        scan = ha.scan("one", filled.address)
        next(scan)
        scan.close()  # type: ignore[attr-defined]

    def test_what_is_unknown_is_named(self, broker: headrace.Broker) -> None:
        with pytest.raises(ValueError, match="key, value"):
            ha.read("one", broker.address, columns=["kee"])
        with pytest.raises(ValueError, match=r"list of names, such as \['key'\]"):
            ha.read("one", broker.address, columns="key")
        for nowhere in ("yesterday", 1.5, timedelta(hours=1)):
            with pytest.raises(ValueError, match="earliest, latest"):
                ha.read("one", broker.address, start=nowhere)  # type: ignore[arg-type]
        with pytest.raises(UnknownTopicError, match="there is no partition 7"):
            ha.read("one", broker.address, end={0: 5, 7: 5})
        with pytest.raises(UnknownTopicError, match="nothing"):
            ha.read("nothing", broker.address)

    @pytest.mark.parametrize("error", ["NOT_LEADER_OR_FOLLOWER", "KAFKA_STORAGE_ERROR", "FENCED_LEADER_EPOCH"])
    def test_errors_that_pass_are_waited_out(self, filled: headrace.Broker, error: str) -> None:
        filled.faults.answer("Fetch", error=error, times=2)
        filled.faults.drop("Fetch", when="before", times=1)
        assert self.offsets(filled) == list(range(1_000))


def test_who_does_not_use_arrow_does_not_load_it() -> None:
    program = "import sys, headrace; headrace.Producer; headrace.Admin; assert 'pyarrow' not in sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True)
