"""The same test against a Headrace broker and against Apache Kafka: fixtures that tests/conftest.py hands on.

Both run for the whole session, so tests share them: each takes topic and group names of its own from `unique`.
"""

import itertools
import os
from collections.abc import Iterator

import pytest

import headrace
from tests.support.kafka import ApacheKafka
from tests.support.kafka_tools import KafkaTools

_numbers = itertools.count()


def unique(word: str) -> str:
    """A name that no other test of this session has."""
    return f"{word}-{os.getpid()}-{next(_numbers)}"


@pytest.fixture(scope="session")
def headrace_bootstrap() -> Iterator[str]:
    """A Headrace broker, in this process."""
    with headrace.Broker(num_partitions=1) as broker:
        yield broker.address


@pytest.fixture(scope="session")
def kafka_bootstrap(kafka_tools: KafkaTools, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """An Apache Kafka broker. For tests that are marked `kafka`."""
    with ApacheKafka(tmp_path_factory.mktemp("kafka"), kafka_tools) as kafka:
        yield kafka.address


@pytest.fixture(params=["headrace", pytest.param("kafka", marks=pytest.mark.kafka)])
def bootstrap(request: pytest.FixtureRequest) -> str:
    """The address of either broker; a test that asks for it runs once against each."""
    address: str = request.getfixturevalue(f"{request.param}_bootstrap")
    return address
