"""Queries with Spark's own connector, and batches with this source, too: what each of them gives, as JSON.

    python -m tests.support.spark_beside_connector ADDRESS TOPIC DIRECTORY

A program of its own, since the connector must be on the class path of the JVM when it starts.
"""

import json
import sys
from pathlib import Path
from typing import Any, Final

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped, unused-ignore]
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.functions import spark_partition_id

import headrace
from benchmarks.beside_spark.session import spark_session
from tests.support.spark_settings import QUICK_START
from tests.support.spark_source import Rows, fill

FORMATS: Final = ("headrace", "kafka")
_SECONDS: Final = 600  # so long the machine may be busy; a query that needs it hangs


def batches(topic: str) -> dict[str, dict[str, str]]:
    """Partitions 0, 1 and 2 hold 1,000, 70 and 3 records, one for each second since 1970 from 1,000,000 s on."""
    offsets = {"0": 10, "1": -2, "2": 1}
    whole = {"subscribe": topic}
    return {
        "all of it": whole,
        "headers": {**whole, "includeHeaders": "true"},
        "a pattern": {"subscribePattern": f"{topic[:-1]}."},
        "a partition": {"assign": json.dumps({topic: [1]})},
        "from offsets": {**whole, "startingOffsets": json.dumps({topic: offsets})},
        "to offsets": {**whole, "endingOffsets": json.dumps({topic: {"0": 20, "1": -1, "2": 0}})},
        "from a time to another": {
            **whole,
            "startingTimestamp": "1000050000",
            "endingTimestamp": "1000060500",
            "startingOffsetsByTimestampStrategy": "latest",
        },
        "from a time that is too late": {**whole, "startingTimestamp": "1000050000"},
        "times by partition": {
            **whole,
            "startingOffsetsByTimestamp": json.dumps({topic: {"0": 1000990000, "1": 1000069000, "2": 0}}),
        },
        "a partition left out": {**whole, "startingOffsets": json.dumps({topic: {"0": 10}})},
        "two tasks at least": {**whole, "minPartitions": "2"},
        "four tasks at least": {**whole, "minPartitions": "4"},
        "seventeen tasks at least": {**whole, "minPartitions": "17"},
        "from the end": {**whole, "startingOffsets": "latest"},
        "to the beginning": {**whole, "endingOffsets": "earliest"},
        "two subscriptions": {**whole, "assign": json.dumps({topic: [1]})},
        "no subscription": {},
        "no such topic": {"subscribe": "nowhere"},
        "a deserializer": {**whole, "kafka.value.deserializer": "x"},
    }


def streams(topic: str) -> dict[str, dict[str, str]]:
    whole = {"subscribe": topic, "startingOffsets": "earliest"}
    return {
        "all at once": whole,
        "from the end": {"subscribe": topic},
        "7 at most": {
            "assign": json.dumps({topic: [1, 2]}),
            "startingOffsets": "earliest",
            "maxOffsetsPerTrigger": "7",
        },
        "100 at most": {**whole, "maxOffsetsPerTrigger": "100"},
        "400 at most, in tasks": {**whole, "maxOffsetsPerTrigger": "400", "minPartitions": "5"},
        "with an end": {**whole, "endingOffsets": "latest"},
        "least above most": {**whole, "minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "5"},
    }


def main(address: str, topic: str, directory: str) -> None:
    with spark_session("local[2,4]", conf=QUICK_START) as (spark, has_connector):
        assert has_connector, "the connector's jars are not there"
        found: dict[str, Any] = {
            name: {case: _batch(spark, name, address, given) for case, given in batches(topic).items()}
            for name in FORMATS
        }
        found["streams"] = {
            case: _stream(spark, address, given, Path(directory) / case) for case, given in streams(topic).items()
        }
        found["moved"] = _moved(spark, address, f"{topic}-moved", Path(directory) / "moved")
    print(json.dumps(found))


def _moved(spark: SparkSession, address: str, topic: str, checkpoint: Path) -> list[list[int]]:
    """What each run of a query reads that changes its format, and changes back, and keeps its checkpoint."""
    with headrace.Admin(address) as admin:
        admin.create_topic(topic, partitions=1)
    rows = Rows()
    for number, name in enumerate(("kafka", "headrace", "kafka", "headrace")):
        fill(address, topic, range(10 * number, 10 * number + 3))
        given = {"kafka.bootstrap.servers": address, "subscribe": topic, "startingOffsets": "earliest"}
        rows.run(spark.readStream.format(name).options(**given).load(), checkpoint)
    return [each for each in rows.batches if each]


def _batch(spark: SparkSession, name: str, address: str, given: dict[str, str]) -> Any:
    reader = spark.read.format(name).options(**{"kafka.bootstrap.servers": address, **given})
    try:
        frame = reader.load()
        rows = frame.withColumn("task", spark_partition_id()).collect()
    except (PySparkException, Py4JJavaError) as error:
        return _refused(name, given, error)
    return {
        "tasks": len({row.task for row in rows}),
        "columns": frame.dtypes,
        "rows": sorted(str(row[:-1]) for row in rows),
    }


def _stream(spark: SparkSession, address: str, given: dict[str, str], checkpoint: Path) -> Any:
    """The ends of the micro-batches."""
    reader = spark.readStream.format("kafka").options(**{"kafka.bootstrap.servers": address, **given})
    try:
        writer = reader.load().writeStream.format("noop").option("checkpointLocation", str(checkpoint))
        query = writer.trigger(availableNow=True).start()
        assert query.awaitTermination(_SECONDS), "the query did not end"
    except (PySparkException, Py4JJavaError) as error:
        return _refused("kafka", given, error)
    return [json.loads(each["sources"][0]["endOffset"]) for each in query.recentProgress if each["numInputRows"]]


def _refused(name: str, given: dict[str, str], error: Exception) -> str:
    print(name, given, error, file=sys.stderr)
    return "an error"


if __name__ == "__main__":
    main(*sys.argv[1:])
