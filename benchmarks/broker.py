"""Headrace beside Apache Kafka on this machine, in one run: every figure with both values, their ratio and its goal.

    python -m benchmarks broker             all of it, about ten minutes, and 20 GB of disk for a while
    python -m benchmarks broker --quick     the same with less of everything, within two minutes

Without Java the figures of Headrace stand alone, and goals that are ratios are left open.
"""

import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from benchmarks.beside_kafka import confluent, footprint, latency, throughput
from benchmarks.beside_kafka.contest import FULL, QUICK, Contest, Effort
from benchmarks.beside_kafka.footprint import MakeNode
from benchmarks.beside_kafka.nodes import Headrace, Kafka
from benchmarks.figures import Figure
from tests.support.kafka_tools import REPOSITORY, KafkaTools, fetch_jars, missing_tool

CACHE: Final = REPOSITORY / ".cache"  # on the disk, which a temporary directory is not everywhere


def run() -> list[Figure]:
    return _run(FULL)


def run_quick() -> list[Figure]:
    return _run(QUICK)


def _run(effort: Effort) -> list[Figure]:
    make_nodes = list(_competitors())
    with _directory() as directory:
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
    return figures


def _competitors() -> Iterator[MakeNode]:
    yield Headrace
    missing = missing_tool()
    if missing is None:
        tools = KafkaTools(fetch_jars())
        yield lambda directory: Kafka(directory, tools)
    else:
        print(f"Apache Kafka is not measured: {missing}.", file=sys.stderr)


@contextmanager
def _directory() -> Iterator[Path]:
    CACHE.mkdir(exist_ok=True)
    path = Path(tempfile.mkdtemp(prefix="bench-", dir=CACHE))
    try:
        yield path
    finally:
        shutil.rmtree(path)
