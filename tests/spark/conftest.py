"""Everything here runs with a real Spark, one session for all: its start takes ten seconds."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

import headrace
from headrace.spark.spark_session import session


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "tests/spark/" in item.path.as_posix():
            item.add_marker(pytest.mark.spark)


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    # A worker that starts on a machine with other work may need longer than Spark's 15 seconds to call back.
    made = session("tests", "local[2,4]", conf={"spark.python.authenticate.socketTimeout": "2m"})
    try:
        yield made
    finally:
        made.stop()


@pytest.fixture(scope="session")
def broker() -> Iterator[headrace.Broker]:
    """Shared: topics need names of their own, which `headrace_topic` or the test's name give."""
    with headrace.Broker() as made:
        yield made
