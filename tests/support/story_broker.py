"""A broker that plays a story: requests over the wire, and what it writes to __consumer_offsets."""

import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from itertools import groupby
from typing import Any, Final

from headrace.cluster.image import Image, Topic
from headrace.coordinator.result import Answer, Client, Producer, Step, Ticket
from headrace.protocol.apis import GROUP_RECORDS
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.internal_records import CoordinatorRecord, decode_coordinator_record
from headrace.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from headrace.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from headrace.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from headrace.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from headrace.protocol.messages.delete_groups import DeleteGroupsRequest
from headrace.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from headrace.protocol.messages.describe_groups import DescribeGroupsRequest
from headrace.protocol.messages.describe_transactions import DescribeTransactionsRequest
from headrace.protocol.messages.end_txn import EndTxnRequest
from headrace.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from headrace.protocol.messages.find_coordinator import FindCoordinatorRequest
from headrace.protocol.messages.init_producer_id import InitProducerIdRequest
from headrace.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from headrace.protocol.messages.list_groups import ListGroupsRequest
from headrace.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from headrace.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from headrace.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from headrace.protocol.records import iter_batches, read_records
from tests.support.group_driver import GroupDriver, name_topic, partition
from tests.support.scenario_groups import GroupStage
from tests.support.story_shard import Followed, sync_version
from tests.support.wire_client import WireClient

OFFSETS: Final = "__consumer_offsets"  # with one partition
PATIENCE_SECONDS: Final = 120.0  # so long the machine may be busy; what needs it is broken
_LATEST: Final = -1
_STARTING: Final = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.CONCURRENT_TRANSACTIONS,
    }
)


class BrokerDriver:
    """Does for a stage what a GroupDriver does, at a broker. Every actor has a connection of its own."""

    now_ms: int = 0

    def __init__(self, client: WireClient, address: str) -> None:
        self._admin = client
        self._address = address
        self._clients: dict[str, WireClient] = {}
        self._sent: dict[Ticket, tuple[WireClient, str, int, int]] = {}
        self._expected: list[Followed] = []
        self._rest: list[Step] = []
        self._ahead = 0  # records of this line that came before they were waited for
        self._producers: dict[int, tuple[str, int, int]] = {}  # transactional id, id and epoch, by the story's number
        self._tickets = iter(range(1, 1_000_000))
        self._probes = iter(range(1_000_000))
        self._numbers: dict[str, int] = {}
        self._position = self._end()
        self.answers: dict[Ticket, Any] = {}
        self.steps: list[Step] = []
        self.image: Image = GroupDriver().image
        self.shard = BrokerShard(self)

    def expect(self, followed: list[Followed], rest: list[Step]) -> None:
        """What the other one did."""
        self._expected = followed
        self._rest = rest
        self._ahead = 0

    def rest(self, stage: GroupStage) -> list[str]:
        """What follows by itself."""
        assert not self._expected, "fewer requests were sent"
        self._receive([ticket for step in self._rest for ticket, _ in step.answers], self._count_rest())
        return stage.news()

    def _count_rest(self) -> int:
        count, self._rest = sum(len(step.records) for step in self._rest), []
        return count

    # Requests

    def send(self, decide: Any) -> Ticket:
        ticket = next(self._tickets)
        followed = self._expected.pop(0)
        decide(self.shard, ticket)
        self._receive(followed.answered, followed.records)
        if ticket in self._sent:
            self._await_states(followed.states)
        return ticket

    def _await_states(self, states: dict[str, tuple[str, int]]) -> None:
        """A request that waits must have been seen before the next one comes, on another connection."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        for group_id, wanted in states.items():
            while True:
                group = self.shard.describe_group(group_id, version=5)
                if (group.group_state, len(group.members)) == wanted:
                    break
                assert time.monotonic() < deadline, f"{group_id} is {group.group_state}, not {wanted}"

    def post(self, ticket: Ticket, actor: str, api: str, version: int, request: Any) -> Step:
        client = self._clients.get(actor)
        if client is None:
            host, _, port = self._address.rpartition(":")
            client = self._clients[actor] = WireClient((host, int(port)))
        correlation_id = client.send(api, version, request, client_id=actor)
        self._sent[ticket] = (client, api, version, correlation_id)
        return Step()

    def _receive(self, tickets: Iterable[Ticket], record_count: int) -> None:
        answers = []
        for ticket in tickets:
            client, api, version, correlation_id = self._sent.pop(ticket)
            response = client.receive(api, version, correlation_id)
            response = ErrorCode(response.results[0].error_code) if api == "DeleteGroups" else response
            self.answers[ticket] = response
            answers.append(Answer(ticket, response))
        written = self._written(record_count)
        for producer_id, records in groupby(written, key=lambda each: each[0]):
            producer = None if producer_id is None else Producer(producer_id, 0)
            self.steps.append(Step(records=tuple(record for _, record in records), producer=producer))
        self.steps.append(Step(answers=tuple(answers)))

    def move(self, _delay_ms: int) -> None:
        """Time passes there by itself; what is waited for is what is to be written."""
        self._receive((), self._count_rest())

    def ask(self, api: str, version: int, request: Any) -> Any:
        return self._admin.ask(api, version, request)

    # The log

    def _written(self, count: int) -> list[tuple[int | None, CoordinatorRecord]]:
        """New records, at least as many as the other one wrote; with whose transaction they are part of.

        What follows by itself may be there before it is waited for: it is not waited for again.
        """
        found: list[tuple[int | None, CoordinatorRecord]] = []
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            found += [each for each in self._fetch() if not str(each[1].key[0]).startswith("probe")]
            if self._ahead + len(found) >= count or time.monotonic() > deadline:
                self._ahead += len(found) - count
                return found
            time.sleep(0.005)  # until it is written, with a deadline

    def _fetch(self) -> list[tuple[int | None, CoordinatorRecord]]:
        asked = FetchPartition(partition=0, fetch_offset=self._position, partition_max_bytes=1 << 22)
        request = FetchRequest(
            max_wait_ms=0, min_bytes=0, max_bytes=1 << 22, topics=[FetchTopic(OFFSETS, partitions=[asked])]
        )
        row = self.ask("Fetch", 12, request).responses[0].partitions[0]
        assert row.error_code == 0, ErrorCode(row.error_code)
        data = bytes(row.records or b"")
        numbers = {producer_id: number for number, (_, producer_id, _) in self._producers.items()}
        found = []
        for position, header in iter_batches(data):
            if not header.is_control:
                found += [
                    (
                        numbers.get(header.producer_id),
                        decode_coordinator_record(GROUP_RECORDS, record.key, record.value),
                    )
                    for record in read_records(data, position)
                    if record.offset >= self._position
                ]
            self._position = header.last_offset + 1
        return found

    def _end(self) -> int:
        request = ListOffsetsRequest(-1, 0, [ListOffsetsTopic(OFFSETS, [ListOffsetsPartition(0, -1, _LATEST)])])
        return int(self.ask("ListOffsets", 7, request).topics[0].partitions[0].offset)

    # Topics

    def make_topic(self, name: str, partitions: int, number: int = 0) -> None:
        if name in self.image.topic_ids:
            request: Any = CreatePartitionsRequest([CreatePartitionsTopic(name, partitions, None)], 30_000)
            code = self.ask("CreatePartitions", 3, request).results[0].error_code
        else:
            request = CreateTopicsRequest([CreatableTopic(name, partitions, 1)], 30_000)
            code = self.ask("CreateTopics", 7, request).topics[0].error_code
        assert code == 0, ErrorCode(code)
        self._numbers[name] = number
        counts = {topic.name: len(topic.partitions) for topic in self.image.topics.values()}
        self._await_topics({**counts, name: partitions})

    def delete_topic(self, name: str) -> None:
        request = DeleteTopicsRequest([DeleteTopicState(name)], timeout_ms=30_000)
        code = self.ask("DeleteTopics", 6, request).responses[0].error_code
        assert code == 0, ErrorCode(code)
        counts = {topic.name: len(topic.partitions) for topic in self.image.topics.values()}
        self._await_topics({topic: count for topic, count in counts.items() if topic != name}, gone=name)
        self._receive((), self._count_rest())

    def _await_topics(self, counts: dict[str, int], gone: str = "") -> None:
        """Until the coordinator knows them: it tells whoever subscribes to them."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            seen = self._probe([*counts, gone] if gone else list(counts))
            if seen == counts:
                break
            assert time.monotonic() < deadline, f"the coordinator knows {seen}, not {counts}"
        ids = {name: self._id_of(name) for name in counts}
        topics = {
            ids[name]: Topic(name, ids[name], dict.fromkeys(range(count), partition()))
            for name, count in counts.items()
        }
        self.image = self.image._replace(topics=topics, topic_ids=ids)
        for name, topic_id in ids.items():
            name_topic(topic_id, name, self._numbers[name])

    def _probe(self, names: list[str]) -> dict[str, int]:
        """The partitions that a new group on these topics gets."""
        if not names:
            return {}
        group_id = f"probe-{next(self._probes)}-{time.monotonic_ns()}"
        joined = ConsumerGroupHeartbeatRequest(group_id, "p", 0, None, None, 60_000, names, None, None, [])
        answer = self.ask("ConsumerGroupHeartbeat", 1, joined)
        assert answer.error_code == 0, answer
        described = self.ask("ConsumerGroupDescribe", 1, ConsumerGroupDescribeRequest([group_id])).groups[0]
        self.ask("ConsumerGroupHeartbeat", 1, ConsumerGroupHeartbeatRequest(group_id, "p", -1))
        self.ask("DeleteGroups", 2, DeleteGroupsRequest([group_id]))
        rows = described.members[0].target_assignment.topic_partitions
        return {row.topic_name: len(row.partitions) for row in rows}

    def _id_of(self, name: str) -> bytes:
        request = MetadataRequest([MetadataRequestTopic(name=name)], allow_auto_topic_creation=False)
        return bytes(self.ask("Metadata", 12, request).topics[0].topic_id)

    # Transactions

    def producer(self, number: int) -> tuple[str, int, int]:
        if number not in self._producers:
            name = f"producer-{number}-{time.monotonic_ns()}"
            made = self._until(lambda: self.ask("InitProducerId", 5, InitProducerIdRequest(name, 60_000)))
            self._producers[number] = (name, made.producer_id, made.producer_epoch)
        return self._producers[number]

    def end_transaction(self, number: int, *, committed: bool) -> None:
        if number not in self._producers:
            return
        name, producer_id, epoch = self._producers[number]
        ended = self._until(lambda: self.ask("EndTxn", 5, EndTxnRequest(name, producer_id, epoch, committed)))
        self._producers[number] = (name, ended.producer_id, ended.producer_epoch)
        wanted = "CompleteCommit" if committed else "CompleteAbort"
        deadline = time.monotonic() + PATIENCE_SECONDS
        while self._transaction_state(name) != wanted:
            assert time.monotonic() < deadline, f"{name} is not {wanted}"

    def _transaction_state(self, name: str) -> str:
        (row,) = self.ask("DescribeTransactions", 0, DescribeTransactionsRequest([name])).transaction_states
        return str(row.transaction_state)

    def _until(self, ask: Callable[[], Any]) -> Any:
        """The answer of a coordinator that is there."""
        self.ask("FindCoordinator", 4, FindCoordinatorRequest(key_type=1, coordinator_keys=["producer"]))
        deadline = time.monotonic() + PATIENCE_SECONDS
        while (response := ask()).error_code in _STARTING:
            assert time.monotonic() < deadline, "there is no coordinator"
        assert not response.error_code, response
        return response

    # The end

    def clean_up(self) -> None:
        """Nothing is left for the next story."""
        for client in self._clients.values():
            client.close()
        listed = self.ask("ListGroups", 5, ListGroupsRequest()).groups
        for group in listed:
            kind = "ConsumerGroupDescribe" if group.group_type.lower() == "consumer" else "DescribeGroups"
            request: Any = (
                ConsumerGroupDescribeRequest([group.group_id])
                if kind == "ConsumerGroupDescribe"
                else DescribeGroupsRequest([group.group_id])
            )
            members = self.ask(kind, 1 if kind == "ConsumerGroupDescribe" else 5, request).groups[0].members
            leaving = [MemberIdentity(member.member_id) for member in members]
            self.ask("LeaveGroup", 5, LeaveGroupRequest(group.group_id, members=leaving))
            self.ask("DeleteGroups", 2, DeleteGroupsRequest([group.group_id]))
        with suppress(AssertionError):
            for name in list(self.image.topic_ids):
                self.delete_topic(name)


class BrokerShard:
    """The doors of a shard, as requests to a broker."""

    next_deadline_ms: int | None = None

    def __init__(self, driver: BrokerDriver) -> None:
        self._driver = driver

    def join_group(self, request: Any, *, ticket: Ticket, client: Client, version: int, now_ms: int) -> Step:
        return self._driver.post(ticket, client.client_id, "JoinGroup", version, request)

    def consumer_group_heartbeat(
        self, request: Any, *, ticket: Ticket, client: Client, version: int, now_ms: int
    ) -> Step:
        return self._driver.post(ticket, client.client_id, "ConsumerGroupHeartbeat", version, request)

    def sync_group(self, request: Any, *, ticket: Ticket, now_ms: int) -> Step:
        version = sync_version(request, None)
        if version >= 5:
            request = request._replace(protocol_type=request.protocol_type or "consumer")
        return self._driver.post(ticket, f"sync-{request.member_id}", "SyncGroup", version, request)

    def heartbeat(self, request: Any, *, ticket: Ticket, now_ms: int) -> Step:
        return self._driver.post(ticket, "anybody", "Heartbeat", 4, request)

    def leave_group(self, request: Any, *, ticket: Ticket, version: int, now_ms: int) -> Step:
        return self._driver.post(ticket, "anybody", "LeaveGroup", version, request)

    def offset_commit(self, request: Any, *, ticket: Ticket, version: int, now_ms: int) -> Step:
        return self._driver.post(ticket, "anybody", "OffsetCommit", version, request)

    def txn_offset_commit(self, request: Any, *, ticket: Ticket, version: int, now_ms: int) -> Step:
        name, producer_id, epoch = self._driver.producer(request.producer_id)
        request = request._replace(transactional_id=name, producer_id=producer_id, producer_epoch=epoch)
        return self._driver.post(ticket, "anybody", "TxnOffsetCommit", version, request)

    def offset_delete(self, request: Any, *, ticket: Ticket) -> Step:
        return self._driver.post(ticket, "anybody", "OffsetDelete", 0, request)

    def delete_group(self, group_id: str, *, ticket: Ticket) -> Step:
        return self._driver.post(ticket, "anybody", "DeleteGroups", 2, DeleteGroupsRequest([group_id]))

    def fetch_offsets(self, asked: OffsetFetchRequestGroup, *, version: int, require_stable: bool) -> Any:
        request = OffsetFetchRequest(groups=[asked], require_stable=require_stable)
        group = self._driver.ask("OffsetFetch", version, request).groups[0]
        names = {topic_id: name for name, topic_id in self._driver.image.topic_ids.items()}
        return group._replace(
            topics=[topic._replace(name=topic.name or names.get(topic.topic_id, "")) for topic in group.topics]
        )

    def describe_group(self, group_id: str, *, version: int) -> Any:
        return self._driver.ask("DescribeGroups", version, DescribeGroupsRequest([group_id])).groups[0]

    def describe_consumer_group(self, group_id: str) -> Any:
        return self._driver.ask("ConsumerGroupDescribe", 1, ConsumerGroupDescribeRequest([group_id])).groups[0]

    def list_groups(self, states: Any, types: Any) -> Any:
        listed = self._driver.ask("ListGroups", 5, ListGroupsRequest(states, types)).groups
        return [group for group in listed if not group.group_id.startswith("probe")]
