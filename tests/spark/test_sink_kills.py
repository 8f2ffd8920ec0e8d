"""kill -9 of a driver, at every place that matters and at any moment: the output is the input, each record once.

Each driver that is killed is a process with a JVM of its own, which takes its time; the one that goes on is that of
all tests. HEADRACE_KILLS says how often one is killed at random, a tenth of it here.
"""

import signal
from collections import Counter
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

ROWS, ROWS_PER_BATCH = 800, 100
pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]


class Drivers(DriverProcesses):
    """A topic copied to another."""

    def __init__(self, bootstrap: str, directory: Path, **told: Any) -> None:
        self.bootstrap = bootstrap
        self.topic, self.source, self.app = unique("out"), unique("in"), unique("app")
        copying_told = {
            "bootstrap": bootstrap,
            "source": self.source,
            "topic": self.topic,
            "app": self.app,
            "checkpoint": str(directory / "checkpoint"),
            "rows_per_batch": ROWS_PER_BATCH,
            "form": "foreachBatch",
        }
        super().__init__("tests.support.spark_driver", directory / "driver.log", copying_told | told)
        with headrace.Admin(bootstrap) as admin:
            admin.create_topic(self.source, partitions=2)
            admin.create_topic(self.topic, partitions=3)
        values = [str(number) for number in range(ROWS)]
        write(pa.table({"key": values, "value": values}), self.source, bootstrap)

    def finish(self, spark: SparkSession) -> None:
        """Another driver goes on with the same checkpoint, and copies the rest."""
        query = copying(spark, self.told).start()
        try:
            assert query.awaitTermination(DRIVER_SECONDS), "the query has not ended in time"
        except StreamingQueryException as error:
            if GIVEN_UP not in str(error):
                raise
            self.finish(spark)
        finally:
            query.stop()

    def read_by(self, batch_id: int) -> int:
        """How many records have been read after this micro-batch."""
        return sum(batch_ends(self.told["checkpoint"], batch_id).values())

    def written(self) -> list[str]:
        return committed_values(self.topic, self.bootstrap)

    def check(self) -> None:
        """Nothing lost, nothing doubled, and the group has read everything."""
        counts = Counter(self.written())
        doubled = {value: count for value, count in counts.items() if count > 1}
        missing = {str(number) for number in range(ROWS)} - set(counts)
        assert (doubled, missing, len(counts)) == ({}, set(), ROWS)

    def check_lag(self) -> None:
        with headrace.Admin(self.bootstrap) as admin:
            committed = admin.list_group_offsets(self.app, require_stable=True)
            ends = admin.list_offsets(dict.fromkeys(committed, "latest"))
            assert len(committed) == 2
            assert {place: each.offset for place, each in committed.items()} == {
                place: each.offset for place, each in ends.items()
            }


def kill(drivers: Drivers, place: str, *, batch: int) -> None:
    """A driver dies there. What it wrote of this micro-batch is to be seen after its commit, and not before."""
    assert drivers.run(kill_at=place, kill_batch=batch) == -signal.SIGKILL, drivers.log_tail()
    last = batch if place == "after" else batch - 1
    assert len(drivers.written()) == drivers.read_by(last), place


def test_killed_in_the_middle_before_and_after_the_commit(
    spark: SparkSession, broker: headrace.Broker, tmp_path: Path
) -> None:
    drivers = Drivers(broker.address, tmp_path)
    for place, batch in (("middle", 1), ("before", 3), ("after", 5)):
        kill(drivers, place, batch=batch)
    drivers.finish(spark)
    drivers.check()
    drivers.check_lag()


@pytest.mark.kafka
def test_apache_kafka_too_takes_back_the_transaction_of_a_driver_that_was_killed(
    spark: SparkSession, kafka_bootstrap: str, tmp_path: Path
) -> None:
    """Everything is sent, and nothing committed: all that is left to the broker."""
    drivers = Drivers(kafka_bootstrap, tmp_path)
    kill(drivers, "before", batch=2)
    drivers.finish(spark)
    drivers.check()
    drivers.check_lag()


def test_a_naive_sink_doubles_and_the_check_sees_it(
    spark: SparkSession, broker: headrace.Broker, tmp_path: Path
) -> None:
    drivers = Drivers(broker.address, tmp_path, form="naive", app=None)
    drivers.finish(spark)
    drivers.check()
    last = forget_last_commit(Path(drivers.told["checkpoint"]))
    drivers.finish(spark)
    with pytest.raises(AssertionError):
        drivers.check()
    repeated = drivers.read_by(last) - drivers.read_by(last - 1)
    assert len(drivers.written()) == ROWS + repeated


@pytest.mark.parametrize(
    ("form", "transactions"), [("foreachBatch", "driver"), ("format", "driver"), ("format", "tasks")]
)
def test_killed_at_any_moment(
    spark: SparkSession, broker: headrace.Broker, tmp_path: Path, form: str, transactions: str
) -> None:
    random = Random(f"{SEED} {form} {transactions}")
    drivers = Drivers(broker.address, tmp_path, form=form, transactions=transactions)
    for _ in range(max(1, KILLS // 10)):
        before = len(drivers.written())
        process = drivers.start()
        try:
            wait_until(
                lambda before=before, process=process: len(drivers.written()) > before or process.poll() is not None,  # type: ignore[misc]
                "rows are written",
                seconds=DRIVER_SECONDS,
            )
            stay_a_moment(random.random() * 0.7)
        finally:
            end(process)
    drivers.finish(spark)
    drivers.check()
    drivers.check_lag()
