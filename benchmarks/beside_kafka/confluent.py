"""A client that people use: confluent-kafka, which is librdkafka, with its defaults but for a rest that is shorter.

The work is that of `benchmarks.clients`, in a process of its own. The client is mostly the limit, so what counts beside
its rate is the CPU time that it costs the broker.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Final

from benchmarks.beside_kafka.contest import Contest
from benchmarks.beside_kafka.nodes import Node
from benchmarks.beside_kafka.topics import create_topic, delete_topic, end_offsets
from benchmarks.beside_kafka.workload import WrongAnswerError
from benchmarks.clients import VALUE
from benchmarks.clients.confluent import REST_MS
from benchmarks.figures import Figure

MESSAGE_BYTES: Final = len(VALUE)
CPU_GOAL: Final = 0.5
_TOPIC: Final = "confluent"
_MEMORY_BYTES: Final = 1 << 30  # for the log and for the client's queue, which is longer if the broker is faster
_REPOSITORY: Final = Path(__file__).parents[2]


def real_client(contest: Contest) -> list[Figure]:
    """Each round produces into a new topic and consumes from it."""
    effort = contest.effort
    contest.take_turns(1, lambda node: _round(node, effort.messages) if node.needs_warm_up else None)
    rounds = contest.take_turns(effort.rounds, lambda node: _round(node, effort.messages), memory_bytes=_MEMORY_BYTES)
    figures = []
    rest = f"with fetch.queue.backoff.ms={REST_MS}, by default it rests for a second"
    for what, place, note in (("produce", 0, ""), ("consume", 1, rest)):
        ours, kafkas = ([turn[place] for turn in turns] for turns in rounds)
        name = f"confluent-kafka {what}, {MESSAGE_BYTES} B"
        rates = ([effort.messages / seconds for seconds, _ in turns] for turns in (ours, kafkas))
        figures.append(Figure.beside(name, "messages/s", *rates, goal=1.0, note=note))
        cpu = ([cpu_seconds / effort.messages * 1e6 for _, cpu_seconds in turns] for turns in (ours, kafkas))
        figures.append(Figure.beside(f"{name}: broker CPU", "us/message", *cpu, goal=CPU_GOAL, at_most=True))
    return figures


def _round(node: Node, messages: int) -> tuple[tuple[float, float], tuple[float, float]]:
    """Seconds and CPU seconds of the broker: to produce, and to consume the same."""
    create_topic(node, _TOPIC, 1)
    produced = _run(node, "produce", messages)
    if end_offsets(node, _TOPIC, 1) != [messages]:
        raise WrongAnswerError(f"{messages} messages were produced, and the log ends at {end_offsets(node, _TOPIC, 1)}")
    consumed = _run(node, "consume_with_short_rests", messages)
    delete_topic(node, _TOPIC)
    node.traffic_bytes += 2 * messages * MESSAGE_BYTES
    return produced, consumed


def _run(node: Node, what: str, messages: int) -> tuple[float, float]:
    before = node.cpu_seconds()
    command = [sys.executable, "-m", "benchmarks.clients", "confluent", what, f"127.0.0.1:{node.port}", _TOPIC]
    done = subprocess.run([*command, str(messages)], cwd=_REPOSITORY, stdout=subprocess.PIPE, check=True)
    seconds, _ = json.loads(done.stdout)
    return seconds, node.cpu_seconds() - before
