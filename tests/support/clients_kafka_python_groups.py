"""Members of groups by kafka-python, each in a thread of its own, since a poll may have to wait for the other members.

kafka-python joins again whenever its metadata looks new to it, with any broker. So a rebalance may come at any time:
what was read and not committed is read again, and a commit may have to wait.

A leader that joins again for that reason may be lost for good (kafka-python 3.0.12): it takes the metadata for seen as
soon as it hands out the partitions, before its SyncGroup is answered. If `poll` runs out of time just then, no later
one looks for the answer: heartbeats stay switched off, and the client itself refuses every commit. So members see the
metadata of their topics before they join; and one whose topics change polls with a patience that does not run out,
until records come.
"""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from queue import SimpleQueue
from typing import Any, Final, TypeVar

from kafka import KafkaConsumer, TopicPartition
from kafka.errors import KafkaError, RebalanceInProgressError

from tests.support.clients_kafka_python import SECONDS
from tests.support.waiting import wait_until

Place = tuple[str, int]
T = TypeVar("T")
_POLL_MS: Final = 100
PATIENT_MS: Final = int(SECONDS * 1000)  # of a poll that records end
_COMMON: Final = {
    "auto_offset_reset": "earliest",
    "enable_auto_commit": False,
    "heartbeat_interval_ms": 50,
    "session_timeout_ms": 6000,
    "retry_backoff_ms": 20,
    "reconnect_backoff_ms": 10,
    "reconnect_backoff_max_ms": 50,
}


class Member(threading.Thread):
    """Polls, and does in between what others want of its consumer."""

    def __init__(self, topics: tuple[str, ...], pattern: str | None, poll_ms: int, configs: dict[str, Any]) -> None:
        super().__init__(daemon=True)
        self._poll_ms = poll_ms
        self._consumer = KafkaConsumer(**configs)
        self._consumer.subscribe(topics, pattern=pattern)
        self._consumer.topics()  # fetches the metadata, now of what it is subscribed to
        self._wanted: SimpleQueue[tuple[Callable[[Any], Any], Future[Any]]] = SimpleQueue()
        self._is_leaving = False
        self._read: list[int] = []
        self.owned: set[Place] = set()
        self.start()

    def run(self) -> None:
        while not self._is_leaving:
            while not self._wanted.empty():
                do, future = self._wanted.get()
                try:
                    future.set_result(do(self._consumer))
                except Exception as error:
                    future.set_exception(error)
            self._poll()
        self._consumer.close()

    def _poll(self) -> None:
        try:
            records = self._consumer.poll(timeout_ms=self._poll_ms)
        except KafkaError as error:
            if not error.retriable:  # else the broker is away, and the next poll tries again
                raise
            return
        self._read += [int(record.value) for rows in records.values() for record in rows]
        self.owned = {(each.topic, each.partition) for each in self._consumer.assignment()}

    def do(self, what: Callable[[Any], T]) -> T:
        """Between two polls. Raises what the consumer raises."""
        future: Future[T] = Future()
        self._wanted.put((what, future))
        return future.result(SECONDS)

    @property
    def read(self) -> set[int]:
        """The numbers that it has read since its last commit."""
        return set(self._read)

    def commit(self, offsets: dict[TopicPartition, Any] | None = None) -> None:
        """These, or where it stands."""
        wait_until(lambda: self.do(lambda consumer: _commits(consumer, offsets)), "the commit is taken")
        self._read.clear()

    def committed(self, *wanted: Place) -> list[int | None]:
        return self.do(lambda consumer: [consumer.committed(TopicPartition(*place)) for place in wanted])

    def leave(self, wake: Callable[[], None] = lambda: None) -> None:
        """`wake` ends a poll that has patience: it sends a record."""
        self._is_leaving = True
        wake()
        self.join(SECONDS)
        assert not self.is_alive(), "it did not close"


def _commits(consumer: Any, offsets: dict[TopicPartition, Any] | None) -> bool:
    try:
        consumer.commit(offsets)
    except RebalanceInProgressError:
        return False
    return True


class Crew:
    """Members of one group."""

    def __init__(self, address: str, group: str) -> None:
        self._common = {"bootstrap_servers": address, "group_id": group, **_COMMON}
        self.members: list[Member] = []

    def join(self, *topics: str, pattern: str | None = None, poll_ms: int = _POLL_MS, **configs: Any) -> Member:
        """Subscribes to topics, or to a pattern; what it gets comes later."""
        member = Member(topics, pattern, poll_ms, {**self._common, **configs})
        self.members.append(member)
        return member

    def leave(self, member: Member, wake: Callable[[], None] = lambda: None) -> None:
        self.members.remove(member)
        member.leave(wake)

    @property
    def read(self) -> set[int]:
        return set().union(*(member.read for member in self.members))

    def commit(self) -> None:
        for member in self.members:
            member.commit()

    def share(self, *wanted: Place) -> None:
        """Until they own these places, each of them one owner, and nobody more than one more than another."""

        def is_shared() -> bool:
            each = [member.owned for member in self.members]
            counts = [len(places) for places in each]
            return set().union(*each) == set(wanted) and sum(counts) == len(wanted) and max(counts) - min(counts) <= 1

        wait_until(is_shared, f"{wanted} are shared", seconds=SECONDS)


@contextmanager
def crew(address: str, group: str) -> Iterator[Crew]:
    members = Crew(address, group)
    try:
        yield members
    finally:
        for member in members.members:
            member.leave()
