"""`headrace group reset` against both brokers."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.a_member import a_member
from tests.support.both_brokers import eventually, unique
from tests.support.command_line import Ended, done, headrace
from tests.support.kafka_tools import KafkaTools

FIRST_MS = 1_700_000_000_000
CONSUMER_GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"


@pytest.fixture
def topic(bootstrap: str) -> str:
    """Partition 0 has the offsets 2 to 9, a second apart; partition 1 has 0 to 2; partition 2 is empty."""
    name = unique("orders")
    done("topic", "create", name, "-p", "3", bootstrap=bootstrap)
    eventually(lambda: headrace("topic", "describe", name, bootstrap=bootstrap).code == 0)
    lines = b"".join(b'{"value":"%d","timestamp_ms":%d}\n' % (each, FIRST_MS + each * 1000) for each in range(10))
    done("produce", name, "--json", "-p", "0", stdin=lines, bootstrap=bootstrap)
    done("produce", name, "-p", "1", stdin=b"a\nb\nc\n", bootstrap=bootstrap)
    done("topic", "delete-records", f"{name}:0", "--before", "2", bootstrap=bootstrap)
    return name


def reset(bootstrap: str, *arguments: str) -> list[Any]:
    """Where to, partition by partition."""
    return [each["offset"] for each in done("group", "reset", "--json", *arguments, bootstrap=bootstrap).objects]


def committed(bootstrap: str, group: str) -> dict[int, int]:
    (described,) = done("group", "describe", group, "--json", bootstrap=bootstrap).objects
    return {each["partition"]: each["committed"] for each in described["partitions"]}


def test_a_plan_is_shown_and_carried_out(bootstrap: str, topic: str) -> None:
    group = unique("billing")
    planned = done("group", "reset", group, topic, "--to", "5", "--dry-run", bootstrap=bootstrap)
    assert [row[:6] for row in planned.rows] == [
        [topic, "0", "-", "5", "-", "5"],
        [topic, "1", "-", "3", "-", "0"],
        [topic, "2", "-", "0", "-", "0"],
    ]
    assert planned.out.splitlines()[2].endswith("the log ends before 5")
    notes = planned.err.splitlines()
    assert notes[0].startswith(f"There is no group '{group}' so far.")
    assert notes[1] == "This was a dry run: nothing has changed."
    assert headrace("group", "describe", group, bootstrap=bootstrap).code == 2
    carried_out = done("group", "reset", group, topic, "--to", "5", bootstrap=bootstrap)
    assert carried_out.out == planned.out + f"{group} goes on there.\n"
    assert committed(bootstrap, group) == {0: 5, 1: 3, 2: 0}
    again = done("group", "reset", group, f"{topic}:0", "--to", "0", bootstrap=bootstrap)
    assert again.rows[0] == [topic, "0", "5", "2", "-3", "8", "the", "log", "begins", "after", "0"]
    assert committed(bootstrap, group) == {0: 2, 1: 3, 2: 0}


def test_where_to(bootstrap: str, topic: str) -> None:
    group = unique("billing")
    assert reset(bootstrap, group, topic, "--to", "earliest") == [2, 0, 0]
    assert reset(bootstrap, group, topic, "--to", "latest") == [10, 3, 0]
    assert reset(bootstrap, group, topic, "--to", "7") == [7, 3, 0]
    assert reset(bootstrap, group, topic, "--shift", "-2") == [5, 1, 0]
    assert reset(bootstrap, group, topic, "--shift", "1") == [6, 2, 0]
    assert reset(bootstrap, group, f"{topic}:0", f"{topic}:1", "--to", "current") == [6, 2]
    assert reset(bootstrap, group, f"{topic}:0", "--to", f"@{FIRST_MS + 4000}") == [4]
    assert reset(bootstrap, group, f"{topic}:0", "--to", "2023-11-14T22:13:24.500Z") == [5]
    assert reset(bootstrap, group, f"{topic}:0", "--to", "1s ago") == [10]
    assert reset(bootstrap, group, topic, "--to", "1h ago") == [10, 0, 0]
    assert reset(bootstrap, group, "--all-topics", "--to", "beginning") == [2, 0, 0]
    assert committed(bootstrap, group) == {0: 2, 1: 0, 2: 0}


def test_all_topics_are_those_with_an_offset(bootstrap: str, topic: str) -> None:
    group = unique("billing")
    nothing = headrace("group", "reset", group, "--all-topics", "--to", "latest", bootstrap=bootstrap)
    assert (nothing.code, f"{group} has committed nothing." in nothing.err) == (2, True)
    reset(bootstrap, group, f"{topic}:1", "--to", "earliest")
    assert reset(bootstrap, group, "--all-topics", "--to", "latest") == [3]
    wrong = headrace("group", "reset", group, f"{topic}:0", "--shift", "1", bootstrap=bootstrap)
    assert (wrong.code, f"The group has no offset for {topic}-0 that could be shifted." in wrong.err) == (2, True)
    assert reset(bootstrap, group, f"{topic}:0", "--to", "current", "--dry-run") == [10]
    assert committed(bootstrap, group) == {1: 3}


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_with_members_is_left_alone(bootstrap: str, topic: str, protocol: str) -> None:
    group = unique("busy")
    configs = {"group_protocol": protocol, "group_instance_id": "till-7"}
    with a_member(bootstrap, group, topic, **configs):
        refused = headrace("group", "reset", group, topic, "--to", "earliest", bootstrap=bootstrap)
        assert (refused.code, refused.out) == (2, "")
        assert refused.err == (
            f"headrace: {group} has 1 member, which would go on where they are: till-7 at /127.0.0.1.\n"
            "  Stop them first, and wait until the group is Empty.\n"
        )
        tried = headrace("group", "reset", group, topic, "--to", "earliest", "--dry-run", bootstrap=bootstrap)
        assert (tried.code, len(tried.rows)) == (1, 3)
        assert "They must be stopped before it can be reset." in tried.err
        assert set(committed(bootstrap, group).values()) == {None}


@pytest.mark.parametrize("form", ["--export", "--json"])
def test_a_plan_is_written_and_read_again(bootstrap: str, topic: str, form: str, tmp_path: Path) -> None:
    group, other = unique("billing"), unique("shipping")
    reset(bootstrap, group, topic, "--to", "3")
    saved = done("group", "reset", group, "--all-topics", "--to", "current", "--dry-run", form, bootstrap=bootstrap)
    file = tmp_path / "plan"
    file.write_text(saved.out)
    reset(bootstrap, group, "--all-topics", "--to", "earliest")
    assert reset(bootstrap, group, f"{topic}:0", "--from-file", str(file), "--dry-run") == [3]
    assert reset(bootstrap, group, "--from-file", str(file)) == [3, 3, 0]
    assert committed(bootstrap, group) == {0: 3, 1: 3, 2: 0}
    copied = headrace("group", "reset", other, "--from-file", "-", stdin=saved.raw, bootstrap=bootstrap)
    if form == "--export":
        assert committed(bootstrap, other) == {0: 3, 1: 3, 2: 0}
    else:  # each line names its group
        assert (copied.code, f"has no offsets for {other}; it is about {group}." in copied.err) == (2, True)


@pytest.mark.kafka
def test_plans_of_kafkas_tool_and_ours_are_one_another(
    kafka_tools: KafkaTools, headrace_bootstrap: str, tmp_path: Path
) -> None:
    bootstrap, group, name = headrace_bootstrap, unique("billing"), unique("orders")
    done("topic", "create", name, "-p", "2", bootstrap=bootstrap)
    done("produce", name, "-p", "0", stdin=b"1\n2\n3\n", bootstrap=bootstrap)
    reset(bootstrap, group, name, "--to", "2")
    common = ("--bootstrap-server", bootstrap, "--group", group, "--reset-offsets")
    theirs = kafka_tools.run(CONSUMER_GROUPS, *common, "--all-topics", "--to-current", "--export", "--dry-run")
    ours = done("group", "reset", group, "--all-topics", "--to", "current", "--export", bootstrap=bootstrap).out
    assert sorted(theirs.split()) == ours.split()
    file = tmp_path / "plan.csv"
    file.write_text(ours)
    reset(bootstrap, group, name, "--to", "earliest")
    kafka_tools.run(CONSUMER_GROUPS, *common, "--from-file", str(file), "--execute")
    assert committed(bootstrap, group) == {0: 2, 1: 0}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--to", "latest"), "Which topics?"),
        (("t", "--all-topics", "--to", "latest"), "--all-topics needs no names"),
        (("t",), "Where to? Give one of --to, --shift and --from-file."),
        (("t", "--to", "1", "--shift", "1"), "Where to? Give one of"),
        (("t", "--to", "soon"), "soon is not a time."),
        (("t", "--to", "2 moons ago"), "2 moons is not a duration."),
        (("t", "--to", "1", "--json", "--export"), "--export and --json exclude one another."),
        (("--all-topics", "--from-file", "-"), "leave --all-topics out"),
        (("qqqq", "--to", "1"), "There is no topic 'qqqq'."),
    ],
)
def test_what_cannot_be_reset(headrace_bootstrap: str, arguments: tuple[str, ...], message: str) -> None:
    wrong: Ended = headrace("group", "reset", "g", *arguments, stdin=b"t,0,1\n", bootstrap=headrace_bootstrap)
    assert (wrong.code, message in wrong.err) == (2, True), wrong.err


def test_json_says_what_was_done(headrace_bootstrap: str) -> None:
    bootstrap, group, name = headrace_bootstrap, unique("billing"), unique("orders")
    done("topic", "create", name, bootstrap=bootstrap)
    printed = done("group", "reset", group, name, "--to", "7", "--json", bootstrap=bootstrap).out
    assert json.loads(printed) == {
        "group": group,
        "topic": name,
        "partition": 0,
        "committed": None,
        "offset": 0,
        "end": 0,
        "note": "the log ends before 7",
        "done": True,
    }
