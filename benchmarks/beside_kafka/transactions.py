"""Transactions, one after the other, by one producer: ours, since it is the same for both brokers.

    python -m benchmarks.beside_kafka.transactions ADDRESS TOPIC SECONDS     prints how many were committed per second

What it takes is waiting: for the records' acknowledgement, then for the end of the transaction.

Apache Kafka writes the markers after it has answered EndTxn, so the next transaction of the same producer comes too
early; its broker then waits for add.partitions.to.txn.retry.backoff.ms, 20 by default, before it looks again, and that
is nearly all that would be measured. So it is told to wait for one millisecond, the least it takes (`SETTINGS`): four
times the transactions. And its JVM needs thousands of them before it is as fast as it gets: a long warm-up.
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
SETTINGS: Final = {"add.partitions.to.txn.retry.backoff.ms": "1"}
_TOPIC: Final = "transactions"
_VALUE: Final = bytes(100)
_WARM_UP: Final = 5  # transactions of each round, not counted: connections, and the coordinator's first record
_JVM_WARM_UPS: Final = 4  # so many times longer than for requests that come by the ten thousand
_REPOSITORY: Final = Path(__file__).parents[2]


def committed(contest: Contest) -> Figure:
    effort = contest.effort
    for node in contest.nodes:
        create_topic(node, _TOPIC, 1)
    contest.take_turns(
        1, lambda node: _run(node, _JVM_WARM_UPS * effort.warm_up_seconds if node.needs_warm_up else 1.0)
    )
    ours, kafkas = contest.take_turns(effort.rounds, lambda node: _run(node, effort.seconds))
    for node in contest.nodes:
        delete_topic(node, _TOPIC)
    cpu = " : ".join(f"{min(cost for _, cost in turns):,.0f}" for turns in (ours, kafkas) if turns)
    return Figure.beside(
        f"transactions of {RECORDS} records, one producer",
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
