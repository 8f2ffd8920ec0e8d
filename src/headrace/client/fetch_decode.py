"""From the bytes of a fetch to record objects, in two steps on two threads.

`open_batches` runs on the client's loop: it walks the batches, checks their CRCs, leaves out control batches and what
was aborted, and decompresses. `OpenBatch.read` runs on the thread of whoever consumes: one tight loop per batch, which
makes nothing but the records. It can stop anywhere and go on later, since a poll returns a limited number of records.

Reading is strict, like that of protocol/records.py, which it is tested against: a record must end where its length
says, and the batch with its last record. A slice beyond the end is too short and not an error in Python, but then the
byte behind it, which is looked at next, is not there.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from headrace.client.consumer_record import ConsumerRecord, Origin
from headrace.client.topic_partition import TopicPartition
from headrace.protocol.batch import BatchHeader, Buffer, check_counts, check_crc
from headrace.protocol.errors import CorruptBatchError
from headrace.protocol.messages.fetch import AbortedTransaction
from headrace.protocol.records import ControlType, iter_batches, read_control_type, read_payload, read_records
from headrace.protocol.varints import read_varint, read_varlong

_new: Final = tuple.__new__  # half the time of ConsumerRecord(...)


class OpenBatch:
    """The records of one batch, decompressed; `read` makes objects of them."""

    __slots__ = (
        "_append_time",
        "_base_timestamp",
        "_last_delta",
        "_left",
        "_partition",
        "_payload",
        "_place",
        "base_offset",
        "origin",
    )

    def __init__(self, partition: TopicPartition, header: BatchHeader, payload: bytes) -> None:
        self._partition = partition
        self._payload = payload
        self._place = 0
        self._left = header.record_count
        self._last_delta = header.last_offset_delta
        self._base_timestamp = header.base_timestamp
        is_log_append_time = header.is_log_append_time
        self._append_time = header.max_timestamp if is_log_append_time else None
        self.base_offset = header.base_offset
        self.origin = Origin(header.leader_epoch, is_log_append_time)

    @property
    def is_read(self) -> bool:
        """Whether all of its records were."""
        return not self._left

    def read(self, limit: int) -> list[ConsumerRecord]:
        """The next records, at most `limit`. Raises CorruptBatchError, and stays where it is."""
        try:
            return self._read(min(limit, self._left))
        except IndexError:
            raise CorruptBatchError(f"a number goes beyond the end of the batch at offset {self.base_offset}") from None

    def _read(self, count: int) -> list[ConsumerRecord]:
        topic, partition = self._partition
        payload, place = self._payload, self._place
        base_offset, last_twice = self.base_offset, self._last_delta << 1
        append_time, origin = self._append_time, self.origin
        base_timestamp = timestamp = self._base_timestamp
        last_delta = 0
        new, record_type = _new, ConsumerRecord
        records: list[ConsumerRecord] = []
        append = records.append
        key: bytes | None
        value: bytes | None
        headers: bytes | None
        for _ in range(count):
            # Zigzag: a number below zero is odd, -1 is 1. One and two bytes are read here, longer numbers by a call.
            size = payload[place]
            if size < 0x80:
                place += 1
            elif (high := payload[place + 1]) < 0x80:
                size = size & 0x7F | high << 7
                place += 2
            else:
                size, place = _read_long(payload, place)
            end = place + (size >> 1)

            delta = payload[place + 1]  # behind the attributes, which have no meaning yet
            if delta < 0x80:
                place += 2
            elif (high := payload[place + 2]) < 0x80:
                delta = delta & 0x7F | high << 7
                place += 3
            else:
                delta, place = read_varlong(payload, place + 1)
                delta = delta << 1 if delta >= 0 else ~(delta << 1)
            if delta != last_delta:  # seldom: records of a batch come within few milliseconds
                last_delta = delta
                timestamp = base_timestamp + ((delta >> 1) ^ -(delta & 1))

            offset = payload[place]
            if offset < 0x80:
                place += 1
            elif (high := payload[place + 1]) < 0x80:
                offset = offset & 0x7F | high << 7
                place += 2
            else:
                offset, place = _read_long(payload, place)
            odd = size | offset  # if one of the numbers is

            key_size = payload[place]
            if key_size == 1:
                key = None
                place += 1
            else:
                if key_size < 0x80:
                    place += 1
                else:
                    key_size, place = _read_long(payload, place)
                odd |= key_size
                stop = place + (key_size >> 1)
                key = payload[place:stop]
                place = stop

            value_size = payload[place]
            if value_size == 1:
                value = None
                place += 1
            else:
                if value_size < 0x80:
                    place += 1
                elif (high := payload[place + 1]) < 0x80:
                    value_size = value_size & 0x7F | high << 7
                    place += 2
                else:
                    value_size, place = _read_long(payload, place)
                odd |= value_size
                stop = place + (value_size >> 1)
                value = payload[place:stop]
                place = stop

            if payload[place]:
                headers = payload[place:end]
                place += len(headers) or 1  # none left: that is beyond the end
            else:
                headers = None
                place += 1
            if place != end or offset > last_twice or odd & 1:
                raise CorruptBatchError(f"a record of the batch at offset {base_offset} ends where its length does not")
            append(
                new(
                    record_type,
                    (
                        topic,
                        partition,
                        base_offset + (offset >> 1),
                        timestamp if append_time is None else append_time,
                        key,
                        value,
                        headers,
                        origin,
                    ),
                )
            )
        if count == self._left and place != len(payload):
            raise CorruptBatchError(f"{len(payload) - place} bytes follow the batch at offset {base_offset}")
        self._place = place
        self._left -= count
        return records


def _read_long(payload: bytes, place: int) -> tuple[int, int]:
    """A number of any length as it stands there, still zigzag; one that is below zero is odd."""
    number, place = read_varint(payload, place)
    return number << 1 if number >= 0 else 1, place


class Opened(NamedTuple):
    """What a fetch brought of one partition: batches that hold records, and where to go on."""

    batches: list[OpenBatch]
    next_offset: int
    leader_epoch: int  # of the last batch, also if it holds no records; -1 if there was none


def open_batches(
    partition: TopicPartition,
    data: Buffer,
    *,
    position: int,
    aborted: Iterable[AbortedTransaction] | None,
    checks_crc: bool,
) -> Opened:
    """All whole batches of a fetch from `position` on. `aborted` is None unless only committed records are wanted.

    They end before one that is damaged. Raises CorruptBatchError if that is the first.
    """
    batches: list[OpenBatch] = []
    next_offset, leader_epoch = position, -1
    filtering = None if aborted is None else _Aborted(aborted)
    try:
        for place, header in iter_batches(data):
            check_counts(header, place)
            if checks_crc:
                check_crc(data, place, header)
            behind = header.next_offset
            if behind <= position:
                continue  # compaction: the offset lies in a gap behind this batch
            if header.is_control:
                if filtering is not None:
                    filtering.control(data, place, header)
            elif header.record_count and (filtering is None or not filtering.hides(header)):
                batches.append(OpenBatch(partition, header, read_payload(data, place, header)))
            next_offset, leader_epoch = behind, header.leader_epoch
    except CorruptBatchError:
        if next_offset == position:
            raise
        # What came before it is sound. The next fetch begins with the damaged batch, and tells where it is.
    return Opened(batches, next_offset, leader_epoch)


class _Aborted:
    """Which producers are inside an aborted transaction, as the batches go by."""

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        self._to_come = sorted(aborted, key=lambda each: each.first_offset, reverse=True)
        self._producers: set[int] = set()

    def hides(self, header: BatchHeader) -> bool:
        self._pass(header)
        return header.is_transactional and header.producer_id in self._producers

    def control(self, data: Buffer, place: int, header: BatchHeader) -> None:
        """A marker: an aborted transaction ends here. Raises CorruptBatchError."""
        self._pass(header)
        for record in read_records(data, place):
            if read_control_type(record.key) is ControlType.ABORT:
                self._producers.discard(header.producer_id)

    def _pass(self, header: BatchHeader) -> None:
        while self._to_come and self._to_come[-1].first_offset <= header.last_offset:
            self._producers.add(self._to_come.pop().producer_id)
