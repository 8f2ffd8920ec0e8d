"""The README's lines about topics in Spark do what they say."""

import re
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import headrace
from tests.support.kafka_tools import REPOSITORY
from tests.support.spark_queries import QUERY_SECONDS
from tests.support.waiting import wait_until


def test_orders_are_counted_from_now_on(spark: SparkSession, broker: headrace.Broker, tmp_path: Path) -> None:
    text = (REPOSITORY / "README.md").read_text().partition("## Topics in Spark")[2]
    found = re.search(r"```python\n(.*?)query\.awaitTermination\(\)\n```", text, re.DOTALL)
    assert found is not None
    program = found[1].replace("localhost:9092", broker.address).replace("checkpoints/", f"{tmp_path}/")
    assert (program.count(broker.address), program.count(str(tmp_path))) == (2, 1)
    with headrace.Producer(broker.address) as producer:
        producer.send("orders", "3 apples", key="alice")
        producer.flush()
        names: dict[str, Any] = {}
        exec(program, names)  # with the session that runs, which is what a second call of session() gives
        query = names["query"]
        assert names["spark"].sparkContext is spark.sparkContext
        try:
            wait_until(
                lambda: query.lastProgress is not None or not query.isActive,
                "the query has begun",
                seconds=QUERY_SECONDS,
            )
            for key in ("alice", "bob", "alice"):
                producer.send("orders", "a pear", key=key)
            producer.flush()
            query.processAllAvailable()
        finally:
            query.stop()
            spark.conf.set("spark.sql.shuffle.partitions", 2)  # which it has set for all cores
    table = headrace.arrow.read("orders-per-key", broker.address, isolation="read_committed")
    newest = {row["key"]: row["value"] for row in table.sort_by("offset").to_pylist()}
    assert newest == {b"alice": b"2", b"bob": b"1"}
