"""Transactions, one after the other, by one producer: ours, since it is the same for both brokers.

    python -m benchmarks.beside_kafka.transactions ADDRESS TOPIC SECONDS     prints how many were committed per second

What it takes is waiting: for the records' acknowledgement, then for the end of the transaction.

Apache Kafka writes the markers after it has answered EndTxn, so the next transaction of the same producer comes too
early; its broker then waits for add.partitions.to.txn.retry.backoff.ms before it looks again. There are two figures:

    as it comes    20 milliseconds, which are nearly all that is measured: what users of both brokers see
    tuned          one millisecond, the least that it takes (`SETTINGS`): four times the transactions, and the goal that
                   is harder to meet. Its JVM needs thousands of them before it is as fast as it gets: a long warm-up
"""

import subprocess
import sys
import time
from pathlib import Path
from typing import Final

from benchmarks.beside_kafka.contest import Contest
from benchmarks.beside_kafka.nodes import Node
from benchmarks.beside_kafka.topics import create_topic, delete_topic
from benchmarks.figures import Figure

RECORDS: Final = 10
GOAL: Final = 1.5
_BACKOFF: Final = "add.partitions.to.txn.retry.backoff.ms"
SETTINGS: Final = {_BACKOFF: "1"}
_TOPIC: Final = "transactions"
_VALUE: Final = bytes(100)
_WARM_UP: Final = 5  # transactions of each round, not counted: connections, and the coordinator's first record
_JVM_WARM_UPS: Final = 4  # so many times longer than for requests that come by the ten thousand
_REPOSITORY: Final = Path(__file__).parents[2]


def beside_tuned(contest: Contest) -> Figure:
    """Apache Kafka was started with `SETTINGS`."""
    return _committed(contest, f"Kafka with {_BACKOFF}=1", warm_ups=_JVM_WARM_UPS)


def beside_default(contest: Contest) -> Figure:
    """Apache Kafka was started as it comes."""
    return _committed(contest, f"Kafka as it comes, with {_BACKOFF}=20", warm_ups=1)


def _committed(contest: Contest, setting: str, *, warm_ups: int) -> Figure:
    effort = contest.effort
    for node in contest.nodes:
        create_topic(node, _TOPIC, 1)
    contest.take_turns(1, lambda node: _run(node, warm_ups * effort.warm_up_seconds if node.needs_warm_up else 1.0))
    ours, kafkas = contest.take_turns(effort.rounds, lambda node: _run(node, effort.seconds))
    for node in contest.nodes:
        delete_topic(node, _TOPIC)
    cpu = " : ".join(f"{min(cost for _, cost in turns):,.0f}" for turns in (ours, kafkas) if turns)
    return Figure.beside(
        f"transactions of {RECORDS} records, one producer; {setting}",
        "committed/s",
        *([rate for rate, _ in turns] for turns in (ours, kafkas)),
        goal=GOAL,
        note=f"broker CPU {cpu} us/transaction",
    )


def _run(node: Node, seconds: float) -> tuple[float, float]:
    """Transactions per second, and the broker's CPU microseconds for each."""
    before = node.cpu_seconds()
    command = [sys.executable, "-m", "benchmarks.beside_kafka.transactions", f"127.0.0.1:{node.port}", _TOPIC]
    done = subprocess.run([*command, str(seconds)], cwd=_REPOSITORY, stdout=subprocess.PIPE, check=True)
    rate = float(done.stdout)
    return rate, (node.cpu_seconds() - before) / (rate * seconds) * 1e6


# In the process of the client


def commit_for(address: str, topic: str, seconds: float) -> float:
    """Transactions that were committed per second."""
    from headrace import Producer

    with Producer(address, transactional_id="benchmark") as producer:

        def commit() -> None:
            with producer.transaction():
                for _ in range(RECORDS):
                    producer.send(topic, _VALUE)

        for _ in range(_WARM_UP):
            commit()
        count = 0
        now = start = time.perf_counter()
        while now - start < seconds:
            commit()
            count += 1
            now = time.perf_counter()
        return count / (now - start)


if __name__ == "__main__":
    print(commit_for(sys.argv[1], sys.argv[2], float(sys.argv[3])))
