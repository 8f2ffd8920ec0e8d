"""A lane of the fetcher: one broker, one connection to it, and what was asked there."""

from typing import Final, NamedTuple

from headrace.client.fetch_session import FetchSession
from headrace.client.subscriptions import PartitionState
from headrace.client.topic_partition import TopicPartition

MAIN: Final = "fetch"  # the purposes of the connections
SIDE: Final = "fetch-side"


class Asked(NamedTuple):
    """What a request asked of a partition: an answer counts only if the partition has not jumped since."""

    state: PartitionState
    era: int
    offset: int


def asking(state: PartitionState) -> Asked:
    """What a request asks if it is sent now."""
    return Asked(state, state.era, state.fetch_offset)


class Lane:
    __slots__ = ("asked", "is_busy", "node_id", "purpose", "session", "tried")

    def __init__(self, node_id: int, purpose: str) -> None:
        self.node_id = node_id
        self.purpose = purpose
        self.session = FetchSession()
        self.is_busy = False
        self.asked: dict[TopicPartition, Asked] = {}  # by the request that has no answer yet
        self.tried: set[Asked] = set()  # of a side lane: what brought nothing

    def has_asked(self, state: PartitionState) -> bool:
        asked = self.asked.get(state.partition)
        # A partition that went and came back has another state, whose eras are counted anew.
        return asked is not None and asked.state is state and asked.era == state.era
