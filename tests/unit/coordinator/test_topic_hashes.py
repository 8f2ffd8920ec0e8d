"""The hash of a group's topics. Apache Kafka's own classes judge it in tests/interop."""

import pytest

from headrace.coordinator.topic_hashes import TopicHashes
from headrace.coordinator.xxh3 import xxh3_64
from tests.support.group_images import image_of


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        (0, 3244421341483603138),
        (1, 16226181191752404715),
        (3, 12180141160879835164),
        (8, 12752855198315354378),
        (16, 3159599325006435930),
        (17, 7070371635116224842),
        (128, 16813233705924465638),
        (129, 13063484349860316345),
        (240, 4473034316189165092),
        (241, 13654115510048419178),
        (1024, 15878231082470753371),
        (1025, 14435947017053915143),
        (5000, 3499038088879543845),
    ],
)
def test_xxh3_of_every_kind_of_length(size: int, expected: int) -> None:
    """As hash4j computes it for Apache Kafka."""
    assert xxh3_64(bytes((7 * index + size) & 255 for index in range(size))) == expected


def test_topics_that_do_not_exist_make_no_difference() -> None:
    hashes = TopicHashes(image_of({"a": 1, "b": 2}))
    assert hashes.of_topics(["nope"]) == 0
    assert hashes.of_topics(["b", "a", "nope"]) == hashes.of_topics(["a", "b"]) != 0


def test_what_an_assignment_depends_on_makes_a_difference() -> None:
    images = [
        image_of({"a": 1}),
        image_of({"a": 2}),
        image_of({"a": 1}, ids={"a": bytes(16)}),
        image_of({"a": 1}, {1: "rack"}),
        image_of({"a": [[1, 2]]}, {1: None, 2: "rack"}),
    ]
    found = [TopicHashes(image).of_topics(["a"]) for image in images]
    assert len(set(found[:3])) == 3
    assert found[3] == found[4]  # a rack counts, not whose it is
    assert found[3] not in found[:3]


def test_a_new_image_changes_the_hashes_of_what_changed() -> None:
    hashes = TopicHashes(image_of({"a": 1, "b": 1}))
    before = hashes.of_topics(["a"]), hashes.of_topics(["b"])
    hashes.replace_image(image_of({"a": 2, "b": 1}), ["a"])
    assert hashes.of_topics(["a"]) == TopicHashes(image_of({"a": 2})).of_topics(["a"]) != before[0]
    assert hashes.of_topics(["b"]) == before[1]
