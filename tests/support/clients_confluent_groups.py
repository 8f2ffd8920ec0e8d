"""Members of groups by confluent-kafka, several in one thread: all are polled in turn until something holds."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final

from confluent_kafka import Consumer, Message, TopicPartition

from tests.support.clients_confluent import SECONDS

PROTOCOLS: Final = ("classic", "consumer")
_POLL_SECONDS: Final = 0.01
_COMMON: Final = {
    "log_level": 0,
    "auto.offset.reset": "earliest",
    "enable.auto.commit": False,
    "topic.metadata.refresh.interval.ms": 100,
    "fetch.wait.max.ms": 50,
    "reconnect.backoff.ms": 10,
    "reconnect.backoff.max.ms": 50,
}
_OF_PROTOCOL: Final[dict[str, dict[str, Any]]] = {
    "classic": {"group.protocol": "classic", "session.timeout.ms": 6000, "heartbeat.interval.ms": 50},
    "consumer": {"group.protocol": "consumer"},  # the broker says how often, and how long
}
Place = tuple[str, int]


class Member:
    """A consumer that notes what it was given and what was taken from it."""

    def __init__(self, address: str, group: str, protocol: str, **configs: Any) -> None:
        """Configs by their names with underscores."""
        dotted = {name if name == "on_commit" else name.replace("_", "."): value for name, value in configs.items()}
        self.consumer = Consumer(
            {"bootstrap.servers": address, "group.id": group, **_COMMON, **_OF_PROTOCOL[protocol], **dotted}
        )
        self.got: list[Message] = []
        self.errors: list[str] = []
        self.given: list[set[Place]] = []
        self.taken: list[set[Place]] = []
        self.lost: list[set[Place]] = []

    def subscribe(self, *topics: str) -> None:
        self.consumer.subscribe(
            list(topics),
            on_assign=lambda _, rows: self.given.append(places(rows)),
            on_revoke=lambda _, rows: self.taken.append(places(rows)),
            on_lost=lambda _, rows: self.lost.append(places(rows)),
        )

    @property
    def owned(self) -> set[Place]:
        return places(self.consumer.assignment())

    @property
    def values(self) -> list[bytes | None]:
        return [message.value() for message in self.got]

    def poll(self) -> None:
        message = self.consumer.poll(_POLL_SECONDS)
        if message is None:
            return
        error = message.error()
        if error is None:
            self.got.append(message)
        else:
            self.errors.append(error.name())

    def committed(self, *wanted: Place) -> list[int]:
        found = self.consumer.committed([TopicPartition(*place) for place in wanted], timeout=SECONDS)
        return [row.offset for row in found]

    def close(self) -> None:
        with suppress(RuntimeError):  # it is closed
            self.consumer.close()


def places(rows: Sequence[TopicPartition]) -> set[Place]:
    return {(row.topic, row.partition) for row in rows}


class Crew:
    """Members of one group."""

    def __init__(self, address: str, group: str) -> None:
        self.address = address
        self.group = group
        self.members: list[Member] = []
        self.everybody: list[Member] = []

    def join(self, protocol: str, *topics: str, **configs: Any) -> Member:
        """Subscribes to topics; what it gets comes later."""
        member = Member(self.address, self.group, protocol, **configs)
        self.members.append(member)
        self.everybody.append(member)
        member.subscribe(*topics)
        return member

    def leave(self, member: Member) -> None:
        """It is closed, and polled no more."""
        self.members.remove(member)
        member.close()

    def abandon(self, member: Member) -> None:
        """It is polled no more."""
        self.members.remove(member)

    def until(self, condition: Callable[[], bool], what: str) -> None:
        """Poll everybody until it holds."""
        deadline = time.monotonic() + SECONDS
        while not condition():
            assert time.monotonic() < deadline, f"not within {SECONDS} s: {what}; {self.describe()}"
            for member in self.members:
                member.poll()

    def share(self, *wanted: Place) -> None:
        """Until they own these places, each of them one owner, and everybody the same number or one more."""
        self.until(lambda: _is_shared(set(wanted), [each.owned for each in self.members]), f"{wanted} are shared")

    def describe(self) -> str:
        return "; ".join(f"owns {sorted(each.owned)}, told {each.errors}" for each in self.members)

    def close(self) -> None:
        for member in self.everybody:
            member.close()


def _is_shared(wanted: set[Place], owned: list[set[Place]]) -> bool:
    counts = [len(each) for each in owned]
    return set().union(*owned) == wanted and sum(counts) == len(wanted) and max(counts) - min(counts) <= 1


@contextmanager
def crew(address: str, group: str) -> Iterator[Crew]:
    members = Crew(address, group)
    try:
        yield members
    finally:
        members.close()
