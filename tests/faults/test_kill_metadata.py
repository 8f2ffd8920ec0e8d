"""kill -9 while topics are created, deleted, extended and configured, and while the metadata is put into snapshots.

What was answered holds after the restart. Of what was not answered, the one change that was under way may have happened
or not, but not by halves. The directories of the logs follow.
"""

import threading
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Final, NamedTuple

import pytest

from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from headrace.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from headrace.protocol.messages.delete_topics import DeleteTopicsRequest
from headrace.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from headrace.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from headrace.protocol.messages.metadata import MetadataRequest
from headrace.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from headrace.protocol.records import NewRecord, build_batch
from tests.support.broker_process import BrokerProcess
from tests.support.kills import BUSY, KILLS, SEED, kill_while_starting, stay_a_moment
from tests.support.waiting import wait_until
from tests.support.wire_client import Closed, WireClient

pytestmark = pytest.mark.slow

NAMES: Final = [f"topic-{number}" for number in range(12)]
_TOPIC_RESOURCE: Final = 2
_SET: Final = 0


class Topic(NamedTuple):
    partitions: int
    retention_ms: int


Topics = Mapping[str, Topic]


class Admin(threading.Thread):
    """One change after the other, until the connection breaks. The broker then holds `before` or `after`."""

    def __init__(self, address: tuple[str, int], topics: Topics, random: Random) -> None:
        super().__init__(daemon=True)
        self._address = address
        self._random = random
        self.before = topics  # with everything that was answered
        self.after = topics  # and with the change that is under way
        self.changes = 0
        self.refusal: str | None = None

    def run(self) -> None:
        try:
            with WireClient(self._address) as client:
                while self.refusal is None:
                    self._change(client)
                    self.before = self.after
                    self.changes += 1
        except (Closed, OSError):
            pass

    def wait_for(self, changes: int) -> None:
        wait_until(lambda: self.changes >= changes or not self.is_alive())

    def _change(self, client: WireClient) -> None:
        name = self._random.choice(NAMES)
        topic = self.before.get(name)
        number = self._random.randrange(1_000_000)
        if topic is None:
            topic = Topic(1 + number % 4, number)
            self.after = {**self.before, name: topic}
            code = _create(client, name, topic)
        elif number % 4 == 0:
            self.after = {each: found for each, found in self.before.items() if each != name}
            code = client.ask("DeleteTopics", 5, DeleteTopicsRequest(topic_names=[name])).responses[0].error_code
        elif number % 4 == 1:
            self.after = {**self.before, name: topic._replace(partitions=topic.partitions + 1)}
            row = CreatePartitionsTopic(name, topic.partitions + 1, None)
            code = client.ask("CreatePartitions", 3, CreatePartitionsRequest([row])).results[0].error_code
        else:
            self.after = {**self.before, name: topic._replace(retention_ms=number)}
            configs = [AlterableConfig("retention.ms", _SET, str(number))]
            request = IncrementalAlterConfigsRequest([AlterConfigsResource(_TOPIC_RESOURCE, name, configs)])
            code = client.ask("IncrementalAlterConfigs", 1, request).responses[0].error_code
        if code:
            self.refusal = f"{ErrorCode(code).name} for {name}"


def _create(client: WireClient, name: str, topic: Topic) -> int:
    configs = [CreatableTopicConfig("retention.ms", str(topic.retention_ms))]
    row = CreatableTopic(name, topic.partitions, 1, [], configs)
    code: int = client.ask("CreateTopics", 5, CreateTopicsRequest([row])).topics[0].error_code
    return code


def found_at(client: WireClient) -> dict[str, Topic]:
    """What the broker says that there is."""
    topics = {topic.name: len(topic.partitions) for topic in client.ask("Metadata", 9, MetadataRequest(None)).topics}
    resources = [DescribeConfigsResource(_TOPIC_RESOURCE, name, ["retention.ms"]) for name in topics]
    answer = client.ask("DescribeConfigs", 4, DescribeConfigsRequest(resources))
    retention = {row.resource_name: int(row.configs[0].value) for row in answer.results}
    return {name: Topic(count, retention[name]) for name, count in topics.items()}


def check_writable(client: WireClient, topics: Topics) -> None:
    batch = bytes(build_batch([NewRecord(1_700_000_000_000, b"k", b"v")]))
    for name, topic in topics.items():
        rows = [PartitionProduceData(index, batch) for index in range(topic.partitions)]
        request = ProduceRequest(None, 1, 30_000, [TopicProduceData(name, bytes(16), rows)])
        answer = client.ask("Produce", 9, request).responses[0].partition_responses
        assert [row.error_code for row in answer] == [ErrorCode.NONE] * topic.partitions


def live_directories(data: Path) -> set[str]:
    return {
        path.name for path in data.iterdir() if path.name.startswith("topic-") and not path.name.endswith("-delete")
    }


def test_what_was_answered_holds_and_the_rest_happens_whole_or_not_at_all(tmp_path: Path) -> None:
    random = Random(f"{SEED} metadata")
    topics: Topics = {}
    with BrokerProcess(tmp_path, configs=BUSY) as broker:
        for number in range(2 * KILLS):
            admin = Admin(broker.address, topics, Random(random.random()))
            admin.start()
            wanted = random.randrange(1, 12)
            admin.wait_for(wanted)
            stay_a_moment(random.random() * 0.01)
            broker.kill()
            admin.join()
            assert admin.refusal is None, admin.refusal
            if number % 3 == 2:
                kill_while_starting(broker, random)
            broker.start()
            with WireClient(broker.address) as client:
                topics = found_at(client)
                assert topics in (admin.before, admin.after), f"kill {number}, seed {SEED}"
                check_writable(client, topics)
            logs = {f"{name}-{index}" for name, topic in topics.items() for index in range(topic.partitions)}
            assert live_directories(broker.data) == logs
        assert list((broker.data / "__cluster_metadata-0").glob("*.checkpoint")), "no snapshot was ever taken"
        broker.check_log()
        assert broker.stop() == 0
