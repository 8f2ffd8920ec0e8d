"""Headrace beside Apache Kafka on this machine, in one run: every figure with both values, their ratio and its goal.

    python -m benchmarks broker             all of it, about a quarter of an hour, and 20 GB of disk for a while
    python -m benchmarks broker --quick     the same with less of everything, within two minutes

Without Java the figures of Headrace stand alone, and goals that are ratios are left open.
"""

from contextlib import ExitStack

from benchmarks.beside_kafka import confluent, footprint, latency, throughput
from benchmarks.beside_kafka.competitors import competitors, scratch_directory
from benchmarks.beside_kafka.contest import FULL, QUICK, Contest, Effort
from benchmarks.figures import Figure


def run() -> list[Figure]:
    return _run(FULL)


def run_quick() -> list[Figure]:
    return _run(QUICK)


def _run(effort: Effort) -> list[Figure]:
    make_nodes = list(competitors())
    with scratch_directory() as directory:
        figures = footprint.starts(make_nodes, directory, effort)
        with ExitStack() as stack:
            nodes = [stack.enter_context(make(directory / f"broker-{place}")) for place, make in enumerate(make_nodes)]
            contest = Contest(nodes, effort)
            figures += [
                *footprint.idle(contest),
                throughput.tiny(contest),
                throughput.medium(contest),
                throughput.large(contest),
                throughput.fetch(contest),
                throughput.synced(contest),
                *latency.end_to_end(contest),
                *confluent.real_client(contest),
                footprint.after_traffic(contest),
            ]
        return figures + latency.end_to_end_at_first(make_nodes, directory, effort)
