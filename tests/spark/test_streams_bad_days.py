"""Pipelines whose cluster has a bad day: a broker that is killed and comes back, topics that grow, lose records, go."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

import headrace
from headrace.streams import App, Json
from tests.support.broker_process import BrokerProcess
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.timeout(900), pytest.mark.slow]

SECONDS = 300.0
Row = dict[str, Any]


def add(so_far: Row, row: Row) -> Row:
    return {"ids": [*so_far["ids"], row["id"]]}


def listing_app(bootstrap: str, state: Path, lost: Literal["stop", "skip"] = "stop") -> App:
    """A copy, which keeps nothing, and the ids of each user, which are state of our own."""
    app = App("bad", bootstrap, state=state, partitions=1, lost=lost)
    orders = app.stream("bad-in", value=Json("id long, user string"), name="orders")
    orders.select("id").to("bad-copy")
    orders.group_by("user").aggregate(lambda: {"ids": []}, add, "ids array<long>", name="lists").to("bad-lists")
    return app


def send(bootstrap: str, numbers: Iterable[int], partition: int = 0) -> None:
    with headrace.Producer(bootstrap) as producer:
        for number in numbers:
            value = json.dumps({"id": number, "user": "ann"}).encode()
            producer.send("bad-in", value=value, partition=partition, timestamp=1_767_225_600_000 + number * 1_000)


def copied(bootstrap: str) -> list[int]:
    table = headrace.arrow.read("bad-copy", bootstrap, isolation="read_committed")
    return sorted(json.loads(value)["id"] for value in table.column("value").to_pylist())


def listed(bootstrap: str) -> list[int]:
    """The ids of the last change."""
    table = headrace.arrow.read("bad-lists", bootstrap, isolation="read_committed")
    found: list[int] = []
    for value in table.column("value").to_pylist()[-1:]:
        found = json.loads(value)["ids"]
    return found


def test_a_broker_that_is_killed_a_new_partition_and_a_topic_that_goes_under_a_running_app(
    spark: SparkSession, tmp_path: Path
) -> None:
    with BrokerProcess(tmp_path, configs={"log.retention.ms": "-1"}) as broker:
        at = broker.bootstrap
        with headrace.Admin(at) as admin:
            for topic in ("bad-in", "bad-copy", "bad-lists"):
                admin.create_topic(topic, partitions=1)
        send(at, range(5))
        with listing_app(at, tmp_path / "state").start(spark) as running:

            def wait_for(numbers: range) -> None:
                wait_until(
                    lambda: copied(at) == [*numbers] and listed(at) == [*numbers],
                    f"the orders up to {numbers.stop}",
                    seconds=SECONDS,
                )

            wait_for(range(5))
            broker.kill()
            broker.start()
            send(at, range(5, 9))
            wait_for(range(9))
            with headrace.Admin(at) as admin:
                admin.create_partitions({"bad-in": 2})
                send(at, range(9, 12), partition=1)
                wait_for(range(12))
                assert all(query.exception() is None for query in running.queries.values())
                admin.delete_topic("bad-in")
            with pytest.raises(StreamingQueryException, match=r"bad-in-0 \(read up to offset 9\)"):
                running.wait(SECONDS)


def test_records_that_are_gone_stop_an_app_or_are_skipped_as_it_was_told(spark: SparkSession, tmp_path: Path) -> None:
    with headrace.Broker(log_retention_ms=-1) as broker:
        at = broker.address
        send(at, range(5))
        listing_app(at, tmp_path).catch_up(spark)
        send(at, range(5, 12))
        with headrace.Admin(at) as admin:
            admin.delete_records({headrace.TopicPartition("bad-in", 0): 8})
        with pytest.raises(StreamingQueryException) as caught:
            listing_app(at, tmp_path).catch_up(spark)
        said = str(caught.value)
        assert "Records of bad-in-0 are gone: the query is at offset 5, and the log begins at 8" in said
        assert "lost='skip'" in said
        listing_app(at, tmp_path, lost="skip").catch_up(spark)
        assert copied(at) == listed(at) == [*range(5), *range(8, 12)]
