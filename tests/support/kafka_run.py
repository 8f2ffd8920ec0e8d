"""One run of Apache Kafka that all tests share: what it acknowledged, what it says, and the directories it left behind.

Round one writes, then the broker is killed (`killed`). Round two starts it again on the same directory, writes
again under the next leader epoch and stops it in order (`clean`). Tests copy a directory before they change it.
"""

import base64
import fcntl
import json
import pickle
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from headrace.protocol.records import Record
from tests.support.kafka import ApacheKafka, copy_data
from tests.support.kafka_shared import shared_directory
from tests.support.kafka_tools import KafkaTools


class ProducerLine(NamedTuple):
    """What DescribeProducers says about one producer of one partition."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int
    transaction_start_offset: int


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """One acknowledged record; `outcome` is plain, committed, aborted or open."""

    topic: str
    partition: int
    round: int
    outcome: str
    record: Record


@dataclass(frozen=True, slots=True)
class Witnessed:
    """What a running Apache Kafka said about all its topics, as JSON lines of tests/support/kafka/Witness.java."""

    lines: Sequence[dict[str, Any]]

    def partitions(self) -> list[tuple[str, int]]:
        return sorted((line["topic"], line["partition"]) for line in self._of("offsets"))

    def offsets(self, topic: str, partition: int) -> dict[str, int]:
        (line,) = self._of("offsets", topic, partition)
        return line

    def producers(self, topic: str, partition: int) -> dict[int, ProducerLine]:
        lines = self._of("producer", topic, partition)
        return {line["producer_id"]: ProducerLine(*(line[name] for name in ProducerLine._fields)) for line in lines}

    def transactions(self) -> dict[str, dict[str, Any]]:
        return {line["transactional_id"]: line for line in self._of("transaction")}

    def records(self, topic: str, partition: int, *, isolation: str) -> list[Record]:
        """The records that a consumer of this isolation level got, in order."""
        return [parse_record(line) for line in self._of("record", topic, partition) if line["isolation"] == isolation]

    def times(self, topic: str, partition: int) -> dict[int, tuple[int, int]]:
        """Time that was asked for -> offset and timestamp of the first record from then on; (-1, -1) for none."""
        return {line["asked"]: (line["offset"], line["timestamp"]) for line in self._of("time", topic, partition)}

    def leader_epochs(self, topic: str, partition: int) -> dict[int, int]:
        """Offset -> leader epoch, as consumers see it."""
        lines = self._of("record", topic, partition)
        return {line["offset"]: line["leader_epoch"] for line in lines if line["isolation"] == "read_uncommitted"}

    def _of(self, kind: str, topic: str | None = None, partition: int | None = None) -> list[dict[str, Any]]:
        return [
            line
            for line in self.lines
            if line["kind"] == kind
            and topic in (None, line.get("topic"))
            and partition in (None, line.get("partition"))
        ]


@dataclass(frozen=True, slots=True)
class KafkaRun:
    """The two data directories, what was acknowledged when each was left, and what Kafka said just before."""

    killed: Path
    clean: Path
    acknowledged: Sequence[Acknowledged]
    before_kill: Witnessed
    before_stop: Witnessed

    def acknowledged_records(self, topic: str, partition: int, *, rounds: int) -> list[Record]:
        """What was acknowledged up to the end of round `rounds`, aborted records included, in order of offset."""
        mine = (each for each in self.acknowledged if (each.topic, each.partition) == (topic, partition))
        return sorted(each.record for each in mine if each.round <= rounds)


def shared_run(factory: pytest.TempPathFactory, tools: KafkaTools) -> KafkaRun:
    """The run of this session: recorded by the first worker that needs it, and read by the others."""
    root = shared_directory(factory)
    kept = root / "apache-kafka-run.pickle"
    with (root / "apache-kafka-run.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not kept.exists():
            kept.write_bytes(pickle.dumps(record_run(root / "apache-kafka-run", tools)))
        run: KafkaRun = pickle.loads(kept.read_bytes())
        return run


def record_run(directory: Path, tools: KafkaTools) -> KafkaRun:
    """Run Apache Kafka through both rounds in `directory`."""
    with ApacheKafka(directory, tools) as kafka:
        first = _write(tools, kafka, "first")
        before_kill = witness(tools, kafka)
        kafka.kill()
        killed = copy_data(kafka.data, directory / "killed")
        kafka.start()
        second = _write(tools, kafka, "second")
        before_stop = witness(tools, kafka)
        kafka.stop()
        return KafkaRun(killed, kafka.data, [*first, *second], before_kill, before_stop)


def witness(tools: KafkaTools, kafka: ApacheKafka) -> Witnessed:
    return Witnessed(list(_json_lines(tools.run("Witness.java", kafka.address))))


def _write(tools: KafkaTools, kafka: ApacheKafka, round_name: str) -> list[Acknowledged]:
    printed = tools.run("Workload.java", round_name, kafka.address, str(kafka.data))
    return [
        Acknowledged(line["topic"], line["partition"], line["round"], line["outcome"], parse_record(line))
        for line in _json_lines(printed)
    ]


def _json_lines(text: str) -> Iterable[dict[str, Any]]:
    return (json.loads(line) for line in text.splitlines())


def parse_record(line: dict[str, Any]) -> Record:
    headers = tuple((name, _bytes(content)) for name, content in line["headers"])
    return Record(line["offset"], line["timestamp"], _bytes(line["key"]), _bytes(line["value"]), headers)


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)
