"""kill -9 of a driver, at every place that matters and at any moment: the output is the input, each record once.

Each driver that is killed is a process with a JVM of its own, which takes its time, and so it has several queries; the
one that goes on is that of all tests. HEADRACE_KILLS says how often one is killed at random, a tenth of it here.
"""

import signal
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

import headrace
from headrace.arrow import write
from headrace.spark.checkpoints import batch_ends
from tests.support.both_brokers import unique
from tests.support.driver_processes import DRIVER_SECONDS, GIVEN_UP, DriverProcesses, end
from tests.support.kills import KILLS, SEED, stay_a_moment
from tests.support.spark_driver import copying
from tests.support.spark_queries import committed_values, forget_last_commit
from tests.support.waiting import wait_until

ROWS, ROWS_PER_BATCH = 600, 100
pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]


class Copy:
    """A topic that is copied to another, and what a driver is told about it."""

    def __init__(self, bootstrap: str, directory: Path, **told: Any) -> None:
        self.bootstrap = bootstrap
        self.topic, self.source, self.app = unique("out"), unique("in"), unique("app")
        self.told: dict[str, Any] = {
            "bootstrap": bootstrap,
            "source": self.source,
            "topic": self.topic,
            "app": self.app,
            "checkpoint": str(directory / self.app),
            "rows_per_batch": ROWS_PER_BATCH,
            "form": "foreachBatch",
        } | told
        with headrace.Admin(bootstrap) as admin:
            admin.create_topic(self.source, partitions=2)
            admin.create_topic(self.topic, partitions=3)
        values = [str(number) for number in range(ROWS)]
        write(pa.table({"key": values, "value": values}), self.source, bootstrap)

    def read_by(self, batch_id: int) -> int:
        """How many records have been read after this micro-batch."""
        return sum(batch_ends(self.told["checkpoint"], batch_id).values())

    def written(self) -> list[str]:
        return committed_values(self.topic, self.bootstrap)

    def check(self) -> None:
        """Nothing lost, nothing doubled."""
        counts = Counter(self.written())
        doubled = {value: count for value, count in counts.items() if count > 1}
        missing = {str(number) for number in range(ROWS)} - set(counts)
        assert (doubled, missing, len(counts)) == ({}, set(), ROWS), self.told

    def check_lag(self) -> None:
        """The group has read everything."""
        with headrace.Admin(self.bootstrap) as admin:
            committed = admin.list_group_offsets(self.app, require_stable=True)
            ends = admin.list_offsets(dict.fromkeys(committed, "latest"))
            assert len(committed) == 2
            assert {place: each.offset for place, each in committed.items()} == {
                place: each.offset for place, each in ends.items()
            }


def drivers(directory: Path, copies: Iterable[Copy]) -> DriverProcesses:
    told = {"copies": [copy.told for copy in copies]}
    return DriverProcesses("tests.support.spark_driver", directory / "driver.log", told)


def finish(spark: SparkSession, *copies: Copy) -> None:
    """Another driver goes on with the same checkpoints, and copies the rest."""
    for copy in copies:
        query = copying(spark, copy.told).start()
        try:
            assert query.awaitTermination(DRIVER_SECONDS), "the query has not ended in time"
        except StreamingQueryException as error:
            if GIVEN_UP not in str(error):
                raise
            finish(spark, copy)
        finally:
            query.stop()


def kill(directory: Path, places: Mapping[Copy, str], *, batch: int) -> None:
    """A driver dies while each copy is at its place in its micro-batch of this number.

    What it wrote of this one is to be seen after its commit, and not before.
    """
    for copy, place in places.items():
        copy.told |= {"kill_at": place, "kill_batch": batch}
    killed = drivers(directory, places)
    assert killed.run() == -signal.SIGKILL, killed.log_tail()
    for copy, place in places.items():
        last = batch if place == "after" else batch - 1
        assert len(copy.written()) == copy.read_by(last), place


def test_killed_in_the_middle_before_and_after_the_commit(
    spark: SparkSession, broker: headrace.Broker, tmp_path: Path
) -> None:
    """And again when what went wrong has been put right: no copy dies twice at the same place."""
    copies = [Copy(broker.address, tmp_path) for _ in range(3)]
    kill(tmp_path, dict(zip(copies, ("middle", "before", "after"), strict=True)), batch=1)
    kill(tmp_path, dict(zip(copies, ("before", "after", "middle"), strict=True)), batch=3)
    finish(spark, *copies)
    for copy in copies:
        copy.check()
        copy.check_lag()


@pytest.mark.kafka
def test_apache_kafka_too_takes_back_the_transaction_of_a_driver_that_was_killed(
    spark: SparkSession, kafka_bootstrap: str, tmp_path: Path
) -> None:
    """Everything is sent, and nothing committed: all that is left to the broker."""
    copy = Copy(kafka_bootstrap, tmp_path)
    kill(tmp_path, {copy: "before"}, batch=2)
    finish(spark, copy)
    copy.check()
    copy.check_lag()


def test_a_naive_sink_doubles_and_the_check_sees_it(
    spark: SparkSession, broker: headrace.Broker, tmp_path: Path
) -> None:
    copy = Copy(broker.address, tmp_path, form="naive", app=None)
    finish(spark, copy)
    copy.check()
    last = forget_last_commit(Path(copy.told["checkpoint"]))
    finish(spark, copy)
    with pytest.raises(AssertionError):
        copy.check()
    repeated = copy.read_by(last) - copy.read_by(last - 1)
    assert len(copy.written()) == ROWS + repeated


def test_killed_at_any_moment(spark: SparkSession, broker: headrace.Broker, tmp_path: Path) -> None:
    """Each form of the sink, in one driver, when each has written something."""
    random = Random(f"{SEED} copies")
    forms = (("foreachBatch", "driver"), ("format", "driver"), ("format", "tasks"))
    copies = [Copy(broker.address, tmp_path, form=form, transactions=transactions) for form, transactions in forms]
    for _ in range(max(1, KILLS // 10)):
        before = [len(copy.written()) for copy in copies]
        process = drivers(tmp_path, copies).start()
        try:
            wait_until(
                lambda before=before, process=process: (  # type: ignore[misc]
                    process.poll() is not None
                    or all(len(copy.written()) > count for copy, count in zip(copies, before, strict=True))
                ),
                "rows are written",
                seconds=DRIVER_SECONDS,
            )
            stay_a_moment(random.random() * 0.7)
        finally:
            end(process)
    finish(spark, *copies)
    for copy in copies:
        copy.check()
        copy.check_lag()
