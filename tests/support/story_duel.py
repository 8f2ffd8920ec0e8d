"""A story is played twice, line by line: by a shard in this process, and by a real broker over the wire.

What both answer and write must be the same. The shard goes first; then it is known which answers to wait for at the
broker, and how many records. Ids that a coordinator makes up are replaced by the names of those who got them; times,
log lines, the words of error messages and what a broker says about the next heartbeat are left out; records that are
written at once, and partitions, are put in order.
"""

import re
import time
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, Final

from headrace.cluster.image import Image, Topic
from headrace.coordinator.result import Answer, Client, Step, Ticket
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
from headrace.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from headrace.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from headrace.protocol.messages.list_groups import ListGroupsRequest
from headrace.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from headrace.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from headrace.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from headrace.protocol.records import iter_batches, read_records
from tests.support.group_driver import GroupDriver, name_topic, partition
from tests.support.scenario import Story, Verb, happen, is_action
from tests.support.scenario_groups import GroupStage
from tests.support.wire_client import WireClient

OFFSETS: Final = "__consumer_offsets"  # with one partition
PATIENCE_SECONDS: Final = 30.0
_LATEST: Final = -1
_TIMES: Final = re.compile(r" (at|since|expires) (\+\d+ ms|unknown|never)|, next in \d+ ms")


def fight(story: Story, verbs: dict[str, Verb], configs: dict[str, str], client: WireClient, address: str) -> None:
    """Raises AssertionError at the first line after which they differ."""
    ours, theirs = GroupStage(), GroupStage()
    ours.configs.update(configs)
    broker = BrokerDriver(client, address)
    theirs._driver = broker  # type: ignore[assignment]
    try:
        for line in story.lines:
            if is_action(line) and not line.startswith("config "):
                before = len(ours.driver.steps)
                our_lines = [*happen(line, ours, verbs), *happen("clock 0ms", ours, verbs)]  # and what is due at once
                broker.expect(ours.driver.steps[before:])
                their_lines = [*happen(line, theirs, verbs), *theirs.news()]
                told, expected = _plain(theirs, their_lines), _plain(ours, our_lines)
                assert told == expected, _difference(line, told, expected)
    finally:
        broker.clean_up()


def _difference(line: str, theirs: list[str], ours: list[str]) -> str:
    only_theirs = [f"  Kafka: {each}" for each in theirs if each not in ours]
    only_ours = [f"  Headrace: {each}" for each in ours if each not in theirs]
    return "\n".join([line, *only_theirs, *only_ours])


def _plain(stage: GroupStage, lines: Iterable[str]) -> list[str]:
    names = {each.member_id: f"<{actor}>" for (actor, _), each in stage.memberships.items() if each.member_id != actor}
    plain = []
    for line in lines:
        text = _TIMES.sub("", re.sub(r"^\+\d+ ms ", "", line))
        if text.startswith("log "):
            continue
        for member_id in sorted(filter(None, names), key=len, reverse=True):
            text = re.sub(rf"(?<![\w.-]){re.escape(member_id)}(?![\w.-])", names[member_id], text)
        if not text.startswith("writes "):
            text = re.sub(r"members (.*)", lambda found: f"members {' '.join(sorted(found[1].split()))}", text)
            text = re.sub(r"([A-Z_]{3}): .*", r"\1", re.sub(r"\S+/\S+ assigns", "assigns", text))
        plain.append("; ".join(sorted(" ".join(_in_order(text.split(" "))).split("; "))))
    return sorted(plain)


def _in_order(words: list[str]) -> list[str]:
    """Runs of partitions, sorted."""
    done: list[str] = []
    run: list[str] = []
    for word in [*words, ""]:
        if re.fullmatch(r"[\w#.-]+-\d+(@\d+)?", word) and not word.startswith("<"):
            run.append(word)
        else:
            done += [*sorted(run), word]
            run = []
    return done[:-1]


class BrokerDriver:
    """Does for a stage what a GroupDriver does, at a broker. Every actor has a connection of its own."""

    now_ms: int = 0

    def __init__(self, client: WireClient, address: str) -> None:
        self._admin = client
        self._address = address
        self._clients: dict[str, WireClient] = {}
        self._sent: dict[Ticket, tuple[WireClient, str, int, int]] = {}
        self._expected: dict[Ticket, None] = {}
        self._expected_records = 0
        self._tickets = iter(range(1, 1_000_000))
        self._probes = iter(range(1_000_000))
        self._numbers: dict[str, int] = {}
        self._position = self._end()
        self.answers: dict[Ticket, Any] = {}
        self.steps: list[Step] = []
        self.image: Image = GroupDriver().image
        self.shard = BrokerShard(self)

    def expect(self, steps: Iterable[Step]) -> None:
        """What the other one did."""
        for step in steps:
            self._expected |= {ticket: None for ticket, _ in step.answers}
            self._expected_records += len(step.records)

    # Requests

    def send(self, decide: Any) -> Ticket:
        ticket = next(self._tickets)
        decide(self.shard, ticket)
        self._receive()
        return ticket

    def post(self, ticket: Ticket, actor: str, api: str, version: int, request: Any) -> Step:
        client = self._clients.get(actor)
        if client is None:
            host, _, port = self._address.rpartition(":")
            client = self._clients[actor] = WireClient((host, int(port)))
        correlation_id = client.send(api, version, request, client_id=actor)
        self._sent[ticket] = (client, api, version, correlation_id)
        return Step()

    def _receive(self) -> None:
        answers = []
        for ticket in [ticket for ticket in self._expected if ticket in self._sent]:
            client, api, version, correlation_id = self._sent.pop(ticket)
            del self._expected[ticket]
            response = client.receive(api, version, correlation_id)
            response = ErrorCode(response.results[0].error_code) if api == "DeleteGroups" else response
            self.answers[ticket] = response
            answers.append(Answer(ticket, response))
        self.steps.append(Step(answers=tuple(answers), records=() if self._expected else self._written()))

    def move(self, _delay_ms: int) -> None:
        """Time passes there by itself; what is waited for is what is to be written."""
        self.steps.append(Step(records=self._written()))

    def ask(self, api: str, version: int, request: Any) -> Any:
        return self._admin.ask(api, version, request)

    # The log

    def _written(self) -> tuple[CoordinatorRecord, ...]:
        """New records, at least as many as the other one wrote."""
        found: list[CoordinatorRecord] = []
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            found += [record for record in self._fetch() if not str(record.key[0]).startswith("probe")]
            if len(found) >= self._expected_records or time.monotonic() > deadline:
                self._expected_records = 0
                return tuple(found)
            time.sleep(0.005)  # until it is written, with a deadline

    def _fetch(self) -> list[CoordinatorRecord]:
        asked = FetchPartition(partition=0, fetch_offset=self._position, partition_max_bytes=1 << 22)
        request = FetchRequest(
            max_wait_ms=0, min_bytes=0, max_bytes=1 << 22, topics=[FetchTopic(OFFSETS, partitions=[asked])]
        )
        row = self.ask("Fetch", 12, request).responses[0].partitions[0]
        assert row.error_code == 0, ErrorCode(row.error_code)
        data = bytes(row.records or b"")
        found = []
        for position, header in iter_batches(data):
            if not header.is_control:
                found += [
                    decode_coordinator_record(GROUP_RECORDS, record.key, record.value)
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
        if request.protocol_name is None:
            return self._driver.post(ticket, f"sync-{request.member_id}", "SyncGroup", 4, request)
        request = request._replace(protocol_type=request.protocol_type or "consumer")  # both must be said, or neither
        return self._driver.post(ticket, f"sync-{request.member_id}", "SyncGroup", 5, request)

    def heartbeat(self, request: Any, *, ticket: Ticket, now_ms: int) -> Step:
        return self._driver.post(ticket, "anybody", "Heartbeat", 4, request)

    def leave_group(self, request: Any, *, ticket: Ticket, version: int, now_ms: int) -> Step:
        return self._driver.post(ticket, "anybody", "LeaveGroup", version, request)

    def offset_commit(self, request: Any, *, ticket: Ticket, version: int, now_ms: int) -> Step:
        return self._driver.post(ticket, "anybody", "OffsetCommit", version, request)

    def offset_delete(self, request: Any, *, ticket: Ticket) -> Step:
        return self._driver.post(ticket, "anybody", "OffsetDelete", 0, request)

    def delete_group(self, group_id: str, *, ticket: Ticket) -> Step:
        return self._driver.post(ticket, "anybody", "DeleteGroups", 2, DeleteGroupsRequest([group_id]))

    def fetch_offsets(self, asked: OffsetFetchRequestGroup, *, version: int, require_stable: bool) -> Any:
        request = OffsetFetchRequest(groups=[asked], require_stable=require_stable)
        return self._driver.ask("OffsetFetch", version, request).groups[0]

    def describe_group(self, group_id: str, *, version: int) -> Any:
        return self._driver.ask("DescribeGroups", version, DescribeGroupsRequest([group_id])).groups[0]

    def describe_consumer_group(self, group_id: str) -> Any:
        return self._driver.ask("ConsumerGroupDescribe", 1, ConsumerGroupDescribeRequest([group_id])).groups[0]

    def list_groups(self, states: Any, types: Any) -> Any:
        listed = self._driver.ask("ListGroups", 5, ListGroupsRequest(states, types)).groups
        return [group for group in listed if not group.group_id.startswith("probe")]
