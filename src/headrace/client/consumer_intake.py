"""The user's side of a consumer: from what was fetched to the records that it gets. On the user's own thread.

Records are made here and not on the client's loop: the loop stays free for heartbeats and fetches however many there
are, and what nobody takes is never made.
"""

import logging
from itertools import islice
from typing import Final, Protocol

from headrace.client.config import Settings, hooks
from headrace.client.consumer_errors import CorruptRecordError, DeserializationError
from headrace.client.consumer_inbox import Fetched, Inbox
from headrace.client.consumer_progress import HandedOut, Progress
from headrace.client.consumer_record import ConsumerRecord
from headrace.client.serializers import deserializer
from headrace.client.subscriptions import Place
from headrace.protocol.errors import CorruptBatchError

_LOG: Final = logging.getLogger(__name__)
_new: Final = tuple.__new__


class Interceptor(Protocol):
    """Sees every record before the user does."""

    def on_consume(self, records: list[ConsumerRecord]) -> list[ConsumerRecord]:
        """What the user gets instead; on the user's thread."""


class Intake:
    def __init__(self, settings: Settings, inbox: Inbox) -> None:
        """Raises ConfigError."""
        self._inbox = inbox
        self._key = deserializer("key.deserializer", settings.value("key.deserializer"))
        self._value = deserializer("value.deserializer", settings.value("value.deserializer"))
        self._interceptors: tuple[Interceptor, ...] = hooks(settings, "interceptor.classes", "on_consume")
        self._current: Fetched | None = None  # taken from the inbox, and not all read
        self.progress = Progress()

    def finish(self) -> None:
        """The user comes back: what it took is done with."""
        self._inbox.finish(self.progress)

    def abandon(self) -> None:
        """The user gives up: what it may have been working at is not done."""
        self._inbox.abandon(self.progress)

    def take(self, limit: int) -> list[ConsumerRecord]:
        """At most `limit` records that are there, of any partitions. Raises KafkaError."""
        records = self._take_leftover(limit)
        while len(records) < limit:
            try:
                handed = self._next(limit - len(records))
            except (CorruptRecordError, DeserializationError):
                if records:
                    break  # it comes again
                raise
            if handed is None:
                break
            if records:
                records += handed.records
            else:
                records = list(handed.records)
        return records

    def _take_leftover(self, limit: int) -> list[ConsumerRecord]:
        """What an iteration that was left did not take."""
        leftover = self.progress.leftover
        if leftover is None or leftover.iterator is None:
            return []
        return list(islice(leftover.iterator, limit))

    def take_one_by_one(self, limit: int) -> HandedOut | None:
        """Records of one partition to iterate over; None if there are none. Raises KafkaError."""
        handed = self.progress.leftover or self._next(limit)
        if handed is not None and handed.iterator is None:
            handed.iterator = iter(handed.records)
        return handed

    def _next(self, limit: int) -> HandedOut | None:
        """The next records, of one partition, which are now handed out."""
        while (fetched := self._find()) is not None:
            state = fetched.state
            records = self._deserialize(fetched, self._read(fetched, limit))
            if fetched.batches or fetched.unread:
                end = Place(records[-1].offset + 1, records[-1].leader_epoch) if records else state.position
            else:
                self._current = None
                end = fetched.next
            assert end is not None, f"records of {state.partition}, which has no position"
            handed = HandedOut(state, fetched.era, records, end)
            handed.records = self._intercepted(handed.records)
            if not self._inbox.hand_out(handed, self.progress):
                self._current = None
            elif handed.records:
                return handed
        return None

    def _intercepted(self, records: list[ConsumerRecord]) -> list[ConsumerRecord]:
        """What interceptors make of them. One that fails is passed over: the records are not lost by it."""
        for interceptor in self._interceptors:
            try:
                seen = interceptor.on_consume(records)
                if not isinstance(seen, list):
                    raise TypeError(f"on_consume returned a {type(seen).__name__}, not a list of records")
                records = seen
            except Exception:
                _LOG.exception("an interceptor failed; the records are not affected")
        return records

    def _find(self) -> Fetched | None:
        current = self._current
        if current is not None and current.is_current and not current.state.is_stopped:
            if not current.state.is_paused:
                return current
            self._inbox.put_back(current)
        self._current = None
        while (current := self._inbox.take()) is not None:
            if current.is_current and not current.state.is_stopped:
                self._current = current
                return current
        return None

    def _read(self, fetched: Fetched, limit: int) -> list[ConsumerRecord]:
        position = fetched.state.position
        assert position is not None, f"{fetched.state.partition} was fetched and has no position"
        records, fetched.unread = fetched.unread, []
        batches = fetched.batches
        while batches and len(records) < limit:
            batch = batches[0]
            try:
                part = batch.read(limit - len(records))
            except CorruptBatchError as error:
                if records:
                    break  # it comes again
                raise CorruptRecordError(fetched.state.partition, batch.base_offset, str(error)) from None
            if part and part[0].offset < position.offset:
                part = [record for record in part if record.offset >= position.offset]
            records = records + part if records else part
            if batch.is_read:
                batches.popleft()
        return records

    def _deserialize(self, fetched: Fetched, records: list[ConsumerRecord]) -> list[ConsumerRecord]:
        """What the deserializers make of them; those from the first that cannot be on stay unread."""
        from_key, from_value = self._key, self._value
        if from_key is None and from_value is None:
            return records
        made: list[ConsumerRecord] = []
        for record in records:
            topic, partition, offset, timestamp, key, value, headers, origin = record
            what = "key"
            try:
                if from_key is not None:
                    key = from_key(topic, key)
                what = "value"
                if from_value is not None:
                    value = from_value(topic, value)
            except Exception as error:
                fetched.unread = records[len(made) :]
                if made:
                    break  # it comes again
                raise DeserializationError(record, what, error) from error
            made.append(_new(ConsumerRecord, (topic, partition, offset, timestamp, key, value, headers, origin)))
        return made
