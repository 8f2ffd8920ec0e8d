"""Brokers for clients that nobody here wrote.

What a client does is asserted against Headrace and, word for word, against Apache Kafka: an expectation that the real
one does not meet is a mistake of the test.
"""

import gc
import logging
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.both_brokers import ready
from tests.support.broker_process import BrokerProcess
from tests.support.clients_java import BOOTSTRAP, Both, JavaTools
from tests.support.clients_kcat import Kcat, find_kcat, missing_kcat
from tests.support.kafka import SETTINGS, ApacheKafka
from tests.support.kafka_tools import KafkaTools
from tests.support.missing import say_missing

# As most people run a broker of one node: no authorizer. Everything else is the default of each.
_WITHOUT_AUTHORIZER = {"authorizer.class.name": "", "super.users": ""}
# Heartbeats are frequent, a member that is gone may be missed soon, and a transaction ends when its time is up.
_QUICK = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "100",
    "group.consumer.heartbeat.interval.ms": "100",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.assignment.interval.ms": "0",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "100",
}
# Of what Apache Kafka is told in its file, what shows in the configs of topics.
_STATIC = {name: SETTINGS[name] for name in ("log.retention.ms", "log.index.size.max.bytes")}


@pytest.fixture(scope="session")
def apache_kafka(kafka_tools: KafkaTools, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheKafka]:
    """One Apache Kafka for all clients, since it takes its time to start; topics have names of their own."""
    settings = _WITHOUT_AUTHORIZER | _QUICK
    with ApacheKafka(tmp_path_factory.mktemp("apache-kafka"), kafka_tools, settings=settings) as kafka:
        yield kafka


@contextmanager
def running(directory: Path, configs: Mapping[str, str] | None = None) -> Iterator[BrokerProcess]:
    """A Headrace that ends well when the tests are over, and has nothing to complain of."""
    with BrokerProcess(directory, configs=configs) as broker:
        yield broker
        assert broker.stop() == 0, broker.log_text()
        broker.check_log()


@pytest.fixture(scope="module")
def headrace(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A Headrace for the tests of one file."""
    with running(tmp_path_factory.mktemp("headrace"), _QUICK) as broker:
        yield broker


@pytest.fixture(
    scope="module",
    params=[pytest.param("headrace", marks=pytest.mark.slow), pytest.param("apache_kafka", marks=pytest.mark.kafka)],
)
def address(request: pytest.FixtureRequest) -> str:
    """host:port of Headrace, then of Apache Kafka."""
    broker: BrokerProcess | ApacheKafka = request.getfixturevalue(request.param)
    return broker.bootstrap if isinstance(broker, BrokerProcess) else broker.address


@pytest.fixture(scope="session")
def java_tools(kafka_tools: KafkaTools) -> Iterator[JavaTools]:
    """A JVM that runs Apache Kafka's command-line tools."""
    with JavaTools(kafka_tools) as tools:
        yield tools


@pytest.fixture(scope="module")
def both(java_tools: JavaTools, apache_kafka: ApacheKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    """Apache Kafka's tools, its broker, and a Headrace that was told the same in its file."""
    with running(tmp_path_factory.mktemp("headrace"), _STATIC | _QUICK) as ours:
        yield Both(java_tools, apache_kafka, ours)


@pytest.fixture
def made(both: Both, topic: str) -> str:
    """A topic with three partitions in both brokers, made by a tool."""
    said = both.run("TopicCommand", *BOOTSTRAP, "--create", "--topic", topic, "--partitions", "3")
    assert said == f"Created topic {topic}.\n"
    ready(both.kafka.address, topic, 3)
    return topic


@pytest.fixture(scope="session")
def kcat() -> Kcat:
    """kcat, fetched from Debian's packages on first use if it is not installed."""
    if (missing := missing_kcat()) is not None:
        say_missing(missing)
    return find_kcat()


@pytest.fixture
def topic() -> str:
    """A name that no other test uses; nobody has created it."""
    return f"topic-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def forgotten_sockets(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """kafka-python does not close sockets that did not connect: let them be found here, and not in another test."""
    caplog.set_level(logging.CRITICAL, "kafka")  # what is logged with a traceback keeps its sockets
    yield
    gc.collect()
