"""Fixtures that many tests share. Those which run Apache Kafka are made once per session: a JVM costs a second."""

import gc
import signal

import pytest
from hypothesis import HealthCheck, settings

from tests.support.both_brokers import bootstrap, headrace_bootstrap, kafka_bootstrap, own_bootstrap
from tests.support.kafka_archive import with_archive
from tests.support.kafka_run import KafkaRun, shared_run
from tests.support.kafka_tools import KafkaTools, fetch_jars, missing_tool
from tests.support.missing import IN_CI

__all__ = ["bootstrap", "headrace_bootstrap", "kafka_bootstrap", "own_bootstrap"]

# How fast examples come says something about the machine, which others use, too, and nothing about the code.
settings.register_profile("headrace", deadline=None, suppress_health_check=[HealthCheck.too_slow])
# CI judges a change, and not its luck: there the same examples are tried each time. Everywhere else they are new ones.
settings.register_profile("ci", settings.get_profile("headrace"), derandomize=True)
settings.load_profile("ci" if IN_CI else "headrace")

# A run in the background of a shell, or under nohup, ignores these; programs that tests start would inherit that, and
# not hear what tests tell them.
for ignored in (signal.SIGINT, signal.SIGHUP):
    if signal.getsignal(ignored) is signal.SIG_IGN:
        signal.signal(ignored, signal.default_int_handler if ignored is signal.SIGINT else signal.SIG_DFL)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Without java or mvn the tests that need them cannot say anything; the summary then names what is missing."""
    judged = [item for item in items if item.get_closest_marker("kafka")]
    if judged and (missing := missing_tool()):
        if IN_CI:
            raise pytest.UsageError(f"in CI nothing may be missing, and Apache Kafka cannot run here: {missing}")
        for item in judged:
            item.add_marker(pytest.mark.skip(reason=f"Apache Kafka cannot run here: {missing}"))


def pytest_collection_finish() -> None:
    """What has been imported and collected stays until the end, and garbage is looked for among the rest only."""
    gc.freeze()


@pytest.fixture(scope="session")
def kafka_tools() -> KafkaTools:
    """Apache Kafka's own tools, fetched by Maven on first use; all that it takes to start them quickly is kept."""
    return with_archive(KafkaTools(fetch_jars()))


@pytest.fixture(scope="session")
def kafka_run(kafka_tools: KafkaTools, tmp_path_factory: pytest.TempPathFactory) -> KafkaRun:
    """A finished run of Apache Kafka: its data directories, and what it promised. One for all workers."""
    return shared_run(tmp_path_factory, kafka_tools)
