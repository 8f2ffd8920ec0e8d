"""`headrace topic` against both brokers."""

import os
import pty
import subprocess
import sys

from tests.support.both_brokers import eventually, unique
from tests.support.command_line import done, headrace


def create(bootstrap: str, *arguments: str) -> str:
    name = unique("topic")
    done("topic", "create", name, *arguments, bootstrap=bootstrap)
    eventually(lambda: headrace("topic", "describe", name, bootstrap=bootstrap).code == 0)
    return name


def test_a_topic_is_created_listed_and_deleted(bootstrap: str) -> None:
    name = unique("orders")
    made = done("topic", "create", name, "-p", "3", "-r", "1", "-c", "retention.ms=60000", bootstrap=bootstrap)
    assert made.out == f"Created {name}: 3 partitions, replication 1.\n"
    eventually(lambda: [name, "3", "1"] in [row[:3] for row in done("topic", "list", bootstrap=bootstrap).rows])
    (listed,) = [each for each in done("topic", "list", "--json", bootstrap=bootstrap).objects if each["topic"] == name]
    assert (listed["partitions"], listed["replication"], listed["internal"]) == (3, 1, False)
    assert done("topic", "delete", name, bootstrap=bootstrap).out == f"Deleted {name}.\n"
    eventually(lambda: name not in done("topic", "list", bootstrap=bootstrap).out)


def test_creating_is_tried_repeated_and_refused(bootstrap: str) -> None:
    name = unique("orders")
    dry = done("topic", "create", name, "--dry-run", "--json", bootstrap=bootstrap)
    assert [(each["topic"], each["created"]) for each in dry.objects] == [(name, False)]
    assert name not in done("topic", "list", bootstrap=bootstrap).out
    done("topic", "create", name, bootstrap=bootstrap)
    again = headrace("topic", "create", name, bootstrap=bootstrap)
    assert (again.code, again.err) == (2, f"headrace: There is a topic '{name}' already.\n")
    both = done("topic", "create", name, f"{name}-2", "--if-not-exists", bootstrap=bootstrap)
    assert both.out == f"Created {name}-2: 1 partition, replication 1.\n{name} exists.\n"
    assert done("topic", "create", name, "--if-not-exists", bootstrap=bootstrap).out == f"{name} exists.\n"
    part = headrace("topic", "create", name, f"{name}-3", bootstrap=bootstrap)
    assert (part.code, part.err.splitlines()[0]) == (1, "headrace: 1 of 2 failed.")
    assert part.out == f"Created {name}-3: 1 partition, replication 1.\n"
    mixed = headrace("topic", "create", name, f"{name}-4", "no name", "--if-not-exists", "--json", bootstrap=bootstrap)
    assert (mixed.code, [each["topic"] for each in mixed.objects]) == (1, [f"{name}-4"])
    assert mixed.err.splitlines()[0] == "headrace: 1 of 2 failed."
    assert "no name" in mixed.err.splitlines()[1]
    wrong = headrace("topic", "create", "x", "-c", "retention", bootstrap=bootstrap)
    assert (wrong.code, "KEY=VALUE" in wrong.err) == (2, True)


def test_changes_are_told_as_json(bootstrap: str) -> None:
    name = create(bootstrap)
    dry = done("topic", "alter", name, "-p", "2", "--dry-run", "--json", bootstrap=bootstrap)
    assert dry.objects == [{"topic": name, "partitions": 2, "altered": False}]
    altered = done("topic", "alter", name, "-p", "2", "--json", bootstrap=bootstrap)
    assert altered.objects == [{"topic": name, "partitions": 2, "altered": True}]
    deleted = headrace("topic", "delete", name, f"{name}-2", "--json", bootstrap=bootstrap)
    assert (deleted.code, deleted.objects) == (1, [{"topic": name, "deleted": True}])


def test_partitions_are_described(bootstrap: str) -> None:
    name = create(bootstrap, "-p", "2", "-c", "cleanup.policy=compact")
    lines = done("topic", "describe", name, bootstrap=bootstrap).out.splitlines()
    assert lines[0].startswith(f"{name}  2 partitions  ")
    assert lines[0].endswith("  cleanup.policy=compact")
    assert [line.split()[0] for line in lines[1:]] == ["partition", "0", "1"]
    rows = done("topic", "describe", name, "--json", bootstrap=bootstrap).objects
    assert [(row["partition"], row["replicas"] == row["isr"], row["configs"]) for row in rows] == [
        (0, True, {"cleanup.policy": "compact"}),
        (1, True, {"cleanup.policy": "compact"}),
    ]
    part = headrace("topic", "describe", name, f"{name}-2", "--json", bootstrap=bootstrap)
    assert (part.code, part.objects) == (1, rows)
    assert part.err.splitlines()[0] == "headrace: 1 of 2 failed."
    assert done("topic", "describe", name, "--under-replicated", bootstrap=bootstrap).out == ""
    assert done("topic", "describe", name, "--unavailable", "--json", bootstrap=bootstrap).out == ""
    assert name in done("topic", "describe", bootstrap=bootstrap).out


def test_a_topic_that_does_not_exist_is_answered_with_the_nearest_name(bootstrap: str) -> None:
    name = create(bootstrap)
    wrong = headrace("topic", "describe", name + "x", bootstrap=bootstrap)
    assert (wrong.code, wrong.err) == (2, f"headrace: There is no topic '{name}x'.\n  Did you mean {name}?\n")
    for arguments in (("delete", "qqqq"), ("offsets", "qqqq"), ("alter", "qqqq", "-p", "2")):
        nothing = headrace("topic", *arguments, bootstrap=bootstrap)
        assert (nothing.code, nothing.err.splitlines()[0]) == (2, "headrace: There is no topic 'qqqq'.")
    assert done("topic", "delete", "qqqq", "--if-exists", bootstrap=bootstrap).out == ""
    assert done("topic", "delete", "qqqq", name, "--if-exists", bootstrap=bootstrap).out == f"Deleted {name}.\n"


def test_a_topic_gets_more_partitions(bootstrap: str) -> None:
    name = create(bootstrap)
    assert done("topic", "alter", name, "-p", "4", "--dry-run", bootstrap=bootstrap).out == (
        f"{name} would have 4 partitions.\n"
    )
    assert done("topic", "alter", name, "-p", "3", bootstrap=bootstrap).out == f"{name} has 3 partitions.\n"
    eventually(lambda: len(done("topic", "describe", name, "--json", bootstrap=bootstrap).objects) == 3)
    assert headrace("topic", "alter", name, "-p", "1", bootstrap=bootstrap).code == 2


def test_offsets_are_shown_and_records_deleted(bootstrap: str) -> None:
    name = create(bootstrap, "-p", "2")
    lines = b"".join(
        b'{"value":"%d","timestamp_ms":%d}\n' % (number, 1_700_000_000_000 + number) for number in range(5)
    )
    done("produce", name, "--json", "-p", "1", stdin=lines, bootstrap=bootstrap)
    shown = done("topic", "offsets", name, bootstrap=bootstrap)
    assert shown.rows == [[name, "0", "0", "0", "0"], [name, "1", "0", "5", "5"]]
    at = done("topic", "offsets", f"{name}:1", "--time", "1700000000003", "--json", bootstrap=bootstrap)
    assert at.objects == [{"topic": name, "partition": 1, "offset": 3, "timestamp_ms": 1_700_000_000_003}]
    dated = done("topic", "offsets", f"{name}:1", "--time", "2023-11-14T22:13:20.002Z", bootstrap=bootstrap)
    assert dated.rows == [[name, "1", "2", "2023-11-14T22:13:20.002Z"]]
    latest = done("topic", "offsets", name, "--time", "max-timestamp", bootstrap=bootstrap)
    assert [row[2] for row in latest.rows] == ["-", "4"]
    assert headrace("topic", "offsets", name, "--time", "soon", bootstrap=bootstrap).code == 2
    assert headrace("topic", "offsets", f"{name}:2", bootstrap=bootstrap).code == 2
    assert headrace("topic", "offsets", f"{name}:x", bootstrap=bootstrap).code == 2

    assert headrace("topic", "delete-records", name, bootstrap=bootstrap).code == 2
    cut = done("topic", "delete-records", f"{name}:1", "--before", "2", bootstrap=bootstrap)
    assert cut.out == f"{name}-1 begins at offset 2 now.\n"
    gone = done("topic", "delete-records", name, "--all", "--json", bootstrap=bootstrap)
    assert [(each["partition"], each["first"]) for each in gone.objects] == [(0, 0), (1, 5)]


def test_leaders_are_elected_where_that_is_needed(bootstrap: str) -> None:
    name = create(bootstrap)
    assert done("topic", "elect", name, bootstrap=bootstrap).out == f"{name}-0 is led as it should be.\n"
    assert done("topic", "elect", f"{name}:0", "--json", bootstrap=bootstrap).objects == [
        {"topic": name, "partition": 0, "elected": False}
    ]


def test_somebody_at_a_terminal_is_asked_first(headrace_bootstrap: str) -> None:
    name = create(headrace_bootstrap)
    assert at_terminal(b"n\n", "topic", "delete", name, bootstrap=headrace_bootstrap) == (1, True)
    assert done("topic", "describe", name, bootstrap=headrace_bootstrap)
    assert at_terminal(b"y\n", "topic", "delete-records", name, "--all", bootstrap=headrace_bootstrap) == (0, True)
    assert at_terminal(b"", "topic", "delete", name, "--yes", bootstrap=headrace_bootstrap) == (0, False)


def at_terminal(answer: bytes, *arguments: str, bootstrap: str) -> tuple[int, bool]:
    """The exit code, and whether it asked."""
    keyboard, terminal = pty.openpty()
    try:
        os.write(keyboard, answer)
        ended = subprocess.run(
            [sys.executable, "-c", "from headrace.cli import main; main()", *arguments, "--bootstrap", bootstrap],
            stdin=terminal,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    finally:
        os.close(keyboard)
        os.close(terminal)
    return ended.returncode, "?" in ended.stderr
