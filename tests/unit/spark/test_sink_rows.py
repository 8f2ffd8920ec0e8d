"""Which rows become which records."""

import pyarrow as pa
import pytest
from pyspark.sql.types import LongType, StringType, StructField, StructType

from headrace.client.errors import ConfigError
from headrace.spark.sink_rows import by_topic, check_schema, in_pieces
from headrace.spark.sink_schema import record_columns


def headers(key: pa.DataType, value: pa.DataType) -> pa.DataType:
    return pa.list_(pa.struct([("key", key), ("value", value)]))


HEADERS = headers(pa.string(), pa.binary())


class TestColumns:
    def test_all_that_a_record_has(self) -> None:
        fields = [
            ("value", pa.string()),
            ("key", pa.binary()),
            ("topic", pa.string()),
            ("headers", HEADERS),
            ("partition", pa.int32()),
            ("timestamp", pa.timestamp("us", tz="UTC")),
        ]
        check_schema(pa.schema(fields), None)
        check_schema(pa.schema([("value", pa.null()), ("timestamp", pa.int64())]), "out")
        check_schema(pa.schema([("value", pa.string()), ("headers", headers(pa.string(), pa.string()))]), "out")

    def test_all_columns_are_named_if_the_right_one_is_missing(self) -> None:
        schema = StructType([StructField("VALUE", StringType()), StructField("n", LongType())])
        with pytest.raises(ConfigError, match="no column value among VALUE, n"):
            record_columns(schema, "t")

    @pytest.mark.parametrize(
        ("fields", "topic", "complaints"),
        [
            ([("key", pa.string())], "t", ["no column value among key"]),
            ([], "t", ["no column value among no columns at all"]),
            ([("value", pa.string())], None, ["neither an option topic nor a column topic"]),
            ([("value", pa.int64())], "t", ["column value is int64; it must be binary or string"]),
            ([("value", pa.string()), ("partition", pa.string())], "t", ["partition is string; it must be int"]),
            ([("value", pa.string()), ("timestamp", pa.string())], "t", ["timestamp is string"]),
            ([("value", pa.string()), ("headers", pa.list_(pa.string()))], "t", ["headers is list"]),
            ([("value", pa.string()), ("headers", headers(pa.string(), pa.int32()))], "t", ["headers is list<"]),
            ([("value", pa.string()), ("headers", headers(pa.int32(), pa.binary()))], "t", ["headers is list<"]),
            ([("value", pa.string()), ("value", pa.string())], "t", ["2 columns value"]),
            ([("topic", pa.int32())], None, ["no column value", "column topic is int32"]),
        ],
    )
    def test_what_cannot_be_is_told_at_once(
        self, fields: list[tuple[str, object]], topic: str | None, complaints: list[str]
    ) -> None:
        with pytest.raises(ConfigError) as told:
            check_schema(pa.schema(fields), topic)
        for complaint in complaints:
            assert complaint in str(told.value)
        assert len(told.value.problems) == len(complaints)


class TestTopics:
    def test_rows_keep_their_order_within_a_topic(self) -> None:
        rows = pa.table({"topic": ["a", "b", "a", "b"], "value": ["1", "2", "3", "4"], "extra": [1, 2, 3, 4]})
        found = {topic: records.to_pydict() for topic, records in by_topic(rows, None)}
        assert found == {"a": {"value": ["1", "3"]}, "b": {"value": ["2", "4"]}}

    def test_the_option_counts_more_than_the_column(self) -> None:
        rows = pa.table({"topic": ["a", None], "value": ["1", "2"]})
        assert [(topic, records.num_rows) for topic, records in by_topic(rows, "out")] == [("out", 2)]

    def test_a_row_without_a_topic_is_an_error(self) -> None:
        with pytest.raises(ValueError, match="1 rows have no topic"):
            list(by_topic(pa.table({"topic": ["a", None], "value": ["1", "2"]}), None))

    def test_no_rows_are_for_no_topic(self) -> None:
        assert list(by_topic(pa.table({"value": pa.array([], pa.string())}), "out")) == []

    def test_columns_without_a_type_are_left_out_and_a_value_without_one_is_null(self) -> None:
        rows = pa.table({"value": pa.nulls(2), "key": pa.nulls(2), "headers": pa.nulls(2)})
        ((_, records),) = by_topic(rows, "out")
        assert records.schema == pa.schema([("value", pa.binary())])

    def test_headers_are_left_out_on_demand(self) -> None:
        rows = pa.table({"value": ["v"], "headers": pa.array([[{"key": "a", "value": b"b"}]], HEADERS)})
        assert next(by_topic(rows, "out"))[1].column_names == ["value", "headers"]
        assert next(by_topic(rows, "out", with_headers=False))[1].column_names == ["value"]


class TestPieces:
    def test_small_batches_are_sent_together_and_large_ones_are_not_waited_with(self) -> None:
        batches = [pa.record_batch({"value": pa.array(["x"] * size, pa.string())}) for size in (3, 0, 4, 2, 8, 1)]
        assert [piece.num_rows for piece in in_pieces(batches, rows=7, size_bytes=1 << 20)] == [7, 10, 1]
        assert [piece.num_rows for piece in in_pieces(batches, rows=100, size_bytes=1)] == [3, 4, 2, 8, 1]
        assert list(in_pieces([], rows=1, size_bytes=1)) == []
