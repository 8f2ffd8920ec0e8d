"""What a consumer reads: its topics or partitions, and how far it is in each of them. It only computes.

Each partition has three places, in this order in the log:

    done            everything before it is processed: what an automatic commit may commit
    position        the next offset that the user gets
    fetch_offset    the next offset that is asked for; what lies between is on its way or waits for the user

and a stage: a partition that is assigned is UNPOSITIONED until its committed offset is known; without one it is RESET
to the beginning or the end; a new leader is asked whether it has what was read of the old one (CHECKING, KIP-320); else
it is READY. Every jump (a seek, a reset) begins a new `era`: what was fetched before it is not handed out any more. So
does fetching again from the position on; but then what the user has in its hands still counts, as `jumps` tells.
"""

import re
from collections.abc import Callable, Iterable
from enum import Enum
from typing import Final, NamedTuple

from headrace.client.errors import KafkaError, WrongStateError
from headrace.client.topic_partition import TopicPartition

EARLIEST: Final = -2  # timestamps of ListOffsets that mean a place
LATEST: Final = -1
NO_EPOCH: Final = -1


class Stage(Enum):
    UNPOSITIONED = "its committed offset is asked for"
    RESET = "the offset to begin with is asked for"
    CHECKING = "a new leader is asked whether it has what was read"
    READY = "it can be read"


class Place(NamedTuple):
    """An offset, and the epoch of the leader that wrote what stands before it."""

    offset: int
    leader_epoch: int = NO_EPOCH


class PartitionState:
    """One assigned partition. `position` and `done` are moved by whoever consumes, all else on the client's loop."""

    __slots__ = (
        "buffered_bytes",
        "done",
        "era",
        "failures",
        "fetch_epoch",
        "fetch_offset",
        "high_watermark",
        "is_held",
        "is_paused",
        "is_stopped",
        "jumps",
        "last_stable_offset",
        "leader_epoch",
        "log_start_offset",
        "not_before",
        "partition",
        "position",
        "preferred_replica",
        "preferred_until",
        "problem",
        "reset_timestamp",
        "stage",
    )

    def __init__(self, partition: TopicPartition) -> None:
        self.partition = partition
        self.stage = Stage.UNPOSITIONED
        self.era = 0
        self.jumps = 0
        self.done: Place | None = None
        self.position: Place | None = None
        self.fetch_offset = -1
        self.fetch_epoch = NO_EPOCH  # of the leader that wrote what stands before fetch_offset
        self.leader_epoch = NO_EPOCH  # of the leader that was last found to have what was read
        self.reset_timestamp = LATEST  # what to ask for in the stage RESET
        self.is_paused = False
        self.is_held = False  # not fetched until the user's listener has heard of it
        self.is_stopped = False  # none of its records is handed out any more: it is about to be revoked
        self.buffered_bytes = 0  # fetched, and not taken by the user
        self.high_watermark: int | None = None
        self.last_stable_offset: int | None = None
        self.log_start_offset: int | None = None
        self.preferred_replica = -1  # read from this one instead of the leader (KIP-392)
        self.preferred_until = 0.0
        self.problem: KafkaError | None = None  # why it has no position
        self.failures = 0  # in a row
        self.not_before = 0.0  # on the loop's clock: the end of the pause after a failure

    def jump(self, place: Place) -> None:
        """Go on there; neither what was fetched so far nor what the user has in its hands counts any more."""
        self.jumps += 1
        self.done = place
        self.refetch(place)

    def refetch(self, place: Place) -> None:
        """Fetch again from there, where the user is; what it has in its hands is not done with by that."""
        self.era += 1
        self.position = place
        self.fetch_offset, self.fetch_epoch = place
        self.stage = Stage.READY
        self.preferred_replica = -1
        self.problem = None
        self.failures = 0
        self.not_before = 0.0

    def reset(self, timestamp: int) -> None:
        """Go on where the broker says that the timestamp is: EARLIEST, LATEST or milliseconds."""
        self.jumps += 1
        self.era += 1
        self.stage = Stage.RESET
        self.reset_timestamp = timestamp
        self.preferred_replica = -1
        self.problem = None
        self.failures = 0
        self.not_before = 0.0

    def check_against(self, leader_epoch: int) -> None:
        """The partition is led in this epoch: does the leader have what was read of an earlier one?"""
        if self.stage is Stage.READY and leader_epoch > self.leader_epoch:
            if self.fetch_epoch != NO_EPOCH and self.fetch_epoch < leader_epoch:
                self.stage = Stage.CHECKING
            else:
                self.leader_epoch = leader_epoch

    def can_be_fetched(self, now: float) -> bool:
        return (
            self.stage is Stage.READY
            and not (self.is_paused or self.is_held or self.is_stopped)
            and self.not_before <= now
        )


class BrokerPattern(NamedTuple):
    """A pattern of topics in the syntax of RE2, which the broker matches; for group_protocol="consumer"."""

    text: str


class Mode(Enum):
    NOTHING = "nothing is subscribed to or assigned"
    TOPICS = "topics are subscribed to"
    PATTERN = "a pattern of topics is subscribed to"
    BROKER_PATTERN = "a pattern of topics is subscribed to, which the broker matches"
    PARTITIONS = "partitions are assigned by hand"


class Subscriptions:
    """`partitions` is replaced, never changed, so that other threads may walk it."""

    def __init__(self) -> None:
        self.mode = Mode.NOTHING
        self.topics: frozenset[str] = frozenset()  # of TOPICS, and of PATTERN those that match
        self.pattern: re.Pattern[str] | None = None
        self.broker_pattern: str | None = None
        self.partitions: dict[TopicPartition, PartitionState] = {}

    # What is wanted

    @property
    def is_by_group(self) -> bool:
        """Whether the group decides which partitions are read here."""
        return self.mode in (Mode.TOPICS, Mode.PATTERN, Mode.BROKER_PATTERN)

    def subscribe(self, topics: Iterable[str]) -> None:
        self._become(Mode.TOPICS)
        self.topics = frozenset(topics)

    def subscribe_pattern(self, pattern: re.Pattern[str]) -> None:
        self._become(Mode.PATTERN)
        self.pattern = pattern
        self.topics = frozenset()

    def subscribe_broker_pattern(self, pattern: str) -> None:
        self._become(Mode.BROKER_PATTERN)
        self.broker_pattern = pattern
        self.topics = frozenset()

    def match(self, topics: Iterable[str]) -> bool:
        """Of the mode PATTERN: those of the cluster's topics that match. Whether they are others than before."""
        assert self.pattern is not None
        matching = frozenset(topic for topic in topics if self.pattern.fullmatch(topic))
        is_changed = matching != self.topics
        self.topics = matching
        return is_changed

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """By hand: these and no others. Partitions that were assigned stay where they are."""
        self._become(Mode.PARTITIONS)
        self.set_partitions(partitions)

    def unsubscribe(self) -> None:
        self.mode = Mode.NOTHING
        self.topics, self.pattern, self.broker_pattern = frozenset(), None, None
        self.set_partitions(())

    def _become(self, mode: Mode) -> None:
        was_by_hand = self.mode is Mode.PARTITIONS
        if self.mode is not Mode.NOTHING and was_by_hand is not (mode is Mode.PARTITIONS):
            raise WrongStateError(
                f"This does not fit: {self.mode.value}. Partitions are assigned by hand or by a group; call "
                "unsubscribe() first."
            )
        self.mode = mode
        self.pattern = self.broker_pattern = None

    # What is had

    def set_partitions(self, partitions: Iterable[TopicPartition], *, is_held: bool = False) -> None:
        """These and no others from now on; new ones are held if `is_held`."""
        before = self.partitions
        after: dict[TopicPartition, PartitionState] = {}
        for partition in partitions:
            state = before.get(partition)
            if state is None:
                state = PartitionState(partition)
                state.is_held = is_held
            after[partition] = state
        for partition, state in before.items():
            if partition not in after:
                state.jumps += 1
                state.era += 1
        self.partitions = after

    def state(self, partition: TopicPartition) -> PartitionState:
        """Raises WrongStateError if the partition is not assigned."""
        found = self.partitions.get(partition)
        if found is None:
            raise WrongStateError(f"{partition} is not assigned to this consumer.")
        return found

    def find(self, wanted: Callable[[PartitionState], bool]) -> list[PartitionState]:
        return [state for state in self.partitions.values() if wanted(state)]
