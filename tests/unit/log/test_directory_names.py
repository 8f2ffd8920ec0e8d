"""What the name of a partition's directory says."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.log.checkpoints import TopicPartition
from headrace.log.directory_names import (
    DirectoryState,
    PartitionDirectory,
    deleted_name,
    directory_name,
    parse_directory_name,
)

HEX = "0123456789abcdef" * 2


@pytest.mark.parametrize(
    ("name", "partition", "state"),
    [
        ("orders-3", TopicPartition("orders", 3), DirectoryState.LIVE),
        ("a.b-c_d-e-12", TopicPartition("a.b-c_d-e", 12), DirectoryState.LIVE),
        ("orders-3-0", TopicPartition("orders-3", 0), DirectoryState.LIVE),
        ("x-delete-1", TopicPartition("x-delete", 1), DirectoryState.LIVE),
        (f"orders-3.{HEX}-delete", TopicPartition("orders", 3), DirectoryState.DELETED),
        (f"a.b-3.{HEX}-future", TopicPartition("a.b", 3), DirectoryState.FUTURE),
        (f"orders-3.{HEX}-stray", TopicPartition("orders", 3), DirectoryState.STRAY),
        (f"orders-3.{HEX}-delete-0", TopicPartition(f"orders-3.{HEX}-delete", 0), DirectoryState.LIVE),
        ("__cluster_metadata-0", TopicPartition("__cluster_metadata", 0), DirectoryState.LIVE),
    ],
)
def test_a_directory_name_says_partition_and_state(name: str, partition: TopicPartition, state: DirectoryState) -> None:
    assert parse_directory_name(name) == PartitionDirectory(partition, state)


@pytest.mark.parametrize(
    "name",
    [
        "lost+found",
        "orders",
        "orders-",
        "-3",
        "orders-x",
        "orders-03",
        "orders--3x",
        "orders-3.abc-delete",
        ".lock",
        "a b-0",
    ],
)
def test_other_names_are_no_partitions(name: str) -> None:
    assert parse_directory_name(name) is None


@given(st.from_regex(r"[a-zA-Z0-9._-]{1,249}", fullmatch=True), st.integers(0, 2**31 - 1))
@settings(max_examples=200, deadline=None)
def test_names_are_read_back(topic: str, number: int) -> None:
    partition = TopicPartition(topic, number)
    assert parse_directory_name(directory_name(partition)) == PartitionDirectory(partition, DirectoryState.LIVE)
    deleted = deleted_name(partition, HEX)
    assert len(deleted) <= 255
    parsed = parse_directory_name(deleted)
    assert parsed is not None
    assert parsed.state is DirectoryState.DELETED
    assert partition.topic.startswith(parsed.partition.topic)


def test_the_name_of_a_deleted_directory_is_cut_to_what_file_systems_allow() -> None:
    name = deleted_name(TopicPartition("t" * 249, 1234567), HEX)
    assert len(name) == 255
    assert name.endswith(f"t-1234567.{HEX}-delete")
