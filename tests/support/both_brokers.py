"""The same test against a Headrace broker and against Apache Kafka: fixtures that tests/conftest.py hands on.

Both run for the whole session, Apache Kafka for that of all workers, so tests share them: each takes topic and group
names of its own from `unique`. A test that looks at all there is, or changes what all have, takes `own_bootstrap`.
"""

import itertools
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

import headrace
from tests.support.kafka import ApacheKafka
from tests.support.kafka_shared import shared_kafka
from tests.support.kafka_tools import KafkaTools

EVENTUALLY_SECONDS: Final = 120.0  # so long the machine may be busy; what needs it is broken
# Members hear of a rebalance with their next heartbeat, which would be five seconds away.
_OFTEN: Final = {"group.consumer.min.heartbeat.interval.ms": "100", "group.consumer.heartbeat.interval.ms": "100"}
_numbers = itertools.count()


def unique(word: str) -> str:
    """A name that no other test of this session has."""
    return f"{word}-{os.getpid()}-{next(_numbers)}"


def eventually(condition: Callable[[], bool]) -> None:
    """Wait until it holds. A broker of Apache Kafka learns what its controller decided a moment later.

    A KafkaError counts as not yet: what was created may not be there for a moment.
    """
    deadline = time.monotonic() + EVENTUALLY_SECONDS
    while True:
        try:
            if condition():
                return
        except headrace.KafkaError:
            if time.monotonic() > deadline:
                raise
        assert time.monotonic() < deadline, f"it did not happen within {EVENTUALLY_SECONDS} s"
        time.sleep(0.01)  # the condition is polled, with a deadline


def ready(bootstrap: str, topic: str, partitions: int) -> None:
    """Wait until the leader of each partition serves it.

    Apache Kafka answers that a topic is created when its controller has written so, and its broker makes one partition
    after the other from then on. What is sent to those that are missing is refused and sent again, which changes the
    order of a producer that is not idempotent; and no log directory shows them.
    """
    wanted = {headrace.TopicPartition(topic, number): "latest" for number in range(partitions)}
    with headrace.Admin(bootstrap) as admin:
        eventually(lambda: len(admin.list_offsets(wanted)) == partitions)


@pytest.fixture(scope="session")
def headrace_bootstrap() -> Iterator[str]:
    """A Headrace broker, in this process."""
    often: dict[str, Any] = {name.replace(".", "_"): value for name, value in _OFTEN.items()}
    with headrace.Broker(num_partitions=1, log_retention_ms=-1, **often) as broker:  # as the Kafka of tests
        yield broker.address


@pytest.fixture(scope="session")
def kafka_bootstrap(kafka_tools: KafkaTools, tmp_path_factory: pytest.TempPathFactory) -> str:
    """An Apache Kafka broker, the same for all workers. For tests that are marked `kafka`."""
    return shared_kafka(tmp_path_factory, kafka_tools, _OFTEN)


@pytest.fixture(params=["headrace", pytest.param("kafka", marks=pytest.mark.kafka)])
def bootstrap(request: pytest.FixtureRequest) -> str:
    """The address of either broker; a test that asks for it runs once against each."""
    address: str = request.getfixturevalue(f"{request.param}_bootstrap")
    return address


@pytest.fixture(params=["headrace", pytest.param("kafka", marks=pytest.mark.kafka)])
def own_bootstrap(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The address of either broker, which nobody else uses."""
    if request.param == "headrace":
        with headrace.Broker(num_partitions=1) as broker:
            yield broker.address
    else:
        with ApacheKafka(tmp_path, request.getfixturevalue("kafka_tools")) as kafka:
            yield kafka.address
