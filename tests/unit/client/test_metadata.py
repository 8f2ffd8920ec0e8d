"""The snapshot of the cluster: what an answer changes, and what it may not."""

from headrace.client.metadata import Metadata, Node
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

ID, OTHER_ID = bytes(15) + b"\1", bytes(15) + b"\2"


def answer(*topics: MetadataResponseTopic, brokers: tuple[int, ...] = (1, 2), controller: int = 1) -> MetadataResponse:
    rows = [MetadataResponseBroker(number, f"host{number}", 9092, None) for number in brokers]
    return MetadataResponse(brokers=rows, cluster_id="c", controller_id=controller, topics=topics)


def topic(name: str, *leaders: tuple[int, int], topic_id: bytes = ID, code: int = 0) -> MetadataResponseTopic:
    """A partition for each (leader, leader epoch)."""
    partitions = [
        MetadataResponsePartition(0, number, leader, epoch, [1, 2], [leader], [])
        for number, (leader, epoch) in enumerate(leaders)
    ]
    return MetadataResponseTopic(code, name, topic_id, False, partitions)


def test_an_answer_becomes_a_snapshot() -> None:
    metadata = Metadata().renewed(answer(topic("a", (1, 5), (2, 6))), asked={"a"})
    assert metadata.leader("a", 1) == Node(2, "host2", 9092)
    assert metadata.partition("a", 0) is not None
    assert metadata.leader("a", 2) is None
    assert metadata.leader("b", 0) is None
    assert metadata.names_by_id == {ID: "a"}
    known = metadata.topics["a"]
    assert [(each.number, each.leader, each.leader_epoch) for each in known.partitions.values()] == [
        (0, 1, 5),
        (1, 2, 6),
    ]


def test_an_older_leader_epoch_changes_nothing_and_a_newer_or_equal_one_wins() -> None:
    metadata = Metadata().renewed(answer(topic("a", (1, 5), (1, 5), (1, 5))), asked={"a"})
    metadata = metadata.renewed(answer(topic("a", (2, 4), (2, 5), (2, 6))), asked={"a"})
    assert [each.leader for each in metadata.topics["a"].partitions.values()] == [1, 2, 2]
    assert [each.leader_epoch for each in metadata.topics["a"].partitions.values()] == [5, 5, 6]


def test_a_broker_that_tells_no_epochs_is_believed() -> None:
    metadata = Metadata().renewed(answer(topic("a", (1, 5))), asked={"a"})
    metadata = metadata.renewed(answer(topic("a", (2, -1))), asked={"a"})
    assert metadata.topics["a"].partitions[0].leader == 2


def test_a_topic_that_was_made_anew_starts_with_its_own_epochs() -> None:
    metadata = Metadata().renewed(answer(topic("a", (1, 5))), asked={"a"})
    metadata = metadata.renewed(answer(topic("a", (2, 0), topic_id=OTHER_ID)), asked={"a"})
    assert metadata.topics["a"].partitions[0].leader == 2
    assert metadata.names_by_id == {OTHER_ID: "a"}


def test_topics_that_were_not_asked_for_stay_unless_all_were() -> None:
    metadata = Metadata().renewed(answer(topic("a", (1, 0))), asked={"a"})
    metadata = metadata.renewed(answer(topic("b", (1, 0), topic_id=OTHER_ID)), asked={"b"})
    assert sorted(metadata.topics) == ["a", "b"]
    metadata = metadata.renewed(answer(topic("b", (1, 0), topic_id=OTHER_ID)), asked=None)
    assert sorted(metadata.topics) == ["b"]
    assert metadata.without(["b"]).names_by_id == {}


def test_a_topic_with_an_error_is_kept_with_it_and_not_found() -> None:
    metadata = Metadata().renewed(answer(topic("a", code=3)), asked={"a"})
    assert metadata.topics["a"].error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert metadata.topic("a") is None


def test_a_new_leader_is_learned_from_an_answer_to_another_request() -> None:
    metadata = Metadata().renewed(answer(topic("a", (1, 5), (1, 5))), asked={"a"})
    moved = metadata.with_leader("a", 1, leader=2, leader_epoch=6)
    assert moved.leader("a", 1) == Node(2, "host2", 9092)
    assert moved.leader("a", 0) == Node(1, "host1", 9092)
    elsewhere = metadata.with_leader("a", 1, leader=3, leader_epoch=6, nodes=[Node(3, "host3", 1)])
    assert elsewhere.leader("a", 1) == Node(3, "host3", 1)


def test_a_leader_that_is_old_or_nowhere_is_not_learned() -> None:
    metadata = Metadata().renewed(answer(topic("a", (1, 5))), asked={"a"})
    assert metadata.with_leader("a", 0, leader=2, leader_epoch=5) is metadata
    assert metadata.with_leader("a", 0, leader=9, leader_epoch=6) is metadata
    assert metadata.with_leader("a", 7, leader=2, leader_epoch=6) is metadata
    assert metadata.with_leader("b", 0, leader=2, leader_epoch=6) is metadata


def test_snapshots_of_the_same_cluster_are_equal() -> None:
    one = Metadata().renewed(answer(topic("a", (1, 5))), asked={"a"})
    other = Metadata().renewed(answer(topic("a", (1, 5))), asked={"a"})
    assert one == other
    assert one != Metadata().renewed(answer(topic("a", (1, 6))), asked={"a"})
