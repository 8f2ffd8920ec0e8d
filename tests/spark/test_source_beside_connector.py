"""The judge of "the same meaning": Spark's own connector does the same queries, and both give the same."""

import json
import subprocess
import sys
from typing import Any

import pytest

import headrace
from headrace.client.errors import ConfigError
from headrace.spark.source_options import source_options
from headrace.spark.stream_source import StreamSource
from tests.support.both_brokers import unique
from tests.support.kafka_tools import REPOSITORY
from tests.support.spark_beside_connector import streams
from tests.support.spark_source import fill, offsets_in

QUERIES_SECONDS = 900

pytestmark = [
    pytest.mark.slow,
    pytest.mark.kafka,  # Maven fetches the connector
    pytest.mark.timeout(QUERIES_SECONDS),
]


@pytest.fixture(scope="module")
def topic(broker: headrace.Broker) -> str:
    name = unique("beside")
    broker.create_topic(name, partitions=3, retention_ms=-1)  # its records are of 1970
    for partition, count in enumerate((1_000, 70, 3)):
        times = [1_000_000_000 + 1_000 * each for each in range(count)]
        fill(broker.address, name, range(count), partition=partition, timestamps_ms=times)
    return name


@pytest.fixture(scope="module")
def found(broker: headrace.Broker, topic: str, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What both give for all queries."""
    directory = str(tmp_path_factory.mktemp("beside"))
    command = [sys.executable, "-m", "tests.support.spark_beside_connector", broker.address, topic, directory]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=QUERIES_SECONDS, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def test_batches_give_the_same(found: Any) -> None:
    ours, theirs = found["headrace"], found["kafka"]
    assert ours.keys() == theirs.keys()
    differing = {case: (_brief(ours[case]), _brief(theirs[case])) for case in ours if ours[case] != theirs[case]}
    assert not differing
    assert sum(each == "an error" for each in ours.values()) == 8


def test_streams_have_the_same_positions(broker: headrace.Broker, topic: str, found: Any) -> None:
    ours = {case: _positions(broker.address, given) for case, given in streams(topic).items()}
    assert ours == found["streams"]
    assert [len(each) for each in ours.values() if each != "an error"] == [1, 0, 11, 11, 3]


def test_a_query_that_changes_its_format_keeps_its_checkpoint(found: Any) -> None:
    assert found["moved"] == [[0, 1, 2], [10, 11, 12], [20, 21, 22], [30, 31, 32]]


def _positions(address: str, given: dict[str, str]) -> Any:
    """The ends of the micro-batches of a query that ends by itself, as Spark would ask for them."""
    try:
        source = StreamSource(source_options({"kafka.bootstrap.servers": address, "commitOffsets": "false", **given}))
    except ConfigError:
        return "an error"
    try:
        position = source.initialOffset()
        source.prepareForTriggerAvailableNow()
        ends = []
        while (end := source.latestOffset(position, source.getDefaultReadLimit())) != position:
            ends.append(offsets_in(end))
            position = end
        return ends
    finally:
        source.stop()


def _brief(result: Any) -> Any:
    return {**result, "rows": len(result["rows"])} if isinstance(result, dict) else result
