"""From the producer's send to the consumer's receive: one record every millisecond, one consumer that waits for it.

The client (`tail_client`) is the same for both brokers, and its own work is part of what is measured: the note says how
long a record takes through a server that does nothing (`tail_sink`).
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import quantiles
from typing import Final

from benchmarks.beside_kafka.contest import Contest, Effort
from benchmarks.beside_kafka.footprint import MakeNode
from benchmarks.beside_kafka.nodes import Node
from benchmarks.beside_kafka.tail_client import INTERVAL_SECONDS
from benchmarks.beside_kafka.tail_sink import client_alone, run_client
from benchmarks.beside_kafka.topics import create_topic, delete_topic
from benchmarks.beside_kafka.workload import Workload
from benchmarks.figures import Figure

ALONE_SECONDS: Final = 2.0
_RECORDS: Final = Workload("produce", batch_bytes=200, connections=1, in_flight=1, topic="latency", topic_id="00" * 16)


def end_to_end(contest: Contest) -> list[Figure]:
    """The median of the rounds' medians, and of their 99th percentiles."""
    effort = contest.effort
    contest.take_turns(1, lambda node: _measure(node, effort.warm_up_seconds if node.needs_warm_up else 1.0))
    rounds = contest.take_turns(effort.rounds, lambda node: _measure(node, effort.seconds))
    alone = client_alone(replace(_RECORDS, seconds=ALONE_SECONDS))
    name = f"end to end at {1 / INTERVAL_SECONDS:,.0f}/s"
    notes = {each: f"through a server that does nothing {_percentile(alone, each):,.0f} us" for each in (50, 99)}
    return [_figure(name, percent, rounds, goal=goal, note=notes[percent]) for percent, goal in ((50, 0.5), (99, 0.2))]


def end_to_end_at_first(make_nodes: Sequence[MakeNode], directory: Path, effort: Effort) -> list[Figure]:
    """The same of brokers that have just started, as tests and people at their desks meet them: for information."""
    found: list[list[list[float]]] = [[], []]
    for number in range(effort.starts):
        for place, make in enumerate(make_nodes):
            with make(directory / f"new-{place}-{number}") as node, node.explaining():
                found[place].append(_measure(node, effort.seconds))
    return [_figure(f"the same in the first {effort.seconds:.0f} s of a broker", each, found) for each in (50, 99)]


def _figure(
    name: str, percent: int, rounds: list[list[list[float]]], *, goal: float | None = None, note: str = ""
) -> Figure:
    """This percentile of each of the rounds of both."""
    ours, kafkas = ([_percentile(found, percent) for found in turns] for turns in rounds)
    return Figure.beside(f"{name}, p{percent}", "us", ours, kafkas, goal=goal, at_most=True, note=note)


def _percentile(latencies: list[float], percent: int) -> float:
    return quantiles(latencies, n=100)[percent - 1]


def _measure(node: Node, seconds: float) -> list[float]:
    """Latencies in microseconds."""
    topic_id = create_topic(node, _RECORDS.topic, 1)
    found = run_client(replace(_RECORDS, port=node.port, topic_id=topic_id, seconds=seconds))
    delete_topic(node, _RECORDS.topic)
    return found
