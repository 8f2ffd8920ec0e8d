"""`headrace group` against both brokers: list, describe, delete."""

import asyncio
from collections.abc import Mapping

import confluent_kafka
import pytest

from headrace.cli.group_describe import end_offsets
from headrace.client.admin import AsyncAdmin
from headrace.client.topic_partition import TopicPartition
from tests.support.a_member import a_member
from tests.support.both_brokers import eventually, unique
from tests.support.command_line import done, headrace


def make_topic(bootstrap: str) -> str:
    """With two partitions, of which the first has five records."""
    name = unique("orders")
    done("topic", "create", name, "-p", "2", bootstrap=bootstrap)
    eventually(lambda: headrace("topic", "describe", name, bootstrap=bootstrap).code == 0)
    done("produce", name, "-p", "0", stdin=b"1\n2\n3\n4\n5\n", bootstrap=bootstrap)
    return name


@pytest.fixture
def topic(bootstrap: str) -> str:
    return make_topic(bootstrap)


def make_group(bootstrap: str, topic: str, to: str = "2") -> str:
    """A group that has committed this offset for the first partition."""
    group = unique("billing")
    done("group", "reset", group, f"{topic}:0", "--to", to, bootstrap=bootstrap)
    return group


def listed(bootstrap: str, *arguments: str) -> set[str]:
    return {each["group"] for each in done("group", "list", "--json", *arguments, bootstrap=bootstrap).objects}


def test_groups_are_listed_by_state_and_type(bootstrap: str, topic: str) -> None:
    empty, classic, consumer = make_group(bootstrap, topic), unique("classic"), unique("consumer")
    ours = {empty, classic, consumer}
    with (
        a_member(bootstrap, classic, topic, group_protocol="classic"),
        a_member(bootstrap, consumer, topic, group_protocol="consumer"),
    ):
        eventually(lambda: listed(bootstrap, "--state", "Stable") & ours == {classic, consumer})
        assert listed(bootstrap) >= ours
        assert listed(bootstrap, "--state", "empty") & ours == {empty}
        assert listed(bootstrap, "--type", "Consumer") & ours == {consumer}
        assert listed(bootstrap, "-t", "classic", "-s", "stable") & ours == {classic}
        rows = done("group", "list", bootstrap=bootstrap).rows
        assert [empty, "classic", "Empty", "-"] in rows
        assert [consumer, "consumer", "Stable", "consumer"] in rows
    assert headrace("group", "list", "--state", "asleep", bootstrap=bootstrap).code == 2
    nothing = done("group", "list", "--type", "share", bootstrap=bootstrap)
    assert (nothing.out, nothing.err.startswith("There are no such groups.")) == ("", True)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_members_offsets_and_lag_are_described(bootstrap: str, topic: str, protocol: str) -> None:
    group = unique(protocol)
    configs = {"group_protocol": protocol, "client_id": "me", "group_instance_id": "till-7"}
    with a_member(bootstrap, group, topic, **configs) as member:
        member.commit(offsets=[confluent_kafka.TopicPartition(topic, 0, 2)], asynchronous=False)
        eventually(lambda: f"{topic}:0,1" in done("group", "describe", group, bootstrap=bootstrap).out)
        lines = done("group", "describe", group, bootstrap=bootstrap).out.splitlines()
        (described,) = done("group", "describe", group, "--json", bootstrap=bootstrap).objects
    facts = lines[0].split("  ")
    assert facts[:3] == [group, "Stable", f"type {protocol}"]
    assert facts[-2:] == ["1 member", "lag 3"]
    assert [line.split() for line in lines[1:3]] == [
        ["member", "client", "host", "epoch", "reads"],
        ["till-7", "me", "/127.0.0.1", *lines[2].split()[3:4], f"{topic}:0,1"],
    ]
    assert [line.split() for line in lines[3:]] == [
        [],
        ["topic", "partition", "committed", "end", "lag", "owner"],
        [topic, "0", "2", "5", "3", "till-7"],
        [topic, "1", "-", "0", "-", "till-7"],
    ]
    assert (described["group"], described["type"], described["state"]) == (group, protocol, "Stable")
    (one,) = described["members"]
    assert (one["instance"], one["client"], len(one["assignment"])) == ("till-7", "me", 2)
    assert one["assignment"][0] == {"topic": topic, "partition": 0}
    assert [(each["committed"], each["end"], each["lag"]) for each in described["partitions"]] == [
        (2, 5, 3),
        (None, 0, None),
    ]


def test_all_groups_are_described_and_one_that_does_not_exist_is_answered_with_the_nearest_name(
    own_bootstrap: str,
) -> None:
    topic = make_topic(own_bootstrap)
    groups = [make_group(own_bootstrap, topic) for _ in range(2)]
    everything = done("group", "describe", bootstrap=own_bootstrap).out.splitlines()
    facts = [f"{group}  Empty  type classic  coordinator 1  0 members  lag 3" for group in groups]
    assert [line for line in everything if line.startswith("billing-")] == facts
    wrong = headrace("group", "describe", groups[0] + "x", bootstrap=own_bootstrap)
    assert (wrong.code, wrong.err.splitlines()) == (
        2,
        [f"headrace: There is no group '{groups[0]}x'.", f"  Did you mean {groups[0]}?"],
    )
    none = headrace("group", "delete", "qqqq", bootstrap=own_bootstrap)
    assert none.err == "headrace: There is no group 'qqqq'.\n  `headrace group list` shows what there is.\n"


def test_what_is_gone_has_no_end(bootstrap: str, topic: str) -> None:
    """A topic may be deleted while its offsets are described."""
    there, nowhere, beyond = TopicPartition(topic, 0), TopicPartition("qqqq", 0), TopicPartition(topic, 9)

    async def ends(*partitions: TopicPartition) -> Mapping[TopicPartition, int]:
        async with AsyncAdmin(bootstrap) as admin:
            return await end_offsets(admin, partitions, 60)

    assert asyncio.run(ends(there, nowhere, beyond)) == {there: 5}
    assert asyncio.run(ends(nowhere)) == {}


def test_a_group_is_deleted_unless_it_has_members(bootstrap: str, topic: str) -> None:
    first, second = make_group(bootstrap, topic), make_group(bootstrap, topic)
    assert done("group", "delete", first, bootstrap=bootstrap).out == f"Deleted {first}.\n"
    assert headrace("group", "delete", first, bootstrap=bootstrap).code == 2
    assert done("group", "delete", first, "--if-exists", bootstrap=bootstrap).out == ""
    both = headrace("group", "delete", first, second, "--json", bootstrap=bootstrap)
    assert (both.code, both.err.splitlines()[0]) == (1, "headrace: 1 of 2 failed.")
    assert both.objects == [{"group": second, "deleted": True}]
    busy = unique("busy")
    with a_member(bootstrap, busy, topic):
        refused = headrace("group", "delete", busy, bootstrap=bootstrap)
        assert (refused.code, refused.err) == (2, f"headrace: Group '{busy}' has members; stop them first.\n")


def test_offsets_are_forgotten(bootstrap: str, topic: str) -> None:
    group = unique("billing")
    done("group", "reset", group, topic, "--to", "earliest", bootstrap=bootstrap)
    one = done("group", "delete-offsets", group, f"{topic}:1", bootstrap=bootstrap)
    assert one.out == f"{group} has no offset for {topic}-1 now.\n"
    wrong = headrace("group", "delete-offsets", group, f"{topic}:1", bootstrap=bootstrap)
    assert (wrong.code, wrong.err.splitlines()[0]) == (2, f"headrace: {group} has committed nothing for {topic}:1.")
    (described,) = done("group", "describe", group, "--json", bootstrap=bootstrap).objects
    assert [each["partition"] for each in described["partitions"]] == [0]
    rest = done("group", "delete-offsets", group, topic, "--json", bootstrap=bootstrap)
    assert rest.objects == [{"group": group, "topic": topic, "partition": 0}]
    assert headrace("group", "delete-offsets", "qqqq", topic, bootstrap=bootstrap).err.startswith(
        "headrace: There is no group 'qqqq'."
    )


def test_offsets_of_a_topic_that_a_member_reads_are_kept(bootstrap: str, topic: str) -> None:
    group = unique("busy")
    with a_member(bootstrap, group, topic) as member:
        member.commit(offsets=[confluent_kafka.TopicPartition(topic, 0, 2)], asynchronous=False)
        refused = headrace("group", "delete-offsets", group, topic, bootstrap=bootstrap)
        assert (refused.code, refused.err) == (
            2,
            f"headrace: {topic}-0: A member of the group reads this topic; its offsets cannot be deleted.\n",
        )
