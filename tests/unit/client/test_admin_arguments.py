"""One item where several are asked for: told before anything is sent, above all a text, which is several texts."""

from collections.abc import Iterator
from typing import Any

import pytest

import headrace
from headrace.client.admin import Admin
from headrace.client.admin_access import Acl, AclFilter
from headrace.client.admin_changes import ConfigResource
from headrace.client.admin_topics import NewTopic
from headrace.client.several import several
from headrace.client.topic_partition import TopicPartition, as_partitions, by_topic

ONE_TEXT = "ab"
ONE_PARTITION = TopicPartition("a", 0)

CALLS: list[tuple[str, dict[str, Any]]] = [  # the last argument of each is the one of which there must be several
    ("create_topics", {"topics": NewTopic("ab")}),
    ("delete_topics", {"names": ONE_TEXT}),
    ("describe_topics", {"names": ONE_TEXT}),
    ("describe_groups", {"groups": ONE_TEXT}),
    ("delete_groups", {"groups": ONE_TEXT}),
    ("remove_members", {"group": "group", "instance_ids": ONE_TEXT}),
    ("list_groups", {"states": ONE_TEXT}),
    ("list_groups", {"types": ONE_TEXT}),
    ("list_group_offsets", {"group": "group", "partitions": ONE_PARTITION}),
    ("delete_group_offsets", {"group": "group", "partitions": ONE_PARTITION}),
    ("describe_transactions", {"ids": ONE_TEXT}),
    ("fence_producers", {"ids": ONE_TEXT}),
    ("list_transactions", {"states": ONE_TEXT}),
    ("describe_configs", {"resources": ConfigResource("topic", "ab")}),
    ("describe_configs", {"resources": [ConfigResource("topic", "a")], "names": ONE_TEXT}),
    ("list_config_resources", {"kinds": ONE_TEXT}),
    ("create_acls", {"acls": Acl("topic", "ab", "User:a", "read")}),
    ("delete_acls", {"filters": AclFilter()}),
    ("describe_scram_users", {"users": ONE_TEXT}),
    ("describe_quotas", {"types": ONE_TEXT}),
    ("describe_log_dirs", {"partitions": ONE_PARTITION}),
    ("describe_producers", {"partitions": ONE_PARTITION}),
    ("elect_leaders", {"partitions": ONE_PARTITION}),
    ("list_reassignments", {"partitions": ONE_PARTITION}),
]


@pytest.fixture(scope="module")
def admin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Admin]:
    with headrace.Broker(tmp_path_factory.mktemp("data")) as broker, headrace.Admin(broker.address) as made:
        yield made


@pytest.mark.parametrize(("method", "arguments"), CALLS, ids=[f"{name} {list(given)[-1]}" for name, given in CALLS])
def test_one_is_not_several(admin: Admin, method: str, arguments: dict[str, Any]) -> None:
    *_, one = arguments.values()
    with pytest.raises(TypeError) as caught:
        getattr(admin, method)(**arguments)
    assert f"write [{one!r}] for one" in str(caught.value)


def test_the_letters_of_a_name_are_not_deleted(admin: Admin) -> None:
    names = ["a", "b"]
    admin.create_topics(map(NewTopic, names))
    with pytest.raises(TypeError):
        admin.delete_topics("ab")
    assert [topic.name for topic in admin.list_topics()] == names
    admin.delete_topics(iter(names))
    assert admin.list_topics() == []


def test_each_of_several_is_of_the_kind() -> None:
    assert several((name for name in "ab"), str, "topics") == ["a", "b"]
    assert several([], str, "topics") == []
    with pytest.raises(TypeError, match=r"^topics are asked for, each a NewTopic, and 'orders' is none$"):
        several(["orders"], NewTopic, "topics")


def test_pairs_are_partitions() -> None:
    assert as_partitions([("a", 1), ONE_PARTITION]) == [TopicPartition("a", 1), ONE_PARTITION]
    with pytest.raises(TypeError, match=r"^'a' is not a partition: write TopicPartition\(topic, number\)$"):
        as_partitions("ab")  # type: ignore[arg-type]


def test_partitions_by_topic() -> None:
    partitions = [TopicPartition("b", 2), TopicPartition("a", 0), TopicPartition("b", 1)]
    assert list(by_topic(partitions).items()) == [("b", [2, 1]), ("a", [0])]
