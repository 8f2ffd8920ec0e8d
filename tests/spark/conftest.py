"""Everything here runs with a real Spark, one session for all: its start takes ten seconds."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import headrace
from headrace.spark.spark_session import session
from tests.support.spark_queries import LineFiles
from tests.support.spark_settings import QUICK_START


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "tests/spark/" in item.path.as_posix():
            item.add_marker(pytest.mark.spark)


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    made = session("tests", "local[2,4]", conf=QUICK_START)
    try:
        yield made
    finally:
        made.stop()


@pytest.fixture(scope="session")
def broker() -> Iterator[headrace.Broker]:
    """Shared: topics need names of their own, which `headrace_topic` or the test's name give."""
    with headrace.Broker() as made:
        yield made


@pytest.fixture
def files(tmp_path: Path) -> LineFiles:
    """The numbers from 0 to 29, as three micro-batches of ten."""
    made = LineFiles(tmp_path / "in")
    for start in range(0, 30, 10):
        made.write(map(str, range(start, start + 10)))
    return made
