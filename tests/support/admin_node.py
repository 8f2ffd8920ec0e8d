"""A node with a real metadata road, on a file system in memory: requests go through the dispatcher, encoded.

The worker has no thread: `ask` lets it run until the answer is there, so an answer that would wait forever is an error.
"""

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any, cast

from headrace.cluster.control_records import VoterEndpoint, VoterNode
from headrace.cluster.decision import ControllerSettings, Decision
from headrace.cluster.features import default_levels
from headrace.cluster.image import Image
from headrace.cluster.metadata_records import MetadataRecord
from headrace.cluster.quorum import Quorum, SnapshotPolicy
from headrace.log.config import LogConfig
from headrace.log.directory import LogDirectory
from headrace.log.memory_fs import MemoryFileSystem
from headrace.protocol.apis import API_BY_NAME, load
from headrace.protocol.header import write_request_header
from headrace.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from headrace.protocol.messages.headers import RequestHeader
from headrace.protocol.messages.metadata_records import (
    BrokerEndpoint,
    BrokerFeature,
    BrokerRegistrationChangeRecord,
    RegisterBrokerRecord,
)
from headrace.server.clock import MovableClock
from headrace.server.connection import Connection
from headrace.server.context import Context
from headrace.server.controller import Controller
from headrace.server.coordinators import Coordinators
from headrace.server.dispatch import Dispatcher
from headrace.server.fetch_sessions import FetchSessions
from headrace.server.group_commit import GroupCommit
from headrace.server.later import Later
from headrace.server.metadata_log import MetadataLog
from headrace.server.partitions import Partitions
from headrace.server.producer_ids import ProducerIds
from headrace.server.quotas import Quotas
from headrace.server.settings import load_settings
from headrace.server.worker import Worker
from tests.support.one_node import NOW_MS, Answer, StepWorker

NODE_ID = 1
CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"
DATA = "/data"


class Client:
    """A connection, as far as a handler sees it."""

    def __init__(self, listener: str = "PLAINTEXT", peer: tuple[str, int] = ("10.0.0.7", 5000)) -> None:
        self.listener = listener
        self.peer = peer
        self.session: Any = None
        self.repeated_produce: Any = None
        self.repeated_fetch: Any = None
        self.repeated_commits: Any = None
        self.mutes = 0

    def mute(self) -> None:
        self.mutes += 1

    def unmute(self) -> None:
        self.mutes -= 1


class AdminNode:
    def __init__(
        self,
        *,
        static: Mapping[str, str] | None = None,
        other_brokers: Sequence[int] = (),
        listeners: Sequence[str] = ("PLAINTEXT",),
        default_partitions: int = 1,
        delete_topic_enable: bool = True,
    ) -> None:
        fs = MemoryFileSystem()
        self.clock = MovableClock(NOW_MS)
        self.worker = StepWorker()
        self.client = Client()
        self.settings = ControllerSettings(
            NODE_ID,
            CLUSTER_ID,
            static or {},
            default_partitions=default_partitions,
            delete_topic_enable=delete_topic_enable,
        )
        self.controller = self._open_controller(fs)
        logs = LogDirectory.open(fs, DATA, lambda _: LogConfig(), now_ms=NOW_MS)
        self.partitions = Partitions(NODE_ID, logs, GroupCommit(cast("Worker", self.worker)), self.clock, static)
        self.controller.subscribe(self.partitions.apply)
        quotas = Quotas(self.clock)
        self.controller.subscribe(quotas.apply)
        producer_ids = ProducerIds(self.controller, NODE_ID)
        self.coordinators = Coordinators(
            load_settings(static or {}).values, self.partitions, self.clock, lambda: "id", producer_ids
        )
        self.controller.subscribe(self.coordinators.image_changed)
        self.context = Context(
            node_id=NODE_ID,
            cluster_id=CLUSTER_ID,
            clock=self.clock,
            controller=self.controller,
            partitions=self.partitions,
            fetch_sessions=FetchSessions(slots=10, random=Random(7)),
            producer_ids=producer_ids,
            coordinators=self.coordinators,
            quotas=quotas,
            random=Random(5),
        )
        self.dispatcher = Dispatcher(self.context)
        self._await(self.controller.start())
        for broker_id in (NODE_ID, *other_brokers):
            self.write(_registration(broker_id, listeners))

    def _open_controller(self, fs: MemoryFileSystem) -> Controller:
        now_ms = self.clock.now_ms()
        fs.make_dir(DATA)
        log = MetadataLog.open(fs, DATA, clean=False, kraft_version=1, now_ms=now_ms)
        found = log.read()
        me = VoterNode(NODE_ID, bytes(15) + b"\x64", (VoterEndpoint("CONTROLLER", "127.0.0.1", 9093),))
        return Controller(
            log,
            Quorum(me, found.on_disk, kraft_version=1, policy=SnapshotPolicy(), now_ms=now_ms),
            found.replay,
            settings=self.settings,
            levels=default_levels(),
            session_timeout_ms=9000,
            clock=self.clock,
            worker=cast("Worker", self.worker),
            on_failure=_fail,
        )

    @property
    def image(self) -> Image:
        return self.controller.image

    # The cluster

    def write(self, *records: MetadataRecord) -> None:
        self._await(self.controller.submit(lambda _: Decision(records, None)))

    def fence(self, broker_id: int) -> None:
        epoch = self.image.brokers[broker_id].epoch
        self.write(BrokerRegistrationChangeRecord(broker_id, epoch, fenced=1))

    def create_topic(self, name: str, partitions: int = 1, *, replicas: int = 1, **configs: str) -> bytes:
        """Its id. Configs by their names with underscores."""
        rows = [CreatableTopicConfig(key.replace("_", "."), value) for key, value in configs.items()]
        wanted = CreatableTopic(name, partitions, replicas, configs=rows)
        response = self.ask("CreateTopics", 7, CreateTopicsRequest([wanted]))
        assert response.topics[0].error_code == 0, response.topics[0].error_message
        topic_id: bytes = response.topics[0].topic_id
        return topic_id

    # Requests

    def send(
        self, api: str, version: int, request: Any, *, client: Client | None = None, client_id: str = "test"
    ) -> Answer:
        """Through the dispatcher, as bytes both ways; what the answer waits for does not happen yet."""
        found = API_BY_NAME[api]
        header = write_request_header(RequestHeader(found.key, version, 77, client_id))
        frame = bytearray(b"".join([header, *load(found.key).encode_request[version](request)]))
        answer = Answer(found.key, version)
        connection = cast("Connection", client or self.client)
        reply = self.dispatcher.serve(connection, frame, memoryview(frame), 0, len(frame))
        if isinstance(reply, Later):
            answer.later = reply
            reply.then(answer.take)
        elif reply is not None:
            answer.take(reply)
        frame[:] = bytes(len(frame))  # the receive buffer is shared: nothing of it may be needed any more
        return answer

    def ask(
        self, api: str, version: int, request: Any, *, client: Client | None = None, client_id: str = "test"
    ) -> Any:
        answer = self.send(api, version, request, client=client, client_id=client_id)
        while not answer.is_there and self.worker.chores:
            self.worker.step()
        return answer.response

    def _await(self, later: Later[Any]) -> None:
        while not later.is_settled and self.worker.chores:
            self.worker.step()
        assert later.is_settled, "nothing is left to do, and there is no answer"


def _registration(broker_id: int, listeners: Sequence[str]) -> RegisterBrokerRecord:
    levels = default_levels()
    return RegisterBrokerRecord(
        broker_id=broker_id,
        incarnation_id=bytes([broker_id]) * 16,
        broker_epoch=broker_id * 10,
        end_points=[
            BrokerEndpoint(name, f"{name.lower()}{broker_id}", 9092 + place, 0) for place, name in enumerate(listeners)
        ],
        features=[BrokerFeature(name, 0, level) for name, level in levels.items()],
        rack=f"rack{broker_id}",
        fenced=False,
        log_dirs=[bytes(15) + bytes([100 + broker_id])],
    )


def _fail(error: Exception) -> None:
    raise AssertionError(f"the metadata log failed: {error}")
