"""What consumers are subscribed to, as far as a coordinator can read the messages that they send to one another.

Only the beginning of a subscription is read, which is the same in all versions: version, then the topics.
"""

from collections.abc import Iterable
from struct import Struct, error
from typing import Final

_READ_HEAD: Final = Struct(">hi").unpack_from
_READ_LENGTH: Final = Struct(">h").unpack_from


def subscribed_topics(subscriptions: Iterable[bytes]) -> frozenset[str] | None:
    """The topics of all members together. None: at least one subscription is not what consumers send."""
    topics: set[str] = set()
    for subscription in set(subscriptions):  # most members say the same
        try:
            topics.update(_topics_of(subscription))
        except (error, ValueError):
            return None
    return frozenset(topics)


def _topics_of(subscription: bytes) -> list[str]:
    """Raises struct.error or ValueError."""
    version, count = _READ_HEAD(subscription)
    if version < 0 or count < 0:
        raise ValueError(f"version {version}, {count} topics")
    topics = []
    position = 6
    for _ in range(count):
        (length,) = _READ_LENGTH(subscription, position)
        end = position + 2 + length
        if length < 0 or end > len(subscription):
            raise ValueError(f"a topic's name of {length} bytes at {position}")
        topics.append(subscription[position + 2 : end].decode())
        position = end
    return topics
