"""The benchmark of the clients runs: every client does its work, and every figure has its goal."""

import pytest

from benchmarks.client import Effort, measure

TINY = Effort(rounds=1, records=300, few_records=100, latencies=20, imports=1)


@pytest.mark.slow
def test_every_client_does_its_work_and_every_figure_has_its_goal() -> None:
    figures = measure(TINY)
    assert [(figure.name, figure.peer_name, figure.goal) for figure in figures if figure.peer is not None] == [
        ("arrow.write", "confluent-kafka", 2.0),
        ("arrow.read", "confluent-kafka", 1.5),
        ("producer, one record at a time", "aiokafka", 4.0),
        ("producer, one record at a time", "kafka-python", 4.0),
        ("producer, one record at a time", "confluent-kafka", 0.35),
        ("consumer, one record at a time", "aiokafka", 4.0),
        ("consumer, one record at a time", "kafka-python", 4.0),
        ("consumer, one record at a time", "confluent-kafka", 0.5),
        ("consumer, one record at a time", "confluent-kafka", None),
        ("end to end at 1,000/s, p50", "confluent-kafka", 1.5),
    ]
    assert figures[-1].name == "import of headrace, with a producer created"
    assert all(figure.value > 0 for figure in figures)
