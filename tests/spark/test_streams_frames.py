"""Streaming DataFrames of Spark's own sources as streams: rows that are in no topic."""

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import headrace
from headrace.streams import App, col

pytestmark = [pytest.mark.timeout(900), pytest.mark.slow]

ROWS = [
    {"user": "a", "id": 3, "at": "2026-01-01T00:00:03Z"},
    {"user": "a", "id": 1, "at": "2026-01-01T00:00:01Z"},
    {"user": "b", "id": 9, "at": "2026-01-01T00:00:09Z"},
    {"user": "a", "id": 2, "at": "2026-01-01T00:00:02Z"},
]


def consumed(broker: headrace.Broker, topic: str) -> list[Any]:
    table = headrace.arrow.read(topic, broker.address, isolation="read_committed")
    return [json.loads(value) for value in table.column("value").to_pylist()]


def test_rows_of_a_data_frame_have_no_offset_and_count_in_the_order_of_their_times(
    spark: SparkSession, broker: headrace.Broker, tmp_path: Path
) -> None:
    files = tmp_path / "files"
    files.mkdir()
    (files / "one.json").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    frame = spark.readStream.schema("user string, id long, at timestamp").json(str(files))

    app = App("frames", broker.address, state=tmp_path / "state", partitions=1)
    rows = app.from_df(frame, key="user", time="at", name="frame")
    rows.select("id", no_place=col._offset.is_null() & col._partition.is_null()).to("frames-places")
    folded = rows.group_by("user").aggregate(
        lambda: {"ids": []}, lambda made, row: {"ids": [*made["ids"], row["id"]]}, "ids array<long>"
    )
    folded.to("frames-folded")
    app.catch_up(spark)
    assert {row["no_place"] for row in consumed(broker, "frames-places")} == {True}
    assert {row["user"]: row["ids"] for row in consumed(broker, "frames-folded")} == {"a": [1, 2, 3], "b": [9]}

    strict = App("strict-frames", broker.address, state=tmp_path / "strict", partitions=1)
    checked = strict.from_df(frame, key="user", time="at", name="frame").check(col.id < 9, "too large")
    checked.map(lambda row: row, "user string, id long").to("frames-checked")
    with pytest.raises(PySparkException, match=r"a row .*too large"):
        strict.catch_up(spark)
