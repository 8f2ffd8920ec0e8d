"""`headrace consume --group` against both brokers, and what consume says to somebody who waits."""

import os
import pty
import signal
import subprocess
import sys
from typing import Any

import pytest

from tests.support.both_brokers import eventually, unique
from tests.support.command_line import done, headrace

COMMAND = (sys.executable, "-c", "from headrace.cli import main; main()")


@pytest.fixture
def topic(bootstrap: str) -> str:
    """With two partitions: 0 has the records 1 to 4, 1 has a and b."""
    name = unique("orders")
    done("topic", "create", name, "-p", "2", bootstrap=bootstrap)
    eventually(lambda: headrace("topic", "describe", name, bootstrap=bootstrap).code == 0)
    done("produce", name, "-p", "0", stdin=b"1\n2\n3\n4\n", bootstrap=bootstrap)
    done("produce", name, "-p", "1", stdin=b"a\nb\n", bootstrap=bootstrap)
    return name


def described(bootstrap: str, group: str) -> dict[str, Any]:
    (found,) = done("group", "describe", group, "--json", bootstrap=bootstrap).objects
    return found


def lags(bootstrap: str, group: str) -> list[int]:
    return [each["lag"] for each in described(bootstrap, group)["partitions"]]


@pytest.mark.slow
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_goes_on_where_it_was(bootstrap: str, topic: str, protocol: str) -> None:
    group = unique(protocol)

    def read(*arguments: str) -> list[str]:
        configs = ("--group", group, "-X", f"group.protocol={protocol}")
        return sorted(done("consume", topic, *configs, *arguments, bootstrap=bootstrap).out.split())

    first = read("--count", "3")
    assert len(first) == 3
    assert sum(lags(bootstrap, group)) == 3
    assert sorted([*first, *read("--exit")]) == ["1", "2", "3", "4", "a", "b"]
    assert read("--exit") == []
    assert lags(bootstrap, group) == [0, 0]
    assert described(bootstrap, group)["members"] == []
    done("group", "reset", group, f"{topic}:1", "--to", "1", bootstrap=bootstrap)
    assert read("--exit") == ["b"]


def test_a_new_group_may_begin_at_the_end(bootstrap: str, topic: str) -> None:
    group = unique("late")
    assert done("consume", topic, "-g", group, "--from", "end", "--exit", bootstrap=bootstrap).out == ""
    assert lags(bootstrap, group) == [0, 0]


@pytest.mark.slow
def test_members_share_the_partitions(bootstrap: str, topic: str) -> None:
    group = unique("shared")
    configs = ("--group", group, "-X", "group.protocol=consumer", "-f", "%p\\n")
    members = [
        subprocess.Popen(
            [*COMMAND, "consume", topic, *configs, "--bootstrap", bootstrap],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        for _ in range(2)
    ]

    def is_shared() -> bool:
        ended = headrace("group", "describe", group, "--json", bootstrap=bootstrap)
        members = ended.objects[0]["members"] if ended.code == 0 else []
        return [len(each["assignment"]) for each in members] == [1, 1]

    try:
        eventually(is_shared)
        printed = []
        for number in range(2):
            done("produce", topic, "-p", str(number), stdin=b"new\n" * 10, bootstrap=bootstrap)
        for member in members:
            assert member.stdout is not None
            printed.append({member.stdout.readline() for _ in range(10)})
            member.send_signal(signal.SIGINT)
            rest, errors = member.communicate(timeout=60)
            assert (member.returncode, errors) == (130, b"")
            printed[-1] |= set(rest.splitlines(keepends=True))
    finally:
        for member in members:
            member.kill()
            member.wait()
    assert {b"0\n", b"1\n"} == printed[0] | printed[1]


@pytest.mark.slow
def test_what_nobody_could_read_is_not_committed(bootstrap: str, topic: str) -> None:
    group = unique("broken")
    nobody, pipe = os.pipe()
    os.close(nobody)
    try:
        ended = subprocess.run(
            [*COMMAND, "consume", topic, "--group", group, "--bootstrap", bootstrap],
            stdout=pipe,
            stderr=subprocess.PIPE,
            timeout=60,
            check=False,
        )
    finally:
        os.close(pipe)
    assert (ended.returncode, ended.stderr) == (1, b"")
    assert {each["committed"] for each in described(bootstrap, group)["partitions"]} <= {None, 0}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("-p", "0"), "A group says itself which member reads which partition."),
        (("--last", "1"), "A group goes on where it was"),
        (("--from", "7"), "`headrace group reset` moves a group"),
        (("-X", "group.protocol=other"), "group.protocol"),
    ],
)
def test_what_does_not_go_with_a_group(headrace_bootstrap: str, arguments: tuple[str, ...], message: str) -> None:
    name = unique("wrong")
    done("topic", "create", name, bootstrap=headrace_bootstrap)
    wrong = headrace("consume", name, "--group", "g", *arguments, bootstrap=headrace_bootstrap)
    assert (wrong.code, message in wrong.err) == (2, True), wrong.err


def said_at_a_terminal(*arguments: str, bootstrap: str) -> str:
    screen, terminal = pty.openpty()
    try:
        subprocess.run(
            [*COMMAND, "consume", *arguments, "--bootstrap", bootstrap],
            stdout=subprocess.DEVNULL,
            stderr=terminal,
            timeout=60,
            check=True,
        )
        os.write(terminal, b"END")  # or there might be nothing to read
        text = b""
        while not text.endswith(b"END"):
            text += os.read(screen, 4096)
    finally:
        os.close(screen)
        os.close(terminal)
    return text.decode().removesuffix("END").replace("\r\n", "\n")


@pytest.mark.slow
def test_somebody_at_a_terminal_is_told_that_it_follows(headrace_bootstrap: str) -> None:
    bootstrap, name, group = headrace_bootstrap, unique("told"), unique("readers")
    done("produce", name, stdin=b"one\n", bootstrap=bootstrap)
    how = "Ctrl-C ends it; with --exit it stops at the end.\n"
    assert said_at_a_terminal(name, "-c", "1", bootstrap=bootstrap) == (
        f"Reading {name} from the beginning on, and then what comes. {how}"
    )
    assert said_at_a_terminal(name, "-c", "1", "--group", group, bootstrap=bootstrap) == (
        f"Reading {name} as a member of {group}; what is printed is committed. {how}"
    )
    assert said_at_a_terminal(name, "--exit", bootstrap=bootstrap) == ""
