"""How much goes through: produce and fetch with prebuilt requests, over a few connections, as fast as the broker can.

Each connection has a partition of its own, which is what suits Apache Kafka best: its threads then share no lock.
"""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from benchmarks.beside_kafka.contest import Contest
from benchmarks.beside_kafka.load import Load, run_load
from benchmarks.beside_kafka.nodes import Node
from benchmarks.beside_kafka.sink import generator_alone
from benchmarks.beside_kafka.topics import create_topic, delete_topic
from benchmarks.beside_kafka.workload import Workload
from benchmarks.figures import Figure
from benchmarks.machine import Disturbance, Moment

KB: Final = 1 << 10
MB: Final = 1 << 20
GB: Final = 1 << 30
SINK_SECONDS: Final = 1.0
BUSY: Final = 0.9  # of a core: the generator may be what is measured
HEADROOM: Final = 1.1  # what the generator must reach alone, as a multiple of what it measures
FETCHED_BATCHES: Final = 128  # per partition: they stay in the page cache
SPARE_BYTES: Final = 4 << 30  # of disk, that nobody here may fill


@dataclass(frozen=True, slots=True)
class Turn:
    """A round of one broker: what the generator saw, and the CPU time that it cost the broker."""

    load: Load
    broker_cpu_seconds: float
    disturbance: Disturbance

    @property
    def cpu_us(self) -> float:
        """Of the broker, per request."""
        return self.broker_cpu_seconds / max(self.load.requests, 1) * 1e6


def tiny(contest: Contest) -> Figure:
    workload = Workload("produce", batch_bytes=200, connections=16, in_flight=5)
    ours, kafkas = by_time(contest, "tiny", workload, memory_bytes=GB)
    return Figure.beside(
        "produce 200 B, 16 connections x 5",
        "requests/s",
        [turn.load.per_second for turn in ours],
        [turn.load.per_second for turn in kafkas],
        goal=5.0,
        note=note_of(ours, kafkas, workload),
    )


def medium(contest: Contest) -> Figure:
    workload = Workload("produce", batch_bytes=16 * KB, connections=16, in_flight=5)
    ours, kafkas = by_time(contest, "medium", workload, memory_bytes=4 * GB)
    return _megabytes("produce 16 KB, 16 connections x 5", ours, kafkas, workload, goal=1.4)


def large(contest: Contest) -> Figure:
    """Sustained, all retained: each round writes everything into a new topic, which is then deleted."""
    effort = contest.effort
    _check_room(contest, effort.sustained_bytes)
    workload = Workload("produce", batch_bytes=MB, connections=8, in_flight=2)

    def write(node: Node, size_bytes: int) -> Turn:
        topic_id = create_topic(node, "large", workload.connections)
        requests = size_bytes // MB // workload.connections
        turn = _turn(node, replace(workload, topic="large", topic_id=topic_id, requests=requests))
        delete_topic(node, "large")
        return turn

    contest.take_turns(1, lambda node: write(node, effort.sustained_bytes // 8))
    ours, kafkas = contest.take_turns(
        effort.sustained_rounds,
        lambda node: write(node, effort.sustained_bytes),
        memory_bytes=effort.sustained_bytes + GB,
    )
    name = f"produce 1 MB, 8 connections x 2, {effort.sustained_bytes >> 30} GB retained"
    return _megabytes(name, ours, kafkas, workload, goal=2.0)


def fetch(contest: Contest) -> Figure:
    workload = Workload("fetch", batch_bytes=MB, connections=4, in_flight=1, batches=FETCHED_BATCHES)
    filling = replace(workload, kind="produce", requests=FETCHED_BATCHES)
    ours, kafkas = by_time(contest, "fetched", workload, filling)
    return _megabytes("fetch 1 MB slices, 4 connections", ours, kafkas, workload, goal=1.0)


def synced(contest: Contest) -> Figure:
    """Every acknowledgement survives a power cut: flush.messages=1 of the topic, which both brokers know."""
    workload = Workload("produce", batch_bytes=200, connections=16, in_flight=5)
    ours, kafkas = by_time(contest, "synced", workload, configs={"flush.messages": "1"})
    return Figure.beside(
        "produce 200 B, synced before each ack, 16 x 5",
        "acks/s",
        [turn.load.per_second for turn in ours],
        [turn.load.per_second for turn in kafkas],
        goal=8000,
        is_ratio_goal=False,
        note=note_of(ours, kafkas, workload),
    )


def by_time(
    contest: Contest,
    topic: str,
    workload: Workload,
    filling: Workload | None = None,
    configs: dict[str, str] | None = None,
    memory_bytes: int = 0,
) -> list[list[Turn]]:
    """Warm up, then rounds of the same length, all into one topic."""
    effort = contest.effort
    topic_ids = {}
    for node in contest.nodes:
        topic_ids[node] = create_topic(node, topic, workload.connections, configs)
        if filling is not None:
            run_load(replace(filling, port=node.port, topic=topic, topic_id=topic_ids[node]))

    def load(node: Node, seconds: float) -> Turn:
        return _turn(node, replace(workload, topic=topic, topic_id=topic_ids[node], seconds=seconds))

    contest.take_turns(1, lambda node: load(node, effort.warm_up_seconds if node.needs_warm_up else 1.0))
    turns = contest.take_turns(effort.rounds, lambda node: load(node, effort.seconds), memory_bytes=memory_bytes)
    for node in contest.nodes:
        delete_topic(node, topic)
    return turns


def _turn(node: Node, workload: Workload) -> Turn:
    before, cpu_before = Moment.now(), node.cpu_seconds()
    load = run_load(replace(workload, port=node.port))
    broker_cpu_seconds = node.cpu_seconds() - cpu_before
    node.traffic_bytes += load.requests * workload.batch_bytes
    return Turn(load, broker_cpu_seconds, Disturbance.since(before, measured_cpu_seconds=broker_cpu_seconds))


def _megabytes(name: str, ours: Sequence[Turn], kafkas: Sequence[Turn], workload: Workload, *, goal: float) -> Figure:
    return Figure.beside(
        name,
        "MB/s",
        [turn.load.mb_per_second for turn in ours],
        [turn.load.mb_per_second for turn in kafkas],
        goal=goal,
        note=note_of(ours, kafkas, workload),
    )


def note_of(ours: Sequence[Turn], kafkas: Sequence[Turn], workload: Workload) -> str:
    """CPU time per request, which holds when wall time does not, and whether the generator was fast enough."""
    cpu = " : ".join(f"{min(turn.cpu_us for turn in turns):,.0f}" for turns in (ours, kafkas) if turns)
    turns = [*ours, *kafkas]
    fastest = max(turn.load.per_second for turn in turns)
    busiest = max(turn.load.busy for turn in turns)
    alone = generator_alone(replace(workload, topic="sink", topic_id="00" * 16, seconds=SINK_SECONDS)).per_second
    note = f"broker CPU {cpu} us/request; generator {busiest:.0%} busy, alone {alone:,.0f}/s"
    if busiest > BUSY or alone < fastest * HEADROOM:
        note += ": THE GENERATOR IS THE LIMIT"
    worst = max((turn.disturbance for turn in turns), key=lambda found: found.others + found.stolen)
    return f"{note}; {worst.text}" if worst.text else note


def _check_room(contest: Contest, size_bytes: int) -> None:
    """For what one of them writes; the other's is deleted by then."""
    needed = size_bytes + SPARE_BYTES
    free = shutil.disk_usage(contest.nodes[0].data).free
    if free < needed:
        raise SystemExit(
            f"{free >> 30} GB are free on this disk, and {needed >> 30} GB are needed. Make room, or use --quick."
        )
