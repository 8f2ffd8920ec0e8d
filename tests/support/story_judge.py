"""A story is told to two coordinators at once, request by request: a shard in this process, and Apache Kafka.

Whatever a story sends to the shard is sent to Kafka, too. Each answer that the shard gives must be Kafka's, field by
field, after its way through the codec of its version; and in the end the records of __consumer_offsets must be the
same.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from headrace.coordinator.groups import GroupShard
from headrace.coordinator.result import Step, Ticket
from headrace.protocol.apis import API_BY_NAME, GROUP_RECORDS, load
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.internal_records import CoordinatorRecord, decode_coordinator_record
from headrace.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from headrace.protocol.messages.delete_groups import DeleteGroupsRequest
from headrace.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from headrace.protocol.messages.describe_groups import DescribedGroup, DescribeGroupsRequest
from headrace.protocol.messages.describe_transactions import DescribeTransactionsRequest
from headrace.protocol.messages.end_txn import EndTxnRequest
from headrace.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from headrace.protocol.messages.find_coordinator import FindCoordinatorRequest
from headrace.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from headrace.protocol.messages.list_groups import ListedGroup, ListGroupsRequest
from headrace.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from headrace.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponseGroup,
)
from headrace.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from headrace.protocol.records import iter_batches, read_records
from headrace.protocol.types import ZERO_UUID
from tests.support.group_driver import GroupDriver, Written
from tests.support.scenario_groups import GroupStage
from tests.support.story_names import Names, without_times
from tests.support.wire_client import WireClient

PATIENCE_SECONDS: Final = 30.0
OFFSETS_TOPIC: Final = "__consumer_offsets"
_GROUP, _TRANSACTION = 0, 1  # kinds of coordinators
_TOPIC_IDS_SINCE: Final = 10
# Doors of a shard, what Kafka calls them, and the version where the shard need not know it.
_APIS: Final = {
    "join_group": ("JoinGroup", None),
    "sync_group": ("SyncGroup", 5),
    "heartbeat": ("Heartbeat", 4),
    "leave_group": ("LeaveGroup", None),
    "offset_commit": ("OffsetCommit", None),
    "offset_delete": ("OffsetDelete", 0),
}


class Waiting(NamedTuple):
    client: WireClient
    api: str
    version: int
    correlation_id: int

    def receive(self) -> Any:
        with self.client:
            return self.client.receive(self.api, self.version, self.correlation_id)


class Kafka:
    """One broker for many stories; each request has a connection of its own, since some wait for long."""

    def __init__(self, address: str) -> None:
        host, _, port = address.partition(":")
        self._address = (host, int(port))
        self._await_coordinators()

    def connect(self) -> WireClient:
        return WireClient(self._address)

    def ask(self, api: str, version: int, request: Any) -> Any:
        with self.connect() as client:
            return client.ask(api, version, request)

    def _await_coordinators(self) -> None:
        """Whoever asks first makes Kafka create their topics."""

        def are_there() -> bool:
            for kind in (_GROUP, _TRANSACTION):
                request = FindCoordinatorRequest(key_type=kind, coordinator_keys=["warm-up"])
                if self.ask("FindCoordinator", 4, request).coordinators[0].error_code:
                    return False
            (group,) = self.ask("DescribeGroups", 5, DescribeGroupsRequest(["warm-up"])).groups
            return not group.error_code

        eventually(are_there)

    def make_topic(self, name: str, partitions: int) -> bytes:
        """The id of a new topic, which is there with all its partitions."""
        request = CreateTopicsRequest([CreatableTopic(name, partitions, 1)], 30_000)
        (made,) = self.ask("CreateTopics", 7, request).topics
        assert not made.error_code, made

        def is_there() -> bool:
            (topic,) = self.ask("Metadata", 12, MetadataRequest([MetadataRequestTopic(name=name)])).topics
            return len([each for each in topic.partitions if each.leader_id >= 0]) == partitions

        eventually(is_there)
        return bytes(made.topic_id)

    def make_producer(self, transactional_id: str) -> InitProducerIdResponse:
        """The coordinator of this one may be loading still, whatever that of another one does."""
        made: list[InitProducerIdResponse] = []

        def is_made() -> bool:
            made.append(self.ask("InitProducerId", 5, InitProducerIdRequest(transactional_id, 60_000)))
            return made[-1].error_code != ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

        eventually(is_made)
        assert not made[-1].error_code, made
        return made[-1]

    def records(self) -> Iterator[CoordinatorRecord]:
        """All that Kafka has written about groups."""
        (topic,) = self.ask("Metadata", 12, MetadataRequest([MetadataRequestTopic(name=OFFSETS_TOPIC)])).topics
        for partition in topic.partitions:
            for key, value in self._read(partition.partition_index):
                yield decode_coordinator_record(GROUP_RECORDS, key, value)

    def _read(self, index: int) -> Iterator[tuple[bytes | None, bytes | None]]:
        offset, end_offset = 0, 1
        while offset < end_offset:
            wanted = FetchPartition(index, fetch_offset=offset, partition_max_bytes=1 << 20)
            topics = [FetchTopic(OFFSETS_TOPIC, partitions=[wanted])]
            (topic,) = self.ask("Fetch", 12, FetchRequest(max_wait_ms=0, min_bytes=0, topics=topics)).responses
            (partition,) = topic.partitions
            assert not partition.error_code, partition
            end_offset = partition.high_watermark
            data = bytes(partition.records or b"")
            for position, header in iter_batches(data):
                if not header.is_control:
                    yield from ((record.key, record.value) for record in read_records(data, position))
                offset = header.next_offset


def eventually(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"it did not happen within {PATIENCE_SECONDS} s"
        time.sleep(0.01)  # the condition is polled, with a deadline


class Tap:
    """A shard; what it hears, Kafka hears, too."""

    def __init__(self, shard: GroupShard, driver: "JudgedDriver") -> None:
        self.inside = shard
        self._driver = driver

    def __getattr__(self, name: str) -> Any:
        door = getattr(self.inside, name)
        if name not in _APIS:
            return door
        api, known_version = _APIS[name]

        def tapped(request: Any, *, ticket: Ticket, **others: Any) -> Any:
            version = others["version"] if known_version is None else known_version
            client_id = others["client"].client_id if "client" in others else "test"
            self._driver.forward(ticket, api, version, request, client_id)
            return door(request, ticket=ticket, **others)

        return tapped

    def txn_offset_commit(self, request: TxnOffsetCommitRequest, *, ticket: Ticket, version: int, now_ms: int) -> Step:
        transactional_id, producer_id, epoch = self._driver.producer(request.producer_id)
        theirs = request._replace(transactional_id=transactional_id, producer_id=producer_id, producer_epoch=epoch)
        self._driver.forward(ticket, "TxnOffsetCommit", version, theirs, "test")
        return self.inside.txn_offset_commit(request, ticket=ticket, version=version, now_ms=now_ms)

    def delete_group(self, group_id: str, *, ticket: Ticket) -> Step:
        self._driver.forward(ticket, "DeleteGroups", 2, DeleteGroupsRequest([group_id]), "test")
        return self.inside.delete_group(group_id, ticket=ticket)

    def fetch_offsets(
        self, group: OffsetFetchRequestGroup, *, version: int, require_stable: bool
    ) -> OffsetFetchResponseGroup:
        ours = self.inside.fetch_offsets(group, version=version, require_stable=require_stable)
        request = OffsetFetchRequest(groups=[group], require_stable=require_stable)
        (theirs,) = self._driver.ask("OffsetFetch", version, request).groups
        missing = {"name": ""} if version >= _TOPIC_IDS_SINCE else {"topic_id": ZERO_UUID}
        spoken = ours._replace(topics=[topic._replace(**missing) for topic in ours.topics])
        assert _in_order(theirs) == _in_order(spoken)
        return ours

    def describe_group(self, group_id: str, *, version: int) -> DescribedGroup:
        ours = self.inside.describe_group(group_id, version=version)
        assert self._driver.describe(group_id, version) == _in_order(ours)
        return ours

    def list_groups(self, states: list[str], types: list[str]) -> list[ListedGroup]:
        ours = self.inside.list_groups(states, types)
        names = self._driver.names
        listed = self._driver.kafka.ask("ListGroups", 5, ListGroupsRequest(states, types)).groups
        assert sorted(names.to_ours(group) for group in listed if names.is_of_this_story(group.group_id)) == sorted(
            ours
        )
        return ours


class JudgedDriver(GroupDriver):
    """Drives a shard, and Kafka beside it."""

    def __init__(self, kafka: Kafka, configs: Mapping[str, str]) -> None:
        self.kafka = kafka
        self.names = Names()
        self.asked: dict[Ticket, Waiting] = {}
        self.producers: dict[int, tuple[str, int, int]] = {}  # transactional id, id and epoch, by our id
        super().__init__(configs)

    def _new_shard(self) -> Any:
        return Tap(super()._new_shard(), self)

    def make_topic(self, name: str, partitions: int, number: int = 0) -> None:
        super().make_topic(name, partitions, number)
        self.names.pair(self.image.topic_ids[name], self.kafka.make_topic(self.names.lengthen(name), partitions))

    def delete_topic(self, name: str) -> None:
        super().delete_topic(name)
        request = DeleteTopicsRequest([DeleteTopicState(self.names.lengthen(name))], timeout_ms=30_000)
        (deleted,) = self.kafka.ask("DeleteTopics", 6, request).responses
        assert not deleted.error_code, deleted
        eventually(lambda: not self._differences())  # the coordinator hears of it by and by

    # Requests

    def forward(self, ticket: Ticket, api: str, version: int, request: Any, client_id: str) -> None:
        client = self.kafka.connect()
        correlation_id = client.send(api, version, self.names.to_theirs(request), client_id=client_id)
        self.asked[ticket] = Waiting(client, api, version, correlation_id)

    def ask(self, api: str, version: int, request: Any) -> Any:  # type: ignore[override]
        return self.names.to_ours(self.kafka.ask(api, version, self.names.to_theirs(request)))

    def describe(self, group_id: str, version: int) -> DescribedGroup:
        (group,) = self.ask("DescribeGroups", version, DescribeGroupsRequest([group_id])).groups
        return _in_order(group)  # type: ignore[no-any-return]

    def send(self, decide: Callable[[GroupShard, Ticket], Step]) -> Ticket:
        ticket = super().send(decide)
        if ticket in self.asked:
            self._await_same_states()
        return ticket

    def _await_same_states(self) -> None:
        """Kafka must have seen a request that waits before the next one comes, on another connection."""
        shard: Any = self.shard
        for group_id in list(shard.groups):
            ours = shard.inside.describe_group(group_id, version=5)

            def is_same(group_id: str = group_id, ours: DescribedGroup = ours) -> bool:
                theirs = self.describe(group_id, 5)
                return (ours.group_state, len(ours.members)) == (theirs.group_state, len(theirs.members))

            eventually(is_same)

    def carry_out(self, step: Step) -> None:
        super().carry_out(step)
        answered = [(asked, ours, asked.receive()) for asked, ours in self._asked_for(step)]
        for asked, ours, theirs in answered:
            if asked.api == "JoinGroup" and ours.member_id and theirs.member_id:
                self.names.pair(ours.member_id, theirs.member_id)
        for asked, ours, theirs in answered:
            if asked.api == "DeleteGroups":
                assert theirs.results[0].error_code == ours
            else:
                assert _in_order(self.names.to_ours(theirs)) == _in_order(_as_sent(asked, ours)), asked.api

    def _asked_for(self, step: Step) -> list[tuple[Waiting, Any]]:
        return [(self.asked.pop(ticket), response) for ticket, response in step.answers]

    # Transactions

    def producer(self, our_id: int) -> tuple[str, int, int]:
        if our_id not in self.producers:
            transactional_id = self.names.lengthen(f"producer-{our_id}")
            made = self.kafka.make_producer(transactional_id)
            self.producers[our_id] = (transactional_id, made.producer_id, made.producer_epoch)
        return self.producers[our_id]

    def end_transaction(self, producer_id: int, *, committed: bool) -> None:
        super().end_transaction(producer_id, committed=committed)
        if producer_id not in self.producers:
            return
        transactional_id, their_id, epoch = self.producers[producer_id]
        ended = self.kafka.ask("EndTxn", 5, EndTxnRequest(transactional_id, their_id, epoch, committed))
        assert not ended.error_code, ended
        self.producers[producer_id] = (transactional_id, ended.producer_id, ended.producer_epoch)

        def has_markers() -> bool:
            request = DescribeTransactionsRequest([transactional_id])
            (state,) = self.kafka.ask("DescribeTransactions", 0, request).transaction_states
            return bool(state.transaction_state == ("CompleteCommit" if committed else "CompleteAbort"))

        eventually(has_markers)

    # The end

    def compare_records(self) -> None:
        differences = self._differences()
        assert not differences, differences

    def _differences(self) -> list[Any]:
        """Group, Kafka's records and ours, where they are not the same."""
        written = [each for each in self.log if isinstance(each, Written)]
        ours = [decode_coordinator_record(GROUP_RECORDS, each.key, each.value) for each in written]
        groups = {record.key[0] for record in ours}  # one story tells of a group without a name, too
        is_told = self.names.is_of_this_story
        theirs = [
            self._to_ours(record)
            for record in self.kafka.records()
            if is_told(record.key[0]) or record.key[0] in groups
        ]
        both = [
            (group_id, _of_group(theirs, group_id), _of_group(ours, group_id))
            for group_id in {record.key[0] for record in (*ours, *theirs)}
        ]
        return [each for each in both if each[1] != each[2]]

    def _to_ours(self, record: CoordinatorRecord) -> CoordinatorRecord:
        value = None if record.value is None else self.names.to_ours(record.value)
        return record._replace(key=self.names.to_ours(record.key), value=value)

    def close(self) -> None:
        for asked in self.asked.values():
            asked.client.close()


def _of_group(records: list[CoordinatorRecord], group_id: str) -> list[CoordinatorRecord]:
    return [
        record if record.value is None else record._replace(value=_in_order(without_times(record.value)))
        for record in records
        if record.key[0] == group_id
    ]


def _in_order(message: Any) -> Any:
    """In which order members and partitions stand is Kafka's own affair; the text beside an error is for people."""
    changes: dict[str, Any] = {name: sorted(getattr(message, name)) for name in ("members",) if name in message._fields}
    if "error_message" in message._fields:
        changes["error_message"] = None
    if message._fields[:1] == ("group_id",) and "topics" in message._fields:
        changes["topics"] = sorted(topic._replace(partitions=sorted(topic.partitions)) for topic in message.topics)
    elif "topics" in message._fields:
        # A topic that was named twice is one topic there.
        rows = [(topic.name, topic._replace(partitions=[row])) for topic in message.topics for row in topic.partitions]
        changes["topics"] = sorted(row for _, row in rows)
    return message._replace(**changes)


def _as_sent(asked: Waiting, response: Any) -> Any:
    """What is left of our answer when it has gone through the wire in this version."""
    codec = load(API_BY_NAME[asked.api].key)
    data = b"".join(codec.encode_response[asked.version](response))
    return codec.decode_response[asked.version](data, memoryview(data), 0, len(data))


class JudgedStage(GroupStage):
    def __init__(self, kafka: Kafka) -> None:
        super().__init__()
        self._driver = JudgedDriver(kafka, self.configs)
