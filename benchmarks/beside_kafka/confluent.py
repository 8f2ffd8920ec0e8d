"""A client that people use: confluent-kafka, which is librdkafka, with its defaults but for the length of a queue.

    python -m benchmarks.beside_kafka.confluent produce|consume ADDRESS TOPIC MESSAGES      prints the seconds it took

The client is mostly the limit, so what counts beside its rate is the CPU time that it costs the broker.
"""

import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Final

from benchmarks.beside_kafka.contest import Contest
from benchmarks.beside_kafka.nodes import Node
from benchmarks.beside_kafka.topics import create_topic, delete_topic, end_offsets
from benchmarks.beside_kafka.workload import WrongAnswerError
from benchmarks.figures import Figure

MESSAGE_BYTES: Final = 100
CPU_GOAL: Final = 0.5
_TOPIC: Final = "confluent"
_REPOSITORY: Final = Path(__file__).parents[2]
_SILENCE_SECONDS: Final = 60.0


def real_client(contest: Contest) -> list[Figure]:
    """Each round produces into a new topic and consumes from it."""
    effort = contest.effort
    contest.take_turns(1, lambda node: _round(node, effort.messages) if node.needs_warm_up else None)
    rounds = contest.take_turns(effort.rounds, lambda node: _round(node, effort.messages))
    figures = []
    for what, place in (("produce", 0), ("consume", 1)):
        ours, kafkas = ([turn[place] for turn in turns] for turns in rounds)
        name = f"confluent-kafka {what}, {MESSAGE_BYTES} B"
        rates = ([effort.messages / seconds for seconds, _ in turns] for turns in (ours, kafkas))
        figures.append(Figure.beside(name, "messages/s", *rates, goal=1.0))
        cpu = ([cpu_seconds / effort.messages * 1e6 for _, cpu_seconds in turns] for turns in (ours, kafkas))
        figures.append(Figure.beside(f"{name}: broker CPU", "us/message", *cpu, goal=CPU_GOAL, at_most=True))
    return figures


def _round(node: Node, messages: int) -> tuple[tuple[float, float], tuple[float, float]]:
    """Seconds and CPU seconds of the broker: to produce, and to consume the same."""
    create_topic(node, _TOPIC, 1)
    produced = _run(node, "produce", messages)
    if end_offsets(node, _TOPIC, 1) != [messages]:
        raise WrongAnswerError(f"{messages} messages were produced, and the log ends at {end_offsets(node, _TOPIC, 1)}")
    consumed = _run(node, "consume", messages)
    delete_topic(node, _TOPIC)
    node.traffic_bytes += 2 * messages * MESSAGE_BYTES
    return produced, consumed


def _run(node: Node, what: str, messages: int) -> tuple[float, float]:
    before = node.cpu_seconds()
    command = [sys.executable, "-m", "benchmarks.beside_kafka.confluent", what, f"127.0.0.1:{node.port}", _TOPIC]
    done = subprocess.run([*command, str(messages)], cwd=_REPOSITORY, stdout=subprocess.PIPE, check=True)
    return float(done.stdout), node.cpu_seconds() - before


# In the process of the client


def _produce(address: str, topic: str, messages: int) -> float:
    from confluent_kafka import Producer

    failures: list[Any] = []
    producer = Producer(
        {
            "bootstrap.servers": address,
            "delivery.report.only.error": True,
            "on_delivery": lambda error, _: failures.append(error),
        }
    )
    producer.list_topics(topic)
    value = bytes(MESSAGE_BYTES)
    start = time.perf_counter()
    for _ in range(messages):
        while True:
            try:
                producer.produce(topic, value)
                break
            except BufferError:  # the client's queue is full: the broker is behind
                producer.poll(0.01)
    left = producer.flush(_SILENCE_SECONDS)
    seconds = time.perf_counter() - start
    if left or failures:
        raise WrongAnswerError(f"{left} messages were not acknowledged, and {len(failures)} failed: {failures[:3]}")
    return seconds


def _consume(address: str, topic: str, messages: int) -> float:
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": "benchmark",
            "enable.auto.commit": False,
            # By default it rests for a second whenever 100,000 messages are queued: then nobody's speed is measured.
            "queued.min.messages": 10_000_000,
            "queued.max.messages.kbytes": 2_000_000,
        }
    )
    consumer.list_topics(topic)
    start = time.perf_counter()
    consumer.assign([TopicPartition(topic, 0, 0)])
    count = 0
    while count < messages:
        found = consumer.consume(10_000, timeout=_SILENCE_SECONDS)
        for message in found:
            if message.error() is not None:
                raise WrongAnswerError(str(message.error()))
        if not found:
            raise WrongAnswerError(f"{count} of {messages} messages came within {_SILENCE_SECONDS:.0f} s")
        count += len(found)
    seconds = time.perf_counter() - start
    consumer.close()
    return seconds


if __name__ == "__main__":
    work = {"produce": _produce, "consume": _consume}[sys.argv[1]]
    print(work(sys.argv[2], sys.argv[3], int(sys.argv[4])))
