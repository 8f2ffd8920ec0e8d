"""A fetch that repeats the one before is answered as if it had been decoded, whatever has happened meanwhile."""

from collections.abc import Callable
from typing import Any, cast

import pytest

from headrace.log.memory_fs import Fault, MemoryFileSystem
from headrace.protocol.apis import load
from headrace.protocol.errors import ProtocolError
from headrace.protocol.header import write_request_header
from headrace.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from headrace.protocol.messages.headers import RequestHeader
from headrace.protocol.messages.metadata_records import ClientQuotaRecord, EntityData, PartitionChangeRecord
from headrace.protocol.records import build_end_transaction_marker
from headrace.server.connection import Connection
from headrace.server.later import Later
from headrace.server.repeated_fetch import FETCH_KEY, MAX_REQUEST_BYTES, MAX_TRIES
from tests.support.log_batches import a_batch
from tests.support.one_node import NOW_MS, Asker, OneNode
from tests.support.two_brokers import TwoBrokers

VERSIONS = range(12, 19)
COMMITTED = 1
WAITING = "waiting"


class Duel(TwoBrokers):
    def __init__(self, version: int = 16, topic: str = "t") -> None:
        super().__init__(version)
        self.topic = topic
        self.topic_ids = [node.create_topic(topic, partitions=MAX_TRIES + 2) for node in self.nodes]
        assert self.topic_ids[0] == self.topic_ids[1]

    def append(self, *values: bytes, partition: int = 0, **how: Any) -> None:
        self.change(
            lambda node: node.partition(self.topic, partition).append(a_batch(*values, **how), acks=1, now_ms=NOW_MS)
        )

    def frame(
        self, offset: int, *, number: int = 1, partition: int = 0, client: str = "client", **fields: Any
    ) -> bytes:
        row = FetchPartition(partition, fetch_offset=offset, partition_max_bytes=1000)
        row = row._replace(**fields.pop("row", {}))
        topic = FetchTopic(self.topic, self.topic_ids[0], [row])
        request = FetchRequest(max_wait_ms=500, min_bytes=1, topics=[topic])._replace(**fields)
        header = write_request_header(RequestHeader(FETCH_KEY, self.version, number, client))
        return b"".join([header, *load(FETCH_KEY).encode_request[self.version](request)])

    def fetch(self, offset: int, **how: Any) -> "Answers":
        return self.send(self.frame(offset, **how))

    def send(self, frame: bytes) -> "Answers":
        """What both say, which is the same."""
        return Answers(_Answer(self.remembering, self.asker, frame), _Answer(self.forgetful, Asker(), frame))

    def repeats(self, frame: bytes) -> bool:
        """Is a request like this answered without being decoded?"""
        repeated = self.asker.repeated_fetch
        assert repeated is not None
        reply = repeated.serve(cast("Connection", self.asker), bytearray(frame), 0, len(frame))
        if isinstance(reply, Later):
            reply.abandon()
        return reply is not None


class _Answer:
    """The bytes of an answer, what is wrong with the request, or WAITING."""

    def __init__(self, node: OneNode, asker: Asker, frame: bytes) -> None:
        self.outcome: object = WAITING
        buffer = bytearray(b"before" + frame + b"behind")
        start, end = 6, 6 + len(frame)
        try:
            reply = node.dispatcher.serve(cast("Connection", asker), buffer, memoryview(buffer), start, end)
        except ProtocolError as error:
            self.outcome = type(error)
            return
        buffer[:] = bytes(len(buffer))  # it is shared: nothing of it may be needed any more
        if isinstance(reply, Later):
            self.later = reply
            reply.then(self._take)
        else:
            assert reply is not None
            self._take(reply)

    def _take(self, reply: Any) -> None:
        data = b"".join(part if isinstance(part, bytes | bytearray | memoryview) else part.read() for part in reply)
        assert int.from_bytes(data[:4], "big") == len(data) - 4
        self.outcome = data


class Answers:
    def __init__(self, quick: _Answer, slow: _Answer) -> None:
        self.quick, self.slow = quick, slow

    @property
    def outcome(self) -> object:
        assert self.quick.outcome == self.slow.outcome
        return self.quick.outcome

    def row(self, version: int = 16) -> Any:
        answer = self.outcome
        assert isinstance(answer, bytes), answer
        response = load(FETCH_KEY).decode_response[version](answer, memoryview(answer), 9, len(answer))
        return response.responses[0].partitions[0]


@pytest.fixture
def duel() -> Duel:
    """The consumer waits at offset 1, for the second time."""
    duel = Duel()
    duel.append(b"a")
    duel.fetch(0)
    return duel


@pytest.mark.parametrize("version", VERSIONS)
def test_a_fetch_like_the_one_before_is_not_decoded(version: int) -> None:
    duel = Duel(version)
    duel.append(b"a")
    duel.append(b"b")
    assert duel.fetch(0).row(version).high_watermark == 2
    assert bytes(duel.fetch(1, number=2).row(version).records)[:8] == (1).to_bytes(8, "big")
    assert duel.repeats(duel.frame(1, number=3))


@pytest.mark.parametrize("name", ["ABCDEFGH", "00000000", "ABCDEFGH" * 4])
def test_an_offset_is_not_looked_for_in_a_name(name: str) -> None:
    duel = Duel(version=12, topic=name)
    for _ in range(3):
        duel.append(b"a")
    for offset in range(3):
        assert bytes(duel.fetch(offset).row(12).records)[:8] == offset.to_bytes(8, "big")
    assert duel.repeats(duel.frame(1))


@pytest.mark.parametrize("size", [1, 60, 900, 5_000, 20_000, 70_000, 3_000_000])
@pytest.mark.parametrize("version", [12, 16])
def test_records_may_have_any_size(version: int, size: int) -> None:
    duel = Duel(version)
    duel.change(lambda node: node.set_config("t", "max.message.bytes", str(4 << 20)))
    for value in (b"first", bytes(size), b"last"):
        duel.append(value)
    for offset in range(3):
        assert duel.fetch(offset).row(version).error_code == 0
    assert duel.repeats(duel.frame(1))


def test_a_fetch_takes_no_more_than_it_asked_for_and_a_batch_at_least(duel: Duel) -> None:
    for _ in range(20):
        duel.append(bytes(100))
    duel.append(bytes(5000))
    sizes = [len(duel.fetch(offset, number=offset).row().records) for offset in range(22)]
    assert max(sizes[:20]) <= 1000 < sizes[21]


def test_at_the_end_of_the_log_it_waits_for_the_next_record(duel: Duel) -> None:
    answers = duel.fetch(1, number=5)
    assert answers.outcome == WAITING
    assert duel.repeats(duel.frame(1))
    duel.append(b"news")
    assert answers.row().high_watermark == 2
    assert b"news" in bytes(answers.row().records)


def test_when_time_is_up_it_is_told_that_there_is_nothing(duel: Duel) -> None:
    answers = duel.fetch(1)
    duel.change(lambda node: node.clock.move(499))
    assert answers.outcome == WAITING
    duel.change(lambda node: node.clock.move(1))
    assert (answers.row().error_code, bytes(answers.row().records)) == (0, b"")


def test_an_append_elsewhere_does_not_wake_it(duel: Duel) -> None:
    answers = duel.fetch(1)
    duel.append(b"other", partition=1)
    assert answers.outcome == WAITING


def test_deleting_the_records_it_waits_behind_does_not_wake_it(duel: Duel) -> None:
    answers = duel.fetch(1)
    duel.change(lambda node: node.partition("t").advance_log_start(1))
    assert answers.outcome == WAITING
    duel.append(b"news")
    assert answers.row().log_start_offset == 1


def test_many_may_wait_and_are_woken_by_one_append(duel: Duel) -> None:
    answers = [duel.fetch(1, number=number) for number in range(5)]
    duel.append(b"news")
    assert all(b"news" in bytes(each.row().records) for each in answers)
    assert not duel.remembering.partition("t").watchers


def test_a_client_that_goes_leaves_nothing_behind(duel: Duel) -> None:
    answers = duel.fetch(1)
    partition = duel.remembering.partition("t")
    assert partition.watchers
    answers.quick.later.abandon()
    assert not partition.watchers
    duel.append(b"news")
    duel.change(lambda node: node.clock.move(1000))
    assert answers.quick.outcome == WAITING


@pytest.mark.parametrize(
    "change",
    [
        lambda node: node.controller.write(
            PartitionChangeRecord(0, node.controller.image.topic_ids["t"], leader=-1)  # nobody leads it
        ),
        lambda node: node.delete_topic("t"),
    ],
    ids=["leaderless", "deleted"],
)
def test_a_partition_that_goes_is_told_at_once_and_from_then_on(duel: Duel, change: Callable[[OneNode], Any]) -> None:
    answers = duel.fetch(1)
    duel.change(change)
    assert answers.row().error_code != 0
    assert duel.fetch(1).row().error_code != 0


def test_a_topic_that_was_made_anew_is_another_one() -> None:
    duel = Duel(version=12)
    duel.append(b"a")
    duel.fetch(0)
    answers = duel.fetch(1)

    def make_anew(node: OneNode) -> None:
        node.delete_topic("t")
        node.create_topic("t")

    duel.change(make_anew)
    assert answers.row(12).error_code != 0
    assert duel.fetch(1).row(12).error_code != 0  # its log is empty
    duel.append(b"b")
    assert b"b" in bytes(duel.fetch(0).row(12).records)


def test_a_consumer_that_knows_another_leader_is_told(duel: Duel) -> None:
    known: dict[str, Any] = {"row": {"current_leader_epoch": 0}}
    duel.fetch(0, **known)
    assert duel.repeats(duel.frame(0, **known))
    answers = duel.fetch(1, **known)
    change = PartitionChangeRecord(0, duel.topic_ids[0], leader=1)  # another epoch of the same leader
    duel.change(lambda node: node.controller.write(change))
    assert answers.row().error_code != 0
    assert duel.fetch(0, **known).row().error_code != 0


@pytest.mark.parametrize("offset", [-1, 2, 99])
def test_offsets_outside_the_log_are_told(duel: Duel, offset: int) -> None:
    assert duel.fetch(offset).row().error_code != 0


def test_records_that_were_deleted_are_told(duel: Duel) -> None:
    duel.change(lambda node: node.partition("t").advance_log_start(1))
    assert duel.fetch(0).row().error_code != 0


def test_any_other_byte_is_answered_as_if_nothing_were_remembered(duel: Duel) -> None:
    duel.append(bytes(300))
    frame = duel.frame(0)
    assert duel.repeats(frame)
    for at in range(len(frame)):
        for flip in (0x01, 0x80):
            other = bytearray(frame)
            other[at] ^= flip
            answers = duel.send(bytes(other))
            if answers.outcome != WAITING:
                continue
            for answer in (answers.quick, answers.slow):
                answer.later.abandon()
        duel.asker = Asker()
        duel.send(frame)


@pytest.mark.parametrize("cut", [1, 2, 20])
def test_a_request_that_is_cut_off_is_answered_as_if_nothing_were_remembered(duel: Duel, cut: int) -> None:
    assert isinstance(duel.send(duel.frame(0)[:-cut]).outcome, type)


def test_readers_of_committed_data_wait_for_the_end_of_a_transaction() -> None:
    duel = Duel()
    duel.append(b"a")
    duel.fetch(0, isolation_level=COMMITTED)
    assert duel.repeats(duel.frame(0, isolation_level=COMMITTED))
    answers = duel.fetch(1, isolation_level=COMMITTED)
    duel.append(b"b", producer=5, transactional=True)
    assert answers.outcome == WAITING
    _end_transaction(duel, commit=True)
    assert (answers.row().last_stable_offset, b"b" in bytes(answers.row().records)) == (3, True)


def test_what_was_aborted_is_told() -> None:
    duel = Duel()
    duel.append(b"a")
    duel.fetch(0, isolation_level=COMMITTED)
    answers = duel.fetch(1, isolation_level=COMMITTED)
    duel.append(b"b", producer=5, transactional=True)
    _end_transaction(duel, commit=False)
    assert [each.producer_id for each in answers.row().aborted_transactions] == [5]
    assert duel.fetch(3, isolation_level=COMMITTED).outcome == WAITING
    duel.append(b"c")
    assert duel.fetch(3, isolation_level=COMMITTED).row().aborted_transactions == []


def _end_transaction(duel: Duel, *, commit: bool) -> None:
    def end(node: OneNode) -> None:
        marker = build_end_transaction_marker(
            commit=commit, coordinator_epoch=0, producer_id=5, producer_epoch=0, timestamp=NOW_MS
        )
        partition = node.partition("t")
        partition.append_as_coordinator(marker, now_ms=NOW_MS)

    duel.change(end)


def test_with_syncs_before_acknowledgements_it_waits_for_the_sync(duel: Duel) -> None:
    duel.change(lambda node: node.set_config("t", "flush.messages", "1"))
    duel.change(lambda node: node.worker.step())
    answers = duel.fetch(1)
    duel.append(b"news")
    assert answers.outcome == WAITING
    duel.change(lambda node: node.worker.step())
    assert b"news" in bytes(answers.row().records)


def test_a_disk_that_cannot_be_read_is_told(duel: Duel) -> None:
    for _ in range(200):
        duel.append(bytes(300))

    def break_disk(node: OneNode) -> None:
        assert isinstance(node.fs, MemoryFileSystem)
        node.fs.faults.append(Fault("read", path_end=".log", times=9))

    duel.fetch(1)
    duel.change(break_disk)
    assert duel.fetch(150).row().error_code != 0


@pytest.mark.parametrize(
    "fields",
    [
        {"min_bytes": 2},
        {"min_bytes": 0},
        {"max_wait_ms": 0},
        {"session_epoch": 0},
        {"forgotten_topics_data": [ForgottenTopic("t", b"t" * 16, [3])]},
        {"row": {"last_fetched_epoch": 0}},
        {"replica_state": (3, 1, ())},
    ],
    ids="-".join,
)
def test_whatever_is_unusual_goes_the_long_way(fields: dict[str, Any]) -> None:
    duel = Duel()
    duel.append(b"a")
    for number in range(3):
        duel.asker.repeated_fetch = None
        _ = _Answer(duel.remembering, duel.asker, duel.frame(0, number=number, **fields)).outcome
        assert not duel.repeats(duel.frame(0, number=number, **fields))


def test_a_long_request_is_not_remembered() -> None:
    duel = Duel()
    duel.append(b"a")
    client = "c" * MAX_REQUEST_BYTES
    duel.fetch(0, client=client)
    assert not duel.repeats(duel.frame(0, client=client))


def test_with_a_quota_each_request_is_counted(duel: Duel) -> None:
    assert duel.repeats(duel.frame(0))
    quota = ClientQuotaRecord([EntityData("client-id", "client")], "consumer_byte_rate", 1.0)
    duel.change(lambda node: node.controller.write(quota))
    answer = duel.fetch(0).outcome
    assert isinstance(answer, bytes)
    assert int.from_bytes(answer[9:13], "big") > 0  # milliseconds to wait


def test_what_goes_around_handlers_sees_each_request(duel: Duel) -> None:
    seen = duel.remembering.watch_handlers()
    duel.fetch(0)
    duel.fetch(0)
    assert len(seen) == 2


def test_a_connection_whose_fetches_are_always_others_does_without() -> None:
    duel = Duel()
    for partition in range(MAX_TRIES + 1):
        duel.append(b"a", partition=partition)
        duel.fetch(0, partition=partition)
    assert not duel.repeats(duel.frame(0, partition=MAX_TRIES))
    assert duel.repeats(duel.frame(0, partition=MAX_TRIES - 1))
    duel.fetch(0, partition=MAX_TRIES - 1)
    duel.fetch(0, partition=MAX_TRIES)
    assert duel.repeats(duel.frame(0, partition=MAX_TRIES))
