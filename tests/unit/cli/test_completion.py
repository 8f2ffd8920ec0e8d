"""What a shell is told, and what it is answered."""

import os
import subprocess
import sys

import pytest

from tests.support.both_brokers import unique
from tests.support.command_line import done, headrace

SCRIPT = "import sys; sys.argv[0] = 'headrace'; from headrace.cli import main; main()"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_script_for_each_shell(shell: str) -> None:
    assert "_HEADRACE_COMPLETE" in done("completion", shell).out


def test_an_unknown_shell_is_refused() -> None:
    assert headrace("completion", "cmd").code == 2


def completed(words: str, bootstrap: str) -> list[str]:
    """What the scripts ask for when somebody presses the key."""
    environment = {
        **os.environ,
        "_HEADRACE_COMPLETE": "bash_complete",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split(" ")) - 1),
        "HEADRACE_BOOTSTRAP": bootstrap,
    }
    ended = subprocess.run(
        [sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, timeout=60, check=True
    )
    return [line.partition(",")[2] for line in ended.stdout.splitlines() if line]


def test_nouns_options_and_topics_are_completed(headrace_bootstrap: str) -> None:
    name = unique("completed")
    done("topic", "create", name, bootstrap=headrace_bootstrap)
    assert completed("headrace to", headrace_bootstrap) == ["topic"]
    assert completed("headrace topic cr", headrace_bootstrap) == ["create"]
    assert "--partitions" in completed("headrace topic create --p", headrace_bootstrap)
    assert completed(f"headrace consume {name[:-1]}", headrace_bootstrap) == [name]
    group = unique("readers")
    done("group", "reset", group, name, "--to", "latest", bootstrap=headrace_bootstrap)
    assert completed(f"headrace group describe {group}", headrace_bootstrap) == [group]
    assert completed("headrace transaction describe qqqq", headrace_bootstrap) == []


def test_without_a_broker_there_are_no_names_and_no_noise() -> None:
    assert completed("headrace consume x", "127.0.0.1:1") == []
