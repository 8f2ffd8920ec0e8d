"""A commit that repeats the one before is taken, and refused, as if it had been decoded."""

import asyncio
import errno
import socket
from collections.abc import Sequence
from typing import Any, cast

import pytest

from headrace.log.memory_fs import Fault, MemoryFileSystem
from headrace.protocol.apis import load
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.errors import ProtocolError
from headrace.protocol.frame import ReceiveBuffer
from headrace.protocol.header import write_request_header
from headrace.protocol.messages.delete_groups import DeleteGroupsRequest
from headrace.protocol.messages.headers import RequestHeader
from headrace.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from headrace.protocol.messages.leave_group import LeaveGroupRequest
from headrace.protocol.messages.metadata_records import ClientQuotaRecord, EntityData, PartitionChangeRecord
from headrace.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from headrace.protocol.messages.sync_group import SyncGroupRequest
from headrace.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from headrace.protocol.record_encoding import Payload, Row, encode_rows
from headrace.protocol.records import iter_batches, read_records
from headrace.server import commit_batch
from headrace.server.connection import Connection
from headrace.server.later import Later
from headrace.server.read_ahead import DiskReaders, ReadAhead
from headrace.server.repeated_commits import MAX_TOGETHER, MAX_TRIES
from headrace.server.sending import Outbox
from tests.support.one_node import Asker, OneNode
from tests.support.two_brokers import TwoBrokers

COMMIT = 8
OFFSETS_TOPIC = "__consumer_offsets"
VERSIONS = [6, 7, 8, 9, 10]
TOPIC_IDS_SINCE = 10
FLEXIBLE_SINCE = 8

Rows = Sequence[tuple[int, int, int, str | None]]  # partition, offset, leader epoch, metadata


class Duel(TwoBrokers):
    def __init__(self, version: int = 9) -> None:
        super().__init__(version)
        self.topic_ids = [node.create_topic("t", partitions=200) for node in self.nodes]
        self.change(lambda node: node.create_topic("u", partitions=2))
        self.change(lambda node: node.create_topic(OFFSETS_TOPIC, 1, cleanup_policy="compact"))

    def ask(self, api: str, version: int, request: Any) -> Any:
        """Something else than a commit, and what the one that remembers says."""
        answers = [node.ask(api, version, request) for node in self.nodes]
        assert answers[0] == answers[1]
        return answers[0]

    def frame(self, rows: Rows, *, number: int = 1, topics: Sequence[str] = ("t",), **who: Any) -> bytes:
        image = self.remembering.controller.image
        committed = [
            OffsetCommitRequestTopic(
                name if self.version < TOPIC_IDS_SINCE else "",
                image.topic_ids.get(name, bytes(15) + b"x") if self.version >= TOPIC_IDS_SINCE else bytes(16),
                [OffsetCommitRequestPartition(*row) for row in rows],
            )
            for name in topics
        ]
        request = OffsetCommitRequest("g", topics=committed)._replace(**who)
        header = write_request_header(RequestHeader(COMMIT, self.version, number, "client"))
        return b"".join([header, *load(COMMIT).encode_request[self.version](request)])

    def commit(self, *rows: tuple[int, int, int, str | None], **how: Any) -> set[ErrorCode]:
        """The error codes that both tell."""
        answer = self.send(self.frame(rows, **how))
        assert isinstance(answer, bytes), answer
        body_at = 9 if self.version >= FLEXIBLE_SINCE else 8
        response = load(COMMIT).decode_response[self.version](answer, memoryview(answer), body_at, len(answer))
        return {ErrorCode(row.error_code) for topic in response.topics for row in topic.partitions}

    def send(self, frame: bytes) -> object:
        answers = [_outcome(self.remembering, self.asker, frame), _outcome(self.forgetful, Asker(), frame)]
        assert answers[0] == answers[1]
        self.check()
        return answers[0]

    def check(self) -> None:
        """Both have written the same, know the same, and would find the same in their logs."""
        assert _written(self.remembering) == _written(self.forgetful)
        known = [_known(node) for node in self.nodes]
        assert known[0] == known[1]

    def serve_together(self, frames: Sequence[bytes]) -> tuple[int, bytes]:
        """By what the first broker remembers alone: how many are served, and what is said."""
        repeated = self.asker.repeated_commits
        assert repeated is not None
        buffer, ranges = bytearray(), []
        for frame in frames:
            start = len(buffer) + 4
            ranges.append((start, start + len(frame)))
            buffer += len(frame).to_bytes(4, "big") + frame
        return repeated.serve(buffer, ranges)

    def repeats(self, frame: bytes) -> bool:
        """Is a request like this answered without being decoded? It is."""
        return self.serve_together([frame])[0] == 1


def _outcome(node: OneNode, asker: Asker, frame: bytes) -> object:
    """The bytes of the answer, or what is wrong with the request."""
    buffer = bytearray(b"before" + frame + b"behind")
    start, end = 6, 6 + len(frame)
    try:
        reply = node.dispatcher.serve(cast("Connection", asker), buffer, memoryview(buffer), start, end)
    except ProtocolError as error:
        return type(error)
    buffer[:] = bytes(len(buffer))
    assert not isinstance(reply, Later)
    return reply and b"".join(cast("list[bytes]", reply))


def _written(node: OneNode) -> object:
    log = node.partition(OFFSETS_TOPIC).log
    return log.log_end_offset, log.high_watermark, log.read(0, max_bytes=1 << 20).read()


def _records(node: OneNode) -> list[object]:
    """Whatever batches they stand in."""
    data = node.partition(OFFSETS_TOPIC).log.read(0, max_bytes=1 << 20).read()
    return [record for position, _ in iter_batches(data) for record in read_records(data, position)]


def _batch_sizes(node: OneNode) -> list[int]:
    data = node.partition(OFFSETS_TOPIC).log.read(0, max_bytes=1 << 20).read()
    return [header.record_count for _, header in iter_batches(data)]


def _check_replay(node: OneNode) -> None:
    """A coordinator that starts again finds in the log what the one before knew."""
    before = _known(node)
    groups = node.coordinators.groups
    groups.drop(0)
    groups.look("g", lambda _: None, lambda _: None)
    assert _known(node) == before


def _known(node: OneNode) -> object:
    place = node.coordinators.groups.loaded_place(0)
    assert place is not None
    shard = place.shard
    return {name: (shard.offsets.of_group(name), shard.offsets.has_pending(name)) for name in shard.groups}


@pytest.mark.parametrize("version", VERSIONS)
def test_a_commit_like_the_one_before_is_not_decoded(version: int) -> None:
    duel = Duel(version)
    for number, offset in enumerate((5, 0, -1, 1 << 62)):
        assert duel.commit((3, offset, number, ""), number=number) == {ErrorCode.NONE}
    assert duel.repeats(duel.frame([(3, 7, 1, "")], number=3))


@pytest.mark.parametrize("version", VERSIONS)
def test_a_commit_of_several_partitions_and_topics_is_not_decoded(version: int) -> None:
    duel = Duel(version)
    for offset in (1, 300, 70_000):
        rows = [(0, offset, 4, "so far"), (1, offset + 1, -1, None), (0, offset + 2, 5, "é" * 100)]
        assert duel.commit(*rows, topics=("u", "t")) == {ErrorCode.NONE}
    assert duel.repeats(duel.frame(rows, topics=("u", "t")))
    assert not duel.repeats(duel.frame(rows, topics=("t", "u")))


@pytest.mark.parametrize("version", [2, 5])
def test_a_commit_without_leader_epochs_goes_the_long_way(version: int) -> None:
    duel = Duel(version)
    for retention_ms in (-1, 1000, 1000):
        assert duel.commit((0, 5, -1, ""), retention_time_ms=retention_ms if version < 5 else -1) == {ErrorCode.NONE}
    assert not duel.repeats(duel.frame([(0, 5, -1, "")]))


@pytest.mark.parametrize("version", [7, 9, 10])
def test_any_other_byte_is_answered_as_if_nothing_were_remembered(version: int) -> None:
    duel = Duel(version)
    frame = duel.frame([(0, 5, 6, "m"), (1, 7, 8, "")])
    for place in range(len(frame)):
        for change in (0x01, 0x80):
            duel.asker.repeated_commits = None
            duel.send(frame)
            assert duel.repeats(frame)
            _outcome(duel.forgetful, Asker(), frame)
            altered = bytearray(frame)
            altered[place] ^= change
            duel.send(bytes(altered))
            duel.send(frame)  # what was learned from the altered one does no harm


@pytest.mark.parametrize("cut", range(1, 40))
def test_a_request_that_is_cut_off_is_answered_as_if_nothing_were_remembered(cut: int) -> None:
    duel = Duel()
    duel.commit((0, 5, 6, ""))
    duel.send(duel.frame([(0, 5, 6, "")])[:-cut])


def test_what_follows_a_request_is_ignored_before_and_after() -> None:
    duel = Duel()
    frame = duel.frame([(0, 5, 6, "")])
    for more in (b"\0\0", b"", b"\0", b"\0\0\0"):
        assert duel.send(frame + more)
    assert duel.repeats(frame)
    assert not duel.repeats(frame + b"\0")


def test_tags_that_nobody_knows_change_nothing() -> None:
    duel = Duel()
    for offset in (1, 2, 3):
        assert duel.commit((0, offset, 6, ""), unknown_tags=((99, bytes(range(40))),)) == {ErrorCode.NONE}


def test_who_may_commit_is_asked_each_time() -> None:
    duel = Duel()
    member_id = _join(duel)
    member: dict[str, Any] = {"generation_id_or_member_epoch": 1, "member_id": member_id}
    outside: dict[str, Any] = {}
    for who, code in ((member, ErrorCode.NONE), (outside, ErrorCode.UNKNOWN_MEMBER_ID)) * 2:
        assert duel.commit((0, 5, 1, ""), **who) == {code}
    assert duel.repeats(duel.frame([(0, 6, 1, "")], **member))
    _outcome(duel.forgetful, Asker(), duel.frame([(0, 6, 1, "")], **member))
    rejoined = {**member, "generation_id_or_member_epoch": 2}
    assert _join(duel, member_id, syncs=False) == member_id
    assert duel.commit((0, 7, 1, ""), **member) == {ErrorCode.ILLEGAL_GENERATION}
    assert duel.commit((0, 7, 1, ""), **rejoined) == {ErrorCode.REBALANCE_IN_PROGRESS}
    duel.ask("LeaveGroup", 2, LeaveGroupRequest("g", member_id))
    assert duel.commit((0, 8, 1, ""), **rejoined) == {ErrorCode.UNKNOWN_MEMBER_ID}
    assert duel.commit((0, 8, 1, "")) == {ErrorCode.NONE}


def _join(duel: Duel, member_id: str = "", *, syncs: bool = True) -> str:
    """As the only member; its id."""
    request = JoinGroupRequest(
        "g", 60_000, 60_000, member_id, protocol_type="consumer", protocols=[JoinGroupRequestProtocol("range", b"x")]
    )
    answers = [node.send("JoinGroup", 3, request) for node in duel.nodes]
    duel.change(lambda node: node.clock.move(5_000))  # others may come meanwhile
    joined = answers[0].response
    assert joined == answers[1].response
    if syncs:
        duel.ask("SyncGroup", 3, SyncGroupRequest("g", joined.generation_id, joined.member_id))
    return str(joined.member_id)


@pytest.mark.parametrize("by_ms", [-3_600_000, 3_600_000])
def test_a_clock_that_is_set_does_not_end_the_session_of_who_commits(by_ms: int) -> None:
    duel = Duel()
    member: dict[str, Any] = {"generation_id_or_member_epoch": 1, "member_id": _join(duel)}
    duel.commit((0, 5, 1, ""), **member)
    duel.change(lambda node: node.clock.set(by_ms))
    for offset in range(3):
        assert duel.commit((0, offset, 1, ""), **member) == {ErrorCode.NONE}
        duel.change(lambda node: node.clock.move(50_000))
    assert duel.repeats(duel.frame([(0, 8, 1, "")], **member))


def test_a_group_that_was_deleted_begins_anew() -> None:
    duel = Duel()
    duel.commit((0, 5, 1, ""))
    duel.ask("DeleteGroups", 2, DeleteGroupsRequest(["g"]))
    assert duel.commit((0, 6, 1, "")) == {ErrorCode.NONE}
    assert duel.repeats(duel.frame([(0, 7, 1, "")]))


@pytest.mark.parametrize("version", [9, 10])
def test_a_topic_that_is_gone_takes_no_more_commits(version: int) -> None:
    duel = Duel(version)
    duel.commit((0, 5, 1, ""))
    frame = duel.frame([(0, 6, 1, "")])
    duel.change(lambda node: node.delete_topic("t"))
    assert not duel.repeats(frame)
    duel.send(frame)
    duel.change(lambda node: node.create_topic("t", partitions=1))
    duel.send(frame)  # the same name, or the id of the one before
    assert duel.commit((0, 7, 1, "")) == {ErrorCode.NONE}
    assert duel.commit((1, 7, 1, "")) == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


def test_a_commit_counts_more_than_what_waits_for_the_end_of_a_transaction() -> None:
    duel = Duel()
    duel.commit((0, 5, 1, ""))
    rows = [TxnOffsetCommitRequestTopic("t", [TxnOffsetCommitRequestPartition(0, 4)])]
    duel.ask("TxnOffsetCommit", 2, TxnOffsetCommitRequest("x", "g", 7, 0, topics=rows))
    duel.commit((0, 6, 1, ""))
    place = duel.remembering.coordinators.groups.loaded_place(0)
    assert place is not None
    place.shard.offsets.replay_end(7, committed=True)
    assert place.shard.offsets.of_group("g")["t"][0].offset == 6


def test_a_log_with_its_own_time_may_become_one_without() -> None:
    duel = Duel()
    for kind in ("LogAppendTime", "CreateTime", "LogAppendTime"):
        duel.change(lambda node, kind=kind: node.set_config(OFFSETS_TOPIC, "message.timestamp.type", kind))  # type: ignore[misc]
        for offset in range(3):
            duel.change(lambda node: node.clock.move(10))
            assert duel.commit((0, offset, 1, "")) == {ErrorCode.NONE}


def test_an_answer_that_waits_for_a_sync_goes_the_long_way() -> None:
    duel = Duel()
    duel.commit((0, 5, 1, ""))
    partition = duel.remembering.partition(OFFSETS_TOPIC)
    assert duel.repeats(duel.frame([(0, 6, 1, "")]))
    partition.flushes_every_append = True
    assert not duel.repeats(duel.frame([(0, 7, 1, "")]))


def test_who_leads_the_partition_is_asked_each_time() -> None:
    duel = Duel()
    duel.commit((0, 5, 1, ""))
    frame = duel.frame([(0, 6, 1, "")])
    for node in duel.nodes:
        topic_id = node.controller.image.topic_ids[OFFSETS_TOPIC]
        node.controller.write(PartitionChangeRecord(0, topic_id, leader=2, replicas=[1, 2], isr=[2]))
    assert not duel.repeats(frame)
    assert _outcome(duel.remembering, duel.asker, frame) == _outcome(duel.forgetful, Asker(), frame)


def test_what_the_disk_has_refused_once_is_written_the_long_way() -> None:
    duel = Duel()
    duel.commit((0, 5, 1, ""))
    fault = Fault("append", errno.ENOSPC, path_end=".log", written_bytes=10)
    cast("MemoryFileSystem", duel.remembering.fs).faults.append(fault)
    assert duel.commit((0, 6, 1, "")) == {ErrorCode.NONE}
    assert fault.times == 0
    duel.commit((0, 7, 1, ""))


def test_with_a_quota_each_request_is_counted() -> None:
    duel = Duel()
    duel.commit((0, 5, 1, ""))
    quota = ClientQuotaRecord([EntityData("client-id", "client")], "request_percentage", 1.0)
    duel.change(lambda node: node.controller.write(quota))
    duel.commit((0, 6, 1, ""))
    assert not duel.repeats(duel.frame([(0, 7, 1, "")]))


def test_what_goes_around_handlers_sees_each_request() -> None:
    duel = Duel()
    duel.commit((0, 5, 1, ""))
    seen = duel.remembering.watch_handlers()
    duel.commit((0, 6, 1, ""))
    duel.commit((0, 7, 1, ""))
    assert len(seen) == 2


def test_a_connection_whose_commits_are_always_others_does_without() -> None:
    duel = Duel()
    for partition in range(MAX_TRIES - 1):
        duel.commit((partition, 5, 1, ""))
    assert duel.repeats(duel.frame([(MAX_TRIES - 2, 6, 1, "")]))  # which begins the count anew
    _outcome(duel.forgetful, Asker(), duel.frame([(MAX_TRIES - 2, 6, 1, "")]))
    for partition in range(MAX_TRIES + 1):
        duel.commit((partition, 5, 1, "more"))
    assert not duel.repeats(duel.frame([(MAX_TRIES, 6, 1, "more")]))


@pytest.mark.parametrize("count", [2, 5, MAX_TOGETHER, MAX_TOGETHER + 3])
def test_commits_that_come_together_are_written_together(count: int) -> None:
    duel = Duel()
    rows = [(0, 5, 1, "m"), (199, 6, 2, "")]
    duel.commit(*rows)
    frames = [
        duel.frame([(0, 100 + number, number, "m"), (199, 1 << number % 60, -1, "")], number=number)
        for number in range(count)
    ]
    answers = [_outcome(duel.forgetful, Asker(), frame) for frame in frames]
    served, said = duel.serve_together(frames)
    assert served == min(count, MAX_TOGETHER)
    assert said == b"".join(cast("list[bytes]", answers[:served]))
    rest = [_outcome(duel.remembering, duel.asker, frame) for frame in frames[served:]]
    assert rest == answers[served:]
    assert _known(duel.remembering) == _known(duel.forgetful)
    assert _records(duel.remembering) == _records(duel.forgetful)
    assert _batch_sizes(duel.remembering) == [2, 2 * served, *[2] * (count - served)]
    _check_replay(duel.remembering)


def test_many_commits_of_many_partitions_are_written_together_with_work_that_grows_as_they_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    duel = Duel()
    rows = [(partition, 5, 1, "") for partition in range(100)]
    assert duel.commit(*rows) == {ErrorCode.NONE}
    encoded = []

    def count_rows(rows: Sequence[Row]) -> Payload:
        encoded.append(len(rows))
        return encode_rows(rows)

    monkeypatch.setattr(commit_batch, "encode_rows", count_rows)
    frames = [duel.frame(rows, number=number) for number in range(MAX_TOGETHER)]
    assert duel.serve_together(frames)[0] == MAX_TOGETHER
    assert sum(encoded) == 2 * len(rows) * MAX_TOGETHER
    for frame in frames:
        _outcome(duel.forgetful, Asker(), frame)
    assert _known(duel.remembering) == _known(duel.forgetful)
    assert _records(duel.remembering) == _records(duel.forgetful)


def test_what_comes_together_with_other_requests_is_served_as_far_as_it_is_alike() -> None:
    duel = Duel()
    alike, other = duel.frame([(0, 5, 1, "")]), duel.frame([(1, 5, 1, "")])
    duel.commit((0, 5, 1, ""))
    for frames, count in (([alike, alike, other, alike], 2), ([other, alike], 0), ([alike, alike + b"\0"], 1)):
        assert duel.serve_together(frames)[0] == count


def test_commits_that_do_not_fit_into_one_batch_are_written_one_by_one() -> None:
    duel = Duel()
    duel.change(lambda node: node.set_config(OFFSETS_TOPIC, "max.message.bytes", "200"))
    duel.commit((0, 5, 1, ""))
    frame = duel.frame([(0, 6, 1, "")])
    assert duel.serve_together([frame] * 5) == (0, b"")
    assert duel.repeats(frame)


def test_a_connection_answers_commits_of_one_read_in_order() -> None:
    duel = Duel()
    node = duel.remembering

    async def story() -> None:
        loop = asyncio.get_running_loop()
        server, client = socket.socketpair()
        server.setblocking(False)
        client.setblocking(False)
        connection = Connection(
            loop,
            server,
            ReceiveBuffer(),
            Outbox(loop),
            node.dispatcher.serve,
            read_ahead=ReadAhead(DiskReaders(loop)),
            listener="PLAINTEXT",
            max_frame_bytes=1000,
            max_in_flight=10,
            on_close=lambda _: None,
        )
        first, others = 1, range(2, 9)
        for numbers in ((first,), others):
            frames = [duel.frame([(number == 6, number, 1, "")], number=number) for number in numbers]
            await loop.sock_sendall(client, b"".join(len(frame).to_bytes(4, "big") + frame for frame in frames))
            for number in numbers:
                head = await _receive(client, 8)
                assert head[4:] == number.to_bytes(4, "big")
                await _receive(client, int.from_bytes(head[:4], "big") - 4)
        connection.close("the test is over")
        client.close()

    asyncio.run(story())
    assert _batch_sizes(node) == [1, 4, 1, 1, 1]  # the first; four of its kind; another one, and those behind it
    _check_replay(node)


async def _receive(client: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = await asyncio.wait_for(asyncio.get_running_loop().sock_recv(client, size - len(data)), 120)
        assert more, "the connection was closed"
        data += more
    return data


def test_a_long_request_is_not_remembered() -> None:
    duel = Duel()
    rows = [(partition, 5, 1, "") for partition in range(150)]
    assert duel.commit(*rows) == {ErrorCode.NONE}
    assert not duel.repeats(duel.frame(rows))
