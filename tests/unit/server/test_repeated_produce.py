"""A request that repeats the one before is answered, and refused, as if it had been decoded."""

import errno
from collections.abc import Mapping
from typing import Any, cast

import pytest

from headrace.log.memory_fs import Fault, MemoryFileSystem
from headrace.protocol.apis import load
from headrace.protocol.batch import write_crc
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.errors import ProtocolError
from headrace.protocol.header import write_request_header
from headrace.protocol.messages.headers import RequestHeader
from headrace.protocol.messages.metadata_records import ClientQuotaRecord, EntityData, PartitionChangeRecord
from headrace.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from headrace.protocol.primitives import uvarint
from headrace.protocol.types import UnknownTags
from headrace.server.connection import Connection
from headrace.server.later import Later
from headrace.server.repeated_produce import MAX_REMEMBERED
from tests.support.log_batches import a_batch
from tests.support.one_node import Asker, OneNode
from tests.support.two_brokers import TwoBrokers

PRODUCE = 0
VERSIONS = [9, 10, 11, 12, 13]
ATTRIBUTES_AT = 21
LEADER_EPOCH_AT = 12
MAGIC_AT = 16


class Duel(TwoBrokers):
    def __init__(self, version: int = 12) -> None:
        super().__init__(version)
        self.topic_ids = [node.create_topic("t", partitions=40) for node in self.nodes]

    def frame(
        self,
        batch: bytes | bytearray | None,
        *,
        partition: int = 0,
        acks: int = -1,
        number: int = 1,
        tags: Mapping[str, UnknownTags] = {},
    ) -> bytes:
        """`tags`: those that nobody knows, of the "request", its "topic" or its "partition"."""
        row = PartitionProduceData(partition, batch and bytes(batch), tags.get("partition", ()))
        topic = TopicProduceData("t", self.topic_ids[0], [row], tags.get("topic", ()))
        request = ProduceRequest(None, acks, 1000, [topic], tags.get("request", ()))
        header = write_request_header(RequestHeader(PRODUCE, self.version, number, "client"))
        return b"".join([header, *load(PRODUCE).encode_request[self.version](request)])

    def produce(self, batch: bytes | bytearray | None, **how: Any) -> Any:
        """What both say, which is the same."""
        answer = self.send(self.frame(batch, **how))
        assert isinstance(answer, bytes), answer
        response = load(PRODUCE).decode_response[self.version](answer, memoryview(answer), 9, len(answer))
        return response.responses[0].partition_responses[0]

    def send(self, frame: bytes) -> object:
        answers = [_outcome(self.remembering, self.asker, frame), _outcome(self.forgetful, Asker(), frame)]
        assert answers[0] == answers[1]
        assert self._written(self.remembering) == self._written(self.forgetful)
        return answers[0]

    def repeats(self, frame: bytes) -> bool:
        """Is a request like this answered without being decoded? It is."""
        buffer = bytearray(frame)
        repeated = self.asker.repeated_produce
        assert repeated is not None
        return repeated.serve(buffer, memoryview(buffer), 0, len(buffer)) is not None

    @staticmethod
    def _written(node: OneNode) -> object:
        log = node.partition("t").log if node.controller.image.topic("t") else None
        return log and (
            log.log_end_offset,
            log.high_watermark,
            log.read(log.log_start_offset, max_bytes=1 << 20).read(),
        )


def _outcome(node: OneNode, asker: Asker, frame: bytes) -> object:
    """The bytes of the answer, or what is wrong with the request."""
    buffer = bytearray(b"before" + frame + b"behind")
    start, end = 6, 6 + len(frame)
    try:
        reply = node.dispatcher.serve(cast("Connection", asker), buffer, memoryview(buffer), start, end)
    except ProtocolError as error:
        return type(error)
    assert not isinstance(reply, Later)
    return reply and b"".join(cast("list[bytes]", reply))


@pytest.mark.parametrize("version", VERSIONS)
def test_a_request_like_the_one_before_is_not_decoded(version: int) -> None:
    duel = Duel(version)
    assert duel.produce(a_batch(b"a")).base_offset == 0
    assert duel.produce(a_batch(b"b", b"c"), number=2).base_offset == 1
    assert duel.repeats(duel.frame(a_batch(b"d"), number=3))


@pytest.mark.parametrize("size", [1, 20, 60, 127, 128, 5_000, 16_300, 16_384, 100_000])
def test_batches_may_have_any_size(size: int) -> None:
    duel = Duel()
    for value in (b"first", bytes(size), b"last"):
        assert duel.produce(a_batch(value)).error_code == 0
    assert duel.repeats(duel.frame(a_batch(bytes(size))))


def test_each_partition_is_remembered() -> None:
    duel = Duel()
    for partition in (0, 1, 0, 2):
        duel.produce(a_batch(), partition=partition)
    assert [duel.remembering.partition("t", index).log.log_end_offset for index in range(3)] == [2, 1, 1]
    for partition in range(3):
        assert duel.repeats(duel.frame(a_batch(), partition=partition))


def test_a_connection_remembers_so_many_and_no_more() -> None:
    duel = Duel()
    for partition in range(40):
        duel.produce(a_batch(), partition=partition)
    seen = [duel.repeats(duel.frame(a_batch(), partition=partition)) for partition in range(40)]
    assert seen == [index < MAX_REMEMBERED for index in range(40)]


def test_any_other_byte_is_answered_as_if_nothing_were_remembered() -> None:
    duel = Duel()
    duel.produce(a_batch(b"value"))
    frame = duel.frame(a_batch(b"value"))
    for place in range(len(frame)):
        for change in (0x01, 0x80):
            altered = bytearray(frame)
            altered[place] ^= change
            duel.send(bytes(altered))
            duel.produce(a_batch(b"value"))  # what was learned from the altered one does no harm


@pytest.mark.parametrize("cut", [*range(1, 100)])
def test_a_request_that_is_cut_off_is_answered_as_if_nothing_were_remembered(cut: int) -> None:
    duel = Duel()
    duel.produce(a_batch(b"value"))
    duel.send(duel.frame(a_batch(b"value"))[:-cut])


def test_what_follows_a_request_is_ignored_before_and_after() -> None:
    duel = Duel()
    for more in (b"\0\0", b"", b"\0", b"\0\0\0"):
        assert duel.send(duel.frame(a_batch()) + more)
    assert duel.repeats(duel.frame(a_batch()))
    assert not duel.repeats(duel.frame(a_batch()) + b"\0")


def test_nothing_is_learned_from_what_follows_a_request() -> None:
    """To whoever takes the end of the frame for that of the request, other records are meant."""
    duel = Duel()
    frame = duel.frame(_as_written(a_batch(b"meant"))) + _end_of_a_request(duel, a_batch(b"other"))
    for number in range(3):
        assert duel.send(frame), number


@pytest.mark.parametrize("place", ["request", "topic", "partition"])
def test_nothing_is_learned_from_a_request_with_tags_that_nobody_knows(place: str) -> None:
    """The value of the tag looks like the end of a request: whoever looks for the records there finds others."""
    duel = Duel()
    hidden = _end_of_a_request(duel, a_batch(b"other"))
    # Behind the tag of an inner row stand the empty tag sections of those around it.
    value = hidden[: len(hidden) - ["request", "topic", "partition"].index(place)]
    frame = duel.frame(_as_written(a_batch(b"meant")), tags={place: ((99, value),)})
    for number in range(3):
        assert duel.send(frame), number


def _end_of_a_request(duel: Duel, batch: bytearray) -> bytes:
    """The length of the records, the records, and the three empty tag sections behind them."""
    return duel.frame(batch)[-(len(uvarint(len(batch) + 1)) + len(batch) + 3) :]


def _as_written(batch: bytearray) -> bytearray:
    """As the first one of a log looks in the receive buffer afterwards, with its offset and the leader's epoch.

    So the next request may be equal to one from which the records were taken for what stands before them.
    """
    batch[LEADER_EPOCH_AT : LEADER_EPOCH_AT + 4] = bytes(4)
    return batch


@pytest.mark.parametrize(
    "batch",
    [
        None,
        b"",
        b"short",
        bytes(61),
        bytes(a_batch(b"a") + a_batch(b"b")),
        bytes(a_batch(b"a", transactional=True, producer=7)),
    ],
)
def test_what_is_refused_is_refused_in_the_same_words(batch: bytes | None) -> None:
    duel = Duel()
    duel.produce(a_batch())
    assert duel.produce(batch).error_code
    assert duel.produce(a_batch()).error_code == 0


@pytest.mark.parametrize(("place", "value"), [(ATTRIBUTES_AT + 1, 0x20), (ATTRIBUTES_AT + 1, 0x08), (MAGIC_AT, 1)])
def test_batches_that_no_client_may_send_are_refused(place: int, value: int) -> None:
    duel = Duel()
    duel.produce(a_batch())
    batch = a_batch()
    batch[place] = value
    write_crc(memoryview(batch), 0, len(batch))
    assert duel.produce(batch).error_code


def test_a_retry_of_a_producer_gets_the_offset_of_the_first_time() -> None:
    duel = Duel()
    for sequence in (0, 1, 0, 1, 2):
        row = duel.produce(a_batch(producer=5, sequence=sequence))
        assert (row.error_code, row.base_offset) == (0, sequence)
    assert duel.produce(a_batch(producer=5, sequence=9)).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_what_the_topic_takes_is_asked_each_time() -> None:
    duel = Duel()
    duel.produce(a_batch())
    duel.change(lambda node: node.set_config("t", "message.timestamp.type", "LogAppendTime"))
    assert duel.produce(a_batch()).log_append_time_ms > 0
    duel.change(lambda node: node.set_config("t", "max.message.bytes", "100"))
    assert duel.produce(a_batch(bytes(100))).error_code == ErrorCode.MESSAGE_TOO_LARGE
    duel.change(lambda node: node.set_config("t", "min.insync.replicas", "2"))
    assert duel.produce(a_batch()).error_code == 0  # there is only one replica


def test_who_leads_the_partition_is_asked_each_time() -> None:
    duel = Duel()
    duel.produce(a_batch())
    for node, topic_id in zip(duel.nodes, duel.topic_ids, strict=True):
        node.controller.write(PartitionChangeRecord(0, topic_id, leader=2, replicas=[1, 2], isr=[2]))
    frame = duel.frame(a_batch())
    assert _outcome(duel.remembering, duel.asker, frame) == _outcome(duel.forgetful, Asker(), frame)


def test_a_topic_that_is_gone_is_not_written_to() -> None:
    duel = Duel()
    duel.produce(a_batch())
    duel.change(lambda node: node.delete_topic("t"))
    assert duel.produce(a_batch()).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_the_start_of_the_log_is_told_as_it_is() -> None:
    duel = Duel()
    duel.produce(a_batch())
    duel.produce(a_batch())
    duel.change(lambda node: node.partition("t").log.advance_log_start(1))
    assert duel.produce(a_batch()).log_start_offset == 1


def test_who_wants_no_answer_gets_none() -> None:
    duel = Duel()
    assert duel.send(duel.frame(a_batch(), acks=0)) is None
    duel.produce(a_batch())
    assert duel.send(duel.frame(a_batch(), acks=0)) is None
    assert duel.produce(a_batch(), acks=1).base_offset == 3


def test_an_answer_that_waits_for_a_sync_goes_the_long_way() -> None:
    duel = Duel()
    duel.produce(a_batch())
    assert duel.repeats(duel.frame(a_batch()))
    duel.change(lambda node: node.set_config("t", "flush.messages", "1"))
    assert not duel.repeats(duel.frame(a_batch()))


@pytest.mark.parametrize("version", [12, 13])
def test_a_disk_without_room_is_asked_once(version: int) -> None:
    duel = Duel(version)
    duel.produce(a_batch())
    for node in duel.nodes:
        fault = Fault("append", errno.ENOSPC, path_end=".log", written_bytes=10)
        cast("MemoryFileSystem", node.fs).faults.append(fault)
    assert duel.produce(a_batch()).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert duel.produce(a_batch()).base_offset == 1


def test_with_a_quota_each_request_is_counted() -> None:
    duel = Duel()
    duel.produce(a_batch())
    quota = ClientQuotaRecord([EntityData("client-id", "client")], "producer_byte_rate", 1.0)
    duel.change(lambda node: node.controller.write(quota))
    duel.produce(a_batch())
    assert duel.asker.mutes == 1


def test_what_goes_around_handlers_sees_each_request() -> None:
    duel = Duel()
    duel.produce(a_batch())
    seen = duel.remembering.watch_handlers()
    duel.produce(a_batch())
    duel.produce(a_batch())
    assert len(seen) == 2
