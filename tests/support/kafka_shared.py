"""One Apache Kafka for all workers of a run: the first that wants it starts it, and the others use it as it is.

It is a JVM that takes eight seconds of CPU time to come up. The process of a worker stays until all workers have done
their tests, and what it has started goes with it.
"""

import fcntl
import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.support.kafka import ApacheKafka
from tests.support.kafka_tools import KafkaTools


def shared_kafka(factory: pytest.TempPathFactory, tools: KafkaTools, settings: Mapping[str, str]) -> str:
    """Its address. It is killed when the process ends that has started it."""
    directory = shared_directory(factory) / "kafka"
    directory.mkdir(exist_ok=True)
    told = directory / "address"
    with (directory / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not told.exists():
            kafka = ApacheKafka(directory, tools, settings=settings)
            kafka.start()
            told.write_text(kafka.address)
    return told.read_text()


def shared_directory(factory: pytest.TempPathFactory) -> Path:
    """A directory that all workers of this run have."""
    is_worker = "PYTEST_XDIST_WORKER" in os.environ
    return factory.getbasetemp().parent if is_worker else factory.getbasetemp()
