"""What is called how on which stage, when a story is told to two coordinators at once.

Stories share one Apache Kafka and must not meet there, so groups and topics have other names on its stage. Member ids
and ids of topics are made up by each coordinator for itself.
"""

from collections.abc import Callable
from itertools import count
from struct import pack
from typing import Any, Final

_numbers = count(1)
_GROUPS: Final = ("group_id", "group", "groups", "groups_names")
_IDS: Final = ("member_id", "leader", "topic_id")
_BLOBS: Final = ("metadata", "assignment", "subscription", "member_metadata", "member_assignment")
_TOPICS: Final = "tuv"  # all that stories about classic groups know
TIMES: Final = ("commit_timestamp", "expire_timestamp", "current_state_timestamp")


class Names:
    """Of one story. Messages are named tuples; what a field is called says what it means."""

    def __init__(self) -> None:
        number = next(_numbers)
        self._suffix = f".{number}"
        self._theirs: dict[Any, Any] = {}  # ids, by ours
        self._ours: dict[Any, Any] = {}

    def pair(self, ours: Any, theirs: Any) -> None:
        """Two ids are the same one."""
        self._theirs[ours] = theirs
        self._ours[theirs] = ours

    def lengthen(self, name: str) -> str:
        """The name of a group or topic on the other stage. A group without a name has none there, either."""
        return name and name + self._suffix

    def shorten(self, name: str) -> str:
        return name.removesuffix(self._suffix)

    def is_of_this_story(self, name: str) -> bool:
        return name.endswith(self._suffix)

    def to_theirs(self, message: Any) -> Any:
        return _translate(message, self.lengthen, lambda each: self._theirs.get(each, each), self._lengthen_inside)

    def to_ours(self, message: Any) -> Any:
        """Times are theirs, and left out."""
        translated = _translate(message, self.shorten, lambda each: self._ours.get(each, each), self._shorten_inside)
        return without_times(translated)

    def _lengthen_inside(self, data: bytes) -> bytes:
        for name in _TOPICS:
            data = data.replace(_text(name), _text(self.lengthen(name)))
        return data

    def _shorten_inside(self, data: bytes) -> bytes:
        for name in _TOPICS:
            data = data.replace(_text(self.lengthen(name)), _text(name))
        return data


def without_times(message: Any) -> Any:
    return message._replace(**{name: 0 for name in TIMES if name in message._fields})


def _text(name: str) -> bytes:
    """As it stands inside a subscription or an assignment."""
    return pack(">h", len(name)) + name.encode()


def _translate(
    message: Any, name: Callable[[str], str], identity: Callable[[Any], Any], inside: Callable[[bytes], bytes]
) -> Any:
    owner = type(message).__name__

    def field(key: str, value: Any) -> Any:
        if hasattr(value, "_fields"):
            return _translate(value, name, identity, inside)
        if isinstance(value, list | tuple):
            return type(value)(field(key, each) for each in value)
        if isinstance(value, str) and (key in _GROUPS or key == "topic" or (key == "name" and "Topic" in owner)):
            return name(value)
        if key in _IDS:
            return identity(value)
        return inside(value) if key in _BLOBS and isinstance(value, bytes) else value

    return type(message)(*map(field, message._fields, message))
