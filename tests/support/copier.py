"""A process that copies a topic in transactions, until it is killed.

    python -m tests.support.copier BOOTSTRAP NAME CONFIGS     the name is its transactional id; configs of the consumer

It consumes, produces and commits what it has consumed in one transaction. Now and then it changes its mind and aborts.
After an error it begins anew, as a program that is started again.
"""

import json
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Any, Final
from uuid import uuid4

import headrace
from tests.support.copies import Copy

SOURCE: Final = "source"
TARGET: Final = "target"
GROUP: Final = "copiers"
MOST_RECORDS: Final = 20  # of a transaction
ABORTS: Final = 0.2  # of all transactions


class CopierProcess:
    """Start, `kill`, start again."""

    def __init__(self, bootstrap: str, name: str, configs: dict[str, Any], log: Path) -> None:
        self._arguments = bootstrap, name, json.dumps(configs)
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        assert self._process is None, "it is running"
        with self._log.open("a") as log:
            self._process = subprocess.Popen([sys.executable, "-m", __name__, *self._arguments], stderr=log)

    def kill(self) -> None:
        """At any instruction, without a last word."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


class ChangedMindError(Exception):
    pass


def main() -> None:
    bootstrap, name, configs = sys.argv[1:]
    while True:
        try:
            copy_on(bootstrap, name, json.loads(configs))
        except headrace.KafkaError as error:
            print(type(error).__name__, error, file=sys.stderr, flush=True)


def copy_on(bootstrap: str, name: str, configs: dict[str, Any]) -> None:
    random = Random()
    with (
        headrace.Producer(bootstrap, transactional_id=name, transaction_timeout_ms=10_000) as producer,
        headrace.Consumer(
            bootstrap, group=GROUP, topics=[SOURCE], enable_auto_commit=False, auto_offset_reset="earliest", **configs
        ) as consumer,
    ):
        while True:
            records = consumer.poll(1.0, max_records=random.randrange(1, MOST_RECORDS))
            if records:
                copy(records, consumer, producer, aborts=random.random() < ABORTS)


def copy(
    records: list[headrace.ConsumerRecord], consumer: headrace.Consumer, producer: headrace.Producer, *, aborts: bool
) -> None:
    transaction = uuid4().hex
    try:
        with producer.transaction():
            for record in records:
                value = Copy(record.offset, transaction, len(records), aborts).encode()
                producer.send(TARGET, value, partition=record.partition)
            producer.send_offsets(
                {headrace.TopicPartition(each.topic, each.partition): each.offset + 1 for each in records},
                consumer.group_member,
            )
            if aborts:
                producer.flush()
                raise ChangedMindError
    except ChangedMindError:
        for each in reversed(records):  # of each partition the first one is the last that counts
            consumer.seek(headrace.TopicPartition(each.topic, each.partition), each.offset)


if __name__ == "__main__":
    main()
