"""A broker of one node without sockets: requests go through the dispatcher, encoded; the clock stands until moved.

The controller is a real one in memory: decisions change the image at once, and subscribers hear of it. The worker has
no thread: it runs its chores when a test says so.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from random import Random
from typing import Any, TypeVar, cast

from headrace.cluster.decision import Decision
from headrace.cluster.features import default_levels
from headrace.cluster.image import EMPTY_IMAGE, ConfigKind, Image
from headrace.cluster.metadata_records import MetadataRecord
from headrace.log.chores import Chore
from headrace.log.config import LogConfig
from headrace.log.directory import LogDirectory
from headrace.log.fs import FileSystem
from headrace.log.memory_fs import MemoryFileSystem
from headrace.protocol.apis import API_BY_NAME, load
from headrace.protocol.header import read_response_header, response_header_version, write_request_header
from headrace.protocol.messages.headers import RequestHeader
from headrace.protocol.messages.metadata_records import (
    BrokerEndpoint,
    ConfigRecord,
    FeatureLevelRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from headrace.server.clock import MovableClock
from headrace.server.connection import Connection, Reply
from headrace.server.context import Context
from headrace.server.coordinators import Coordinators
from headrace.server.dispatch import Dispatcher, Handle
from headrace.server.fetch_sessions import FetchSessions
from headrace.server.group_commit import GroupCommit
from headrace.server.later import Later
from headrace.server.partition import Partition
from headrace.server.partitions import Partitions
from headrace.server.producer_ids import ProducerIds
from headrace.server.quotas import Quotas
from headrace.server.repeated_commits import RepeatedCommits
from headrace.server.repeated_fetch import RepeatedFetch
from headrace.server.repeated_produce import RepeatedProduce
from headrace.server.settings import load_settings
from headrace.server.worker import Worker

R = TypeVar("R")
NODE_ID = 1
NOW_MS = 1_700_000_000_000


class MemoryController:
    """The road of metadata without a log: decide, replay, tell, reply."""

    def __init__(self) -> None:
        self.image = EMPTY_IMAGE
        self.committed_offset = -1
        self._listeners: list[Callable[[Image, Image], None]] = []

    def subscribe(self, listener: Callable[[Image, Image], None]) -> None:
        self._listeners.append(listener)

    def unsubscribe_all(self) -> None:
        """The broker is away: metadata goes on changing, and it does not hear of it."""
        self._listeners.clear()

    def submit(self, decide: Callable[[Image], Decision[R]]) -> Later[R]:
        decision = decide(self.image)
        self.write(*decision.records)
        later: Later[R] = Later()
        later.resolve(decision.reply)
        return later

    def write(self, *records: MetadataRecord) -> None:
        old = self.image
        self.image = old.apply(records)
        self.committed_offset += len(records)
        for listener in self._listeners:
            listener(old, self.image)


class StepWorker:
    """A worker whose chores run when the test says so, in the test's thread."""

    def __init__(self) -> None:
        self.chores: deque[Chore] = deque()
        self.is_closing = False
        self.has_room = True

    def submit(self, chore: Chore) -> None:
        self.chores.append(chore)

    def step(self) -> None:
        """Run what is there now; not what its ends bring."""
        for _ in range(len(self.chores)):
            chore = self.chores.popleft()
            try:
                chore.run()
            except OSError as error:
                chore.failed(error)
            else:
                chore.done()

    def pause(self, seconds: float) -> None:
        pass


class Asker:
    """The connection, as far as a handler sees it."""

    listener = "PLAINTEXT"
    peer = ("127.0.0.1", 50_000)

    def __init__(self) -> None:
        self.mutes = 0
        self.repeated_produce: RepeatedProduce | None = None
        self.repeated_fetch: RepeatedFetch | None = None
        self.repeated_commits: RepeatedCommits | None = None

    def mute(self) -> None:
        self.mutes += 1

    def unmute(self) -> None:
        self.mutes -= 1


class OneNode:
    def __init__(
        self,
        fs: FileSystem | None = None,
        path: str = "/data",
        *,
        static: Mapping[str, str] | None = None,
        slots: int = 1000,
        other_brokers: Sequence[int] = (),
    ) -> None:
        self.fs = fs or MemoryFileSystem()
        self.clock = MovableClock(NOW_MS)
        self.controller = MemoryController()
        self.worker = StepWorker()
        flushes = GroupCommit(cast("Worker", self.worker))
        self.logs = LogDirectory.open(self.fs, path, lambda _: LogConfig(), now_ms=NOW_MS)
        self.partitions = Partitions(NODE_ID, self.logs, flushes, self.clock, static)
        self.fetch_sessions = FetchSessions(slots=slots, random=Random(7))
        self.asker = Asker()
        self.quotas = Quotas(self.clock, now_ns=lambda: self.time_ns)
        self.time_ns = 0  # on the loop, as quotas see it
        names = count(1)
        producer_ids = ProducerIds(cast("Any", self.controller), NODE_ID)
        self.coordinators = Coordinators(
            load_settings(static or {}).values, self.partitions, self.clock, lambda: f"id{next(names)}", producer_ids
        )
        self.context = Context(
            node_id=NODE_ID,
            cluster_id="4L6g3nShT-eMCtK--X86sw",
            clock=self.clock,
            controller=cast("Any", self.controller),
            partitions=self.partitions,
            fetch_sessions=self.fetch_sessions,
            producer_ids=producer_ids,
            coordinators=self.coordinators,
            quotas=self.quotas,
        )
        self.dispatcher = Dispatcher(self.context)
        self.controller.subscribe(self.partitions.apply)
        self.controller.subscribe(self.coordinators.image_changed)
        self.controller.subscribe(self.quotas.apply)
        self._uuids = Random(3)
        levels = default_levels(30)
        self.controller.write(*(FeatureLevelRecord(name, level) for name, level in levels.items() if level))
        for broker_id in (NODE_ID, *other_brokers):
            self.controller.write(
                RegisterBrokerRecord(
                    broker_id=broker_id,
                    incarnation_id=self._uuids.randbytes(16),
                    broker_epoch=broker_id * 10,
                    end_points=[BrokerEndpoint("PLAINTEXT", f"host{broker_id}", 9092, 0)],
                    rack=None,
                    fenced=False,
                )
            )

    # The cluster

    def watch_handlers(self) -> list[Any]:
        """The requests that come to a handler from now on."""
        seen: list[Any] = []

        def around(_: int, handle: Handle) -> Handle:
            def note(request: Any, ctx: Any) -> Any:
                seen.append(request)
                return handle(request, ctx)

            return note

        self.dispatcher.go_around(around)
        return seen

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        *,
        replicas: Sequence[int] = (NODE_ID,),
        leader: int = NODE_ID,
        isr: Sequence[int] | None = None,
        **configs: str,
    ) -> bytes:
        """Its id. Configs by their names with underscores."""
        topic_id = self._uuids.randbytes(16)
        settings = [
            ConfigRecord(ConfigKind.TOPIC, name, key.replace("_", "."), value) for key, value in configs.items()
        ]
        rows = [
            PartitionRecord(
                partition_id=index,
                topic_id=topic_id,
                replicas=replicas,
                isr=replicas if isr is None else isr,
                leader=leader,
                leader_epoch=0,
                partition_epoch=0,
                directories=[bytes(15) + b"d"] * len(replicas),
            )
            for index in range(partitions)
        ]
        self.controller.write(TopicRecord(name, topic_id), *settings, *rows)
        return topic_id

    def set_config(self, topic: str, name: str, value: str | None) -> None:
        self.controller.write(ConfigRecord(ConfigKind.TOPIC, topic, name, value))

    def delete_topic(self, name: str) -> None:
        self.controller.write(RemoveTopicRecord(self.controller.image.topic_ids[name]))

    def partition(self, topic: str, index: int = 0) -> Partition:
        found = self.partitions.leader(topic, index)
        assert isinstance(found, Partition), found
        return found

    # Requests

    def send(self, api: str, version: int, request: Any, *, client_id: str = "test") -> "Answer":
        """Through the dispatcher, as bytes both ways."""
        found = API_BY_NAME[api]
        messages = load(found.key)
        header = write_request_header(RequestHeader(found.key, version, 77, client_id))
        frame = bytearray(b"".join([header, *messages.encode_request[version](request)]))
        answer = Answer(found.key, version)
        reply = self.dispatcher.serve(cast("Connection", self.asker), frame, memoryview(frame), 0, len(frame))
        if isinstance(reply, Later):
            answer.later = reply
            reply.then(answer.take)
        elif reply is not None:
            answer.take(reply)
        frame[:] = bytes(len(frame))  # the receive buffer is shared: nothing of it may be needed any more
        return answer

    def ask(self, api: str, version: int, request: Any, *, client_id: str = "test") -> Any:
        """The response, which must be there at once."""
        answer = self.send(api, version, request, client_id=client_id)
        assert answer.is_there, "the answer is not there yet"
        return answer.response


class Answer:
    def __init__(self, key: int, version: int) -> None:
        self._key = key
        self._version = version
        self._responses: list[Any] = []
        self.later: Later[Reply] | None = None

    @property
    def is_there(self) -> bool:
        return bool(self._responses)

    @property
    def response(self) -> Any:
        assert self._responses, "the answer is not there yet"
        return self._responses[0]

    def take(self, parts: Reply) -> None:
        data = b"".join(part if isinstance(part, bytes | bytearray | memoryview) else part.read() for part in parts)
        assert int.from_bytes(data[:4], "big") == len(data) - 4
        header_version = response_header_version(self._key, self._version)
        header, position = read_response_header(data, 4, len(data), header_version)
        assert header.correlation_id == 77
        decode = load(self._key).decode_response[self._version]
        self._responses.append(decode(data, memoryview(data), position, len(data)))
