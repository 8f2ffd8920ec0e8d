"""A cluster of the pure core alone: a controller, its brokers, and a log that is a list.

Every decision goes the way it goes in a broker: decided on the newest image, encoded, appended, decoded, replayed.
After each the invariants are checked, so that every test of the controller is also a test of them.
"""

from collections.abc import Iterable, Mapping
from random import Random
from typing import Any, TypeVar

from headrace.cluster.controller import Controller, Outcome, activation_records
from headrace.cluster.decision import ControllerSettings, Decision
from headrace.cluster.features import SUPPORTED_FEATURES, default_levels
from headrace.cluster.image import NO_LEADER, Image, Partition, Topic
from headrace.cluster.metadata_records import decode_record, encode_record, record_version
from headrace.cluster.replay import Replay
from headrace.cluster.topics import Chance, create_topics
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages import create_topics as create_topics_messages
from headrace.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from headrace.protocol.messages.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    Feature,
    Listener,
)
from headrace.protocol.messages.metadata_records import PartitionRecord

CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"
CONTROLLER_ID = 3000
SESSION_TIMEOUT_MS = 9000
KRAFT_VERSION = 1
DEFAULT_PARTITIONS = 2
EVERYTHING = [Feature(name, *levels) for name, levels in SUPPORTED_FEATURES.items()]

Reply = TypeVar("Reply")


class Cluster:
    """One controller and any number of brokers."""

    def __init__(
        self,
        *brokers: int,
        metadata_version: int = 30,
        levels: Mapping[str, int] | None = None,
        racks: Mapping[int, str] | None = None,
        **settings: Any,
    ) -> None:
        self.now_ms = 1_000_000
        self.random = Random(7)
        self.racks = racks or {}
        self.log: list[bytes] = []  # the values of all records that were written
        static = {"min.insync.replicas": "1", **settings.pop("static", {})}
        self.settings = ControllerSettings(
            node_id=CONTROLLER_ID,
            cluster_id=CLUSTER_ID,
            static=static,
            default_partitions=DEFAULT_PARTITIONS,
            **settings,
        )
        self.controller = self._new_controller(Replay())
        wanted = {**default_levels(metadata_version), **(levels or {})}
        self.do(activation_records(Replay(), self.settings, wanted))
        for broker_id in brokers:
            self.start_broker(broker_id)

    @property
    def image(self) -> Image:
        return self.controller.image

    # ---- the road of a decision

    def do(self, decision: Decision[Reply]) -> Reply:
        """Adopt a decision, append its records, and return the reply."""
        return self.written(self.controller.adopt(decision))

    def written(self, outcome: Outcome[Reply]) -> Reply:
        assert outcome.base_offset == len(self.log)
        version = self.image.metadata_version
        self.log += [encode_record(record, record_version(record, version)) for record in outcome.records]
        assert outcome.reply_offset == len(self.log) - 1
        self.controller.commit(len(self.log))
        assert self.controller.committed_image == self.image
        check_invariants(self.image)
        return outcome.reply

    def replayed(self) -> Image:
        """The image that somebody gets who reads the whole log."""
        replay = Replay()
        replay.apply(map(decode_record, self.log), base_offset=0)
        return replay.image

    def restart_controller(self) -> None:
        """Another controller takes over, with nothing but the log."""
        replay = Replay()
        replay.apply(map(decode_record, self.log), base_offset=0)
        self.controller = self._new_controller(replay)

    def _new_controller(self, replay: Replay) -> Controller:
        return Controller(
            self.settings,
            replay,
            next_offset=len(self.log),
            session_timeout_ms=SESSION_TIMEOUT_MS,
            now_ms=self.now_ms,
        )

    # ---- brokers

    def register(self, broker_id: int, *, version: int = 4, **changes: Any) -> BrokerRegistrationResponse:
        request = BrokerRegistrationRequest(
            broker_id=broker_id,
            cluster_id=CLUSTER_ID,
            incarnation_id=self.new_uuid(),
            listeners=[Listener("PLAINTEXT", f"host{broker_id}", 9092, 0)],
            features=EVERYTHING,
            rack=self.racks.get(broker_id),
            log_dirs=[directory(broker_id)],
        )._replace(**changes)
        return self.written(
            self.controller.register_broker(request, version=version, kraft_version=KRAFT_VERSION, now_ms=self.now_ms)
        )

    def heartbeat(self, broker_id: int, **changes: Any) -> BrokerHeartbeatResponse:
        request = BrokerHeartbeatRequest(
            broker_id=broker_id,
            broker_epoch=self.image.brokers[broker_id].epoch if broker_id in self.image.brokers else 0,
            current_metadata_offset=len(self.log) - 1,
        )._replace(**changes)
        return self.written(self.controller.heartbeat(request, now_ms=self.now_ms))

    def start_broker(self, broker_id: int, **changes: Any) -> None:
        assert self.register(broker_id, **changes).error_code == ErrorCode.NONE
        assert not self.heartbeat(broker_id).is_fenced

    def pass_time(self, milliseconds: int, *, alive: Iterable[int] = ()) -> list[int]:
        """Time passes, in which only some brokers are heard of; the brokers that are fenced for it."""
        self.now_ms += milliseconds
        for broker_id in alive:
            self.heartbeat(broker_id)
        fenced: list[int] = []
        while (expired := self.written(self.controller.fence_expired_broker(now_ms=self.now_ms))) is not None:
            fenced.append(expired)
        return fenced

    def kill(self, *broker_ids: int) -> None:
        """Brokers vanish, and the controller notices."""
        others = [each for each, broker in self.image.brokers.items() if not broker.fenced and each not in broker_ids]
        assert sorted(self.pass_time(SESSION_TIMEOUT_MS + 1, alive=others)) == sorted(broker_ids)

    # ---- topics

    def chance(self) -> Chance:
        return Chance(self.random, self.new_uuid)

    def new_uuid(self) -> bytes:
        return self.random.randbytes(16)

    def create_topic(self, name: str, *replicas: Iterable[int], **configs: str) -> Topic:
        """A topic with these replicas per partition, or as the defaults say."""
        wanted = create_topics_messages.CreatableTopic(
            name=name,
            num_partitions=-1,
            replication_factor=-1,
            assignments=[
                create_topics_messages.CreatableReplicaAssignment(index, list(ids))
                for index, ids in enumerate(replicas)
            ],
            configs=[
                create_topics_messages.CreatableTopicConfig(key.replace("_", "."), value)
                for key, value in configs.items()
            ],
        )
        request = create_topics_messages.CreateTopicsRequest(topics=[wanted])
        (row,) = self.do(create_topics(self.image, self.settings, request, self.chance())).topics
        assert row.error_code == ErrorCode.NONE, row
        return self.image.topics[row.topic_id]

    def partition(self, name: str, index: int = 0) -> Partition:
        topic = self.image.topic(name)
        assert topic is not None
        return topic.partitions[index]

    def set_partition(self, name: str, index: int = 0, **changes: Any) -> Partition:
        """Bring a partition into a state that would take a long story to reach."""
        topic = self.image.topic(name)
        assert topic is not None
        record = PartitionRecord(
            partition_id=index,
            topic_id=topic.topic_id,
            **{"leader_epoch": 5, "partition_epoch": 9, **changes},
        )
        self.do(Decision((record,), None))
        return self.partition(name, index)


def directory(broker_id: int) -> bytes:
    return broker_id.to_bytes(16, "big").replace(b"\0", b"\1")


def check_invariants(image: Image) -> None:
    """What holds after every decision."""
    assert {topic.name: topic_id for topic_id, topic in image.topics.items()} == image.topic_ids
    for topic in image.topics.values():
        assert sorted(topic.partitions) == list(range(len(topic.partitions)))
        for index, partition in topic.partitions.items():
            where = f"{topic.name}-{index}: {partition}"
            replicas = set(partition.replicas)
            assert len(replicas) == len(partition.replicas) == len(partition.directories), where
            assert set(partition.isr) <= replicas, where
            assert set(partition.elr) <= replicas - set(partition.isr), where
            assert set(partition.adding_replicas) <= replicas, where
            assert set(partition.removing_replicas) <= replicas, where
            if partition.leader != NO_LEADER:
                assert partition.leader in partition.isr, where
                assert image.is_active(partition.leader), where
    for configs in image.configs.values():
        assert configs


def brief(partition: Partition) -> str:
    """A partition in a line: `2@1 isr=2,3` is leader 2 in epoch 1; what is empty is left out."""
    lists = {
        "isr": partition.isr,
        "elr": partition.elr,
        "last": partition.last_known_elr,
        "adding": partition.adding_replicas,
        "removing": partition.removing_replicas,
    }
    words = [f"{name}={','.join(map(str, ids))}" for name, ids in lists.items() if ids]
    leader = "none" if partition.leader == NO_LEADER else str(partition.leader)
    return " ".join([f"{leader}@{partition.leader_epoch}", *words, *(["recovering"] if partition.recovering else [])])
