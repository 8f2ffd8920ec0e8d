"""Groups, offsets and transactions: Headrace beside Apache Kafka on this machine, in one run.

    python -m benchmarks groups             about five minutes
    python -m benchmarks groups --quick     the same with less of everything, within a minute

Without Java the figures of Headrace stand alone, and goals that are ratios are left open.
"""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks.beside_kafka import contest as contests
from benchmarks.beside_kafka import rebalances, throughput, transactions
from benchmarks.beside_kafka.competitors import competitors, scratch_directory
from benchmarks.beside_kafka.contest import Contest
from benchmarks.beside_kafka.footprint import MakeNode
from benchmarks.beside_kafka.groups import await_coordinator, await_groups, commit_offsets
from benchmarks.beside_kafka.topics import create_topic
from benchmarks.beside_kafka.workload import Workload
from benchmarks.figures import Figure

COMMIT_GOAL: Final = 3.0
GROUPS: Final = 10_000  # that the goals are for
OFFSETS: Final = 3  # partitions that each of them has an offset for
MEMORY_GOAL_MB: Final = 60
LOAD_GOAL_SECONDS: Final = 2.0
SETTINGS: Final = {"group.initial.rebalance.delay.ms": "0", **transactions.SETTINGS}


@dataclass(frozen=True, slots=True)
class Effort:
    """How long it is measured."""

    contest: contests.Effort
    joins: int  # per round
    groups: int
    starts: int


FULL: Final = Effort(contests.FULL, joins=25, groups=GROUPS, starts=3)
QUICK: Final = Effort(contests.QUICK, joins=5, groups=1_000, starts=1)


def run() -> list[Figure]:
    return measure(FULL, list(competitors(SETTINGS)))


def run_quick() -> list[Figure]:
    return measure(QUICK, list(competitors(SETTINGS)))


def measure(effort: Effort, make_nodes: Sequence[MakeNode]) -> list[Figure]:
    """Headrace first; without Apache Kafka there is one node."""
    with scratch_directory() as directory:
        with ExitStack() as stack:
            nodes = [stack.enter_context(make(directory / f"broker-{place}")) for place, make in enumerate(make_nodes)]
            for node in nodes:
                await_coordinator(node)
            contest = Contest(nodes, effort.contest)
            figures = [
                _commits(contest),
                transactions.beside_tuned(contest),
                *_beside_default(contest, directory),
                *rebalances.second_joins(contest, effort.joins),
            ]
        return [*figures, *_crowd(make_nodes[0], directory / "crowd", effort)]


def _beside_default(contest: Contest, directory: Path) -> list[Figure]:
    """Transactions beside an Apache Kafka that nobody has tuned, and which is there for this figure only."""
    if len(contest.nodes) == 1:
        return []
    _, make_kafka = competitors()
    with make_kafka(directory / "kafka-as-it-comes") as kafka:
        await_coordinator(kafka)
        return [transactions.beside_default(Contest([contest.nodes[0], kafka], contest.effort))]


def _commits(contest: Contest) -> Figure:
    workload = Workload("commit", batch_bytes=0, connections=16, in_flight=5)
    ours, kafkas = throughput.by_time(contest, "commits", workload)
    return Figure.beside(
        "OffsetCommit, 16 connections x 5",
        "requests/s",
        [turn.load.per_second for turn in ours],
        [turn.load.per_second for turn in kafkas],
        goal=COMMIT_GOAL,
        note=throughput.note_of(ours, kafkas, workload),
    )


def _crowd(make_node: MakeNode, directory: Path, effort: Effort) -> list[Figure]:
    """Many groups in one broker. Only Headrace: its memory is compared with itself, and a JVM has its heap anyway."""
    node = make_node(directory)
    try:
        node.start()
        await_coordinator(node)
        create_topic(node, "crowded", OFFSETS)
        empty_bytes = node.memory_bytes()
        commit_offsets(node, "crowded", groups=effort.groups, partitions=OFFSETS)
        filled_bytes = node.memory_bytes()
        seconds = []
        for _ in range(effort.starts):
            node.stop()
            seconds.append(node.start() + await_groups(node, effort.groups))
        loaded_bytes = node.memory_bytes()
    finally:
        node.kill()
    is_full = effort.groups >= GROUPS
    name = f"{effort.groups:,} groups with {OFFSETS} offsets each"
    more_bytes = max(filled_bytes, loaded_bytes) - empty_bytes  # of the one that made them, and of the one that loads
    return [
        Figure(f"{name}: memory", more_bytes / 1e6, "MB", MEMORY_GOAL_MB if is_full else None),
        # The best of several, since noise only ever adds.
        Figure(f"{name}: start until loaded", min(seconds), "s", LOAD_GOAL_SECONDS if is_full else None),
    ]
