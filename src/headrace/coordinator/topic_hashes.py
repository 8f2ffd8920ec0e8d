"""One number for all that an assignment depends on in the topics of a group: ids, partitions, racks.

It stands in the group's metadata record, so a coordinator that takes over knows whether something changed meanwhile.
"""

from collections.abc import Iterable
from struct import Struct

from headrace.cluster.image import Image, Topic
from headrace.coordinator.xxh3 import xxh3_64

_int32 = Struct("<i").pack
_int64s = Struct("<qq").pack
_two_int64s = Struct(">qq").unpack
_signed = Struct("<q")
_VERSION = b"\0"  # of the layout below


class TopicHashes:
    """The hashes of an image's topics, each computed when it is first needed."""

    __slots__ = ("_hashes", "image")

    def __init__(self, image: Image) -> None:
        self.image = image
        self._hashes: dict[str, bytes] = {}

    def of_topics(self, names: Iterable[str]) -> int:
        """The hash of those topics that exist, as a signed number; 0 if none does."""
        topic_ids = self.image.topic_ids
        hashes = [self._of_topic(name) for name in sorted(names) if name in topic_ids]
        return _as_signed(_hash_bytes(b"".join(hashes))) if hashes else 0

    def replace_image(self, image: Image, changed: Iterable[str]) -> None:
        """`changed` are the names of topics that may differ between the images."""
        self.image = image
        for name in changed:
            self._hashes.pop(name, None)

    def _of_topic(self, name: str) -> bytes:
        found = self._hashes.get(name)
        if found is None:
            topic = self.image.topics[self.image.topic_ids[name]]
            found = self._hashes[name] = _hash_bytes(_described(topic, self.image))
        return found


def _described(topic: Topic, image: Image) -> bytes:
    parts = [_VERSION, _int64s(*_two_int64s(topic.topic_id)), _text(topic.name), _int32(len(topic.partitions))]
    for index in range(len(topic.partitions)):
        parts.append(_int32(index))
        brokers = (image.brokers.get(replica) for replica in topic.partitions[index].replicas)
        racks = sorted(broker.rack for broker in brokers if broker is not None and broker.rack is not None)
        for rack in racks:
            parts += (_int32(_length(rack)), _text(rack))
    return b"".join(parts)


def _text(text: str) -> bytes:
    return text.encode("utf-16-le", "surrogatepass") + _int32(_length(text))


def _length(text: str) -> int:
    """As Java counts: in units of UTF-16."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def _hash_bytes(data: bytes) -> bytes:
    return xxh3_64(data).to_bytes(8, "little")


def _as_signed(data: bytes) -> int:
    return int(_signed.unpack(data)[0])
