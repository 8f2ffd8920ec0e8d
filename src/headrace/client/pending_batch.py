"""Records of one partition that travel together: gathered, encoded, sent, perhaps again, and settled once.

Users' threads add rows while the batch is open, under the accumulator's lock. When it is full, the thread that filled
it packs it: the rows become bytes, and are forgotten. From then on, or from the moment that it is taken, it belongs to
the thread of the client's loop.
"""

import logging
import threading
from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Final

from headrace.client.delivery import UNKNOWN_OFFSET, RecordMetadata
from headrace.client.errors import KafkaError
from headrace.protocol.batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE
from headrace.protocol.record_encoding import Payload, Row, encode_rows, seal

_LOG: Final = logging.getLogger(__name__)
NO_TIME: Final = -1
_SETTLING: Final = threading.Lock()  # of all batches: held for an instant, when somebody begins to wait

DeliveryCallback = Callable[[RecordMetadata | None, KafkaError | None], object]


class PendingBatch:
    __slots__ = (
        "_append_time",
        "_base_offset",
        "_callbacks",
        "_encoded",
        "_error",
        "_halves",
        "_payload",
        "_places",
        "_timestamps",
        "_waiting",
        "attempts",
        "count",
        "created_at",
        "epoch",
        "is_closed",
        "is_in_flight",
        "is_settled",
        "order",
        "partition",
        "producer_id",
        "reserved_bytes",
        "retry_at",
        "rows",
        "sequence",
        "size_bytes",
        "topic",
    )

    def __init__(self, topic: str, partition: int, created_at: float, order: tuple[int, ...] = ()) -> None:
        self.topic = topic
        self.partition = partition
        self.order = order  # its place among all batches of the partition; halves come where the whole was
        self.created_at = created_at  # on the monotonic clock
        self.rows: list[Row] = []  # until it is packed
        self.count = 0  # of records, once it is closed
        self.size_bytes = 0  # at most
        self.reserved_bytes = 0  # of the memory of all batches
        self.is_closed = False  # no more rows
        self.attempts = 0
        self.is_in_flight = False
        self.retry_at = 0.0
        self.producer_id = NO_PRODUCER_ID
        self.epoch = NO_PRODUCER_EPOCH
        self.sequence = NO_SEQUENCE
        self.is_settled = False
        self._error: KafkaError | None = None
        self._halves: tuple[PendingBatch, PendingBatch] | None = None
        self._base_offset = UNKNOWN_OFFSET
        self._append_time = NO_TIME
        self._payload: Payload | None = None
        self._places: Sequence[int] = ()  # of records with another timestamp than the one before, once it is packed
        self._timestamps: Sequence[int] = ()  # of those
        self._encoded: bytearray | None = None
        self._callbacks: list[tuple[int, DeliveryCallback]] | None = None
        self._waiting: list[Callable[[PendingBatch], object]] | None = None

    def __repr__(self) -> str:
        return f"[{self.topic}-{self.partition} {self.count} records, sequence {self.sequence}]"

    @property
    def place(self) -> tuple[str, int]:
        return self.topic, self.partition

    def close(self) -> None:
        """No more rows."""
        self.is_closed = True
        self.count = len(self.rows)

    def add_callback(self, place: int, callback: DeliveryCallback) -> None:
        if self._callbacks is None:
            self._callbacks = []
        self._callbacks.append((place, callback))

    # Sending

    def number(self, producer_id: int, epoch: int, sequence: int) -> None:
        """As an idempotent producer does. A retry keeps its number; another one means another encoding."""
        self.producer_id = producer_id
        self.epoch = epoch
        self.sequence = sequence
        self._encoded = None

    def forget_number(self) -> None:
        self.number(NO_PRODUCER_ID, NO_PRODUCER_EPOCH, NO_SEQUENCE)

    def pack(self, codec: int, level: int | None) -> None:
        """Encode the records, unless that is done. From any thread: two that do it at the same time find the same."""
        rows = self.rows  # before the payload is looked for: they are forgotten when it is there
        if self._payload is None and rows:
            payload = encode_rows(rows).compressed(codec, level)
            self._places, self._timestamps = payload.places, payload.timestamps
            self._payload = payload
            self.rows = []

    def encoded(self, codec: int, level: int | None, *, transactional: bool) -> bytearray:
        """The batch as it goes over the wire."""
        if self._encoded is None:
            self.pack(codec, level)
            assert self._payload is not None, f"{self} is empty"
            self._encoded = seal(
                self._payload,
                producer_id=self.producer_id,
                producer_epoch=self.epoch,
                base_sequence=self.sequence,
                transactional=transactional,
            )
        return self._encoded

    def split(self) -> tuple["PendingBatch", "PendingBatch"] | None:
        """Two halves, when the broker finds the whole too large; None for a single record.

        They go their own ways; the whole is settled when both are, and each record shares the fate of its half.
        """
        if self.count < 2:
            return None
        rows = self._unpacked()
        middle = len(rows) // 2
        first, second = (PendingBatch(*self.place, self.created_at, (*self.order, half)) for half in (0, 1))
        first.rows, second.rows = rows[:middle], rows[middle:]
        for half in (first, second):
            half.close()
            half.size_bytes = self.size_bytes // 2
        self._halves = (first, second)
        first.when_settled(lambda _: second.when_settled(lambda _: self._settle()))
        return first, second

    def _unpacked(self) -> list[Row]:
        from headrace.protocol.records import read_records

        assert self._payload is not None, f"{self} was not sent"
        return [(each.key, each.value, each.timestamp, each.headers) for each in read_records(seal(self._payload))]

    # The end

    def succeed(self, base_offset: int, append_time_ms: int) -> None:
        self._base_offset = base_offset
        self._append_time = append_time_ms
        self._settle()

    def fail(self, error: KafkaError) -> None:
        self._error = error
        self._settle()

    def _settle(self) -> None:
        assert not self.is_settled, f"{self} is settled twice"
        with _SETTLING:
            self.is_settled = True
            waiting, self._waiting = self._waiting, None
        self._encoded = self._payload = None
        for place, callback in self._callbacks or ():
            self.tell(place, callback)
        for each in waiting or ():
            each(self)

    def when_settled(self, callback: "Callable[[PendingBatch], object]") -> None:
        """Call it once: on the client's thread, or now if it is settled."""
        with _SETTLING:
            if not self.is_settled:
                if self._waiting is None:
                    self._waiting = []
                self._waiting.append(callback)
                return
        callback(self)

    @property
    def error(self) -> KafkaError | None:
        """Why the batch as a whole was not delivered."""
        return self._error

    def outcome_of(self, place: int) -> RecordMetadata | KafkaError:
        """Where the record of this place stands, or why it does not; once the batch is settled."""
        if self._halves is not None:
            first, second = self._halves
            middle = first.count
            return first.outcome_of(place) if place < middle else second.outcome_of(place - middle)
        if self._error is not None:
            return self._error
        offset = UNKNOWN_OFFSET if self._base_offset < 0 else self._base_offset + place
        timestamp = self._timestamp_of(place) if self._append_time == NO_TIME else self._append_time
        return RecordMetadata(self.topic, self.partition, offset, timestamp)

    def _timestamp_of(self, place: int) -> int:
        assert self._timestamps, f"{self} was not sent"
        return self._timestamps[bisect_right(self._places, place) - 1]

    def tell(self, place: int, callback: DeliveryCallback) -> None:
        """Raises nothing: what a callback does wrong must not stop the sender."""
        outcome = self.outcome_of(place)
        try:
            if isinstance(outcome, KafkaError):
                callback(None, outcome)
            else:
                callback(outcome, None)
        except Exception:
            _LOG.exception("a delivery callback failed; the record is not affected")
