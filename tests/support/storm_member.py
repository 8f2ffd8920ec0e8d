"""A place in a group that is taken again and again: by members that join, work for a while, and leave.

Some say goodbye, some stop without a word as a crashed process does, and some have a name of their own and come back
under it.
"""

import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from random import Random
from typing import Any, Final

import headrace
from headrace.client import background
from headrace.client.topic_partition import TopicPartition
from tests.support.group_histories import Did, GroupHistory

POLL_SECONDS: Final = 0.05
POLLS: Final = 200  # of a life that finds no work
MOST_WORK: Final = 30  # polls of a life that bring records
COMMITS: Final = 0.3  # of all polls
CRASHES: Final = 0.1  # of all lives but those of members with a name, which nobody else gets before their session ends


class StormMember(threading.Thread):
    def __init__(self, name: str, new_life: "Callable[[str], Life]", random: Random, *, lives: int) -> None:
        """`new_life` makes a member of this name."""
        super().__init__(name=name, daemon=True)
        self._new_life = new_life
        self._random = random
        self._lives = lives
        self.fault: BaseException | None = None
        self.crashes = 0

    def run(self) -> None:
        try:
            for number in range(self._lives):
                self._live(self._new_life(f"{self.name}.{number}"))
        except BaseException as error:
            self.fault = error

    def _live(self, life: "Life") -> None:
        left = self._random.randrange(1, MOST_WORK)
        for _ in range(POLLS):
            if not left:
                break
            left -= life.work(commits=self._random.random() < COMMITS)
        if not life.is_static and self._random.random() < CRASHES:
            self.crashes += 1
            life.crash()
        else:
            life.end()


class Life:
    """One member, from its joining to its end. It commits when partitions are taken away, and when it is told to."""

    def __init__(
        self, name: str, bootstrap: str, topic: str, configs: Mapping[str, Any], history: GroupHistory
    ) -> None:
        self._name = name
        self._topic = topic
        self._history = history
        self._next: dict[int, int] = {}  # by partition: behind the last record that was processed
        self.is_static = "group_instance_id" in configs
        self.consumer = headrace.Consumer(bootstrap, enable_auto_commit=False, auto_offset_reset="earliest", **configs)
        self.consumer.subscribe([topic], on_assigned=self._assigned, on_revoked=self._revoked, on_lost=self._lost)

    def work(self, *, commits: bool = True) -> bool:
        """One poll; whether it brought something."""
        records = self.consumer.poll(POLL_SECONDS)
        for record in records:
            self._history.note(Did.PROCESSED, self._name, [record.partition], record.offset)
            self._next[record.partition] = record.offset + 1
        if commits and self._next:
            self._commit(self._next)
        return bool(records)

    def end(self) -> None:
        self.consumer.close()
        self._history.note(Did.IS_GONE, self._name)

    def crash(self) -> None:
        """Nobody is told, and nothing is committed."""
        self._history.note(Did.IS_GONE, self._name)
        background.call(self.consumer._core.close(is_leaving=False))

    def _commit(self, offsets: Mapping[int, int]) -> None:
        for partition, offset in offsets.items():
            self._history.note(Did.COMMITS, self._name, [partition], offset)
        with suppress(headrace.RebalanceError):  # others do it again, or the next commit says it
            self.consumer.commit(
                {TopicPartition(self._topic, partition): offset for partition, offset in offsets.items()}
            )

    # Listeners

    def _assigned(self, partitions: list[TopicPartition]) -> None:
        self._history.note(Did.OWNS, self._name, _numbers(partitions))

    def _revoked(self, partitions: list[TopicPartition]) -> None:
        going = {number: self._next.pop(number) for number in _numbers(partitions) if number in self._next}
        if going:
            self._commit(going)
        self._history.note(Did.GAVE_UP, self._name, _numbers(partitions))

    def _lost(self, partitions: list[TopicPartition]) -> None:
        for number in _numbers(partitions):
            self._next.pop(number, None)
        self._history.note(Did.LOST, self._name, _numbers(partitions))


def _numbers(partitions: list[TopicPartition]) -> list[int]:
    return [each.partition for each in partitions]
