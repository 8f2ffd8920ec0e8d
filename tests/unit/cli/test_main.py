"""The command itself: quick to answer, and it loads only what it is asked for."""

import os
import subprocess
import sys
from importlib.metadata import version
from typing import BinaryIO

import click
import pytest
from click.testing import CliRunner

from headrace.cli import main


def test_help_lists_the_nouns() -> None:
    result = CliRunner().invoke(main, ["--help"])
    assert result.exit_code == 0
    for line in (
        "cluster      Look at brokers, features and the metadata quorum.",
        "config       Look at and change configs and quotas.",
        "consume      Print the records of topics, and go on as more come.",
        "group        Look at consumer groups, and change where they go on.",
        "log          Look into the files of a log, and where brokers keep them.",
        "pipeline     Run pipelines on Spark, look at them, set them back, ask for",
        "produce      Write lines or files to a topic.",
        "start        Start one broker",
        "topic        Create, look at and change topics.",
        "transaction  Look at transactions, and end those which hang.",
    ):
        assert f"  {line}" in result.output


def test_every_command_has_help() -> None:
    def visit(command: click.Command, path: list[str]) -> None:
        result = CliRunner().invoke(main, [*path, "--help"])
        assert result.exit_code == 0, path
        assert command.help, path
        assert "\\b" not in result.output, path  # where lines stay as they are; click wants the character, not its name
        if isinstance(command, click.Group):
            context = click.Context(command)
            for name in command.list_commands(context):
                found = command.get_command(context, name)
                assert found is not None
                visit(found, [*path, name])

    visit(main, [])


def test_the_version_is_that_of_the_package() -> None:
    result = CliRunner().invoke(main, ["--version"])
    assert (result.exit_code, result.output) == (0, f"headrace {version('headrace')}\n")


def test_python_runs_it_as_a_module() -> None:
    done = subprocess.run([sys.executable, "-m", "headrace", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"headrace {version('headrace')}\n"


def headrace_into(output: BinaryIO | int, command: list[str]) -> subprocess.CompletedProcess[str]:
    program = [sys.executable, "-m", "headrace", *command]
    return subprocess.run(program, stdout=output, stderr=subprocess.PIPE, text=True, check=False, timeout=120)


@pytest.mark.parametrize(
    "command",
    [
        ["--help"],
        ["--version"],
        ["topic", "--help"],
        ["topic", "create", "--help"],
        ["completion", "bash"],
        ["start", "--ephemeral", "--listen", "127.0.0.1:0"],
    ],
    ids=" ".join,
)
def test_output_that_cannot_be_written_is_told_in_a_line(command: list[str]) -> None:
    with open("/dev/full", "wb") as full:
        done = headrace_into(full, command)
    told = "headrace: Cannot write: No space left on device.\n  What is missing was not printed.\n"
    assert (done.returncode, done.stderr) == (2, told)


@pytest.mark.parametrize(
    "command", [["--help"], ["topic", "--help"], ["start", "--ephemeral", "--listen", "127.0.0.1:0"]], ids=" ".join
)
def test_a_pipe_that_nobody_reads_ends_it_silently(command: list[str]) -> None:
    nobody, pipe = os.pipe()
    os.close(nobody)
    try:
        done = headrace_into(pipe, command)
    finally:
        os.close(pipe)
    assert (done.returncode, done.stderr) == (1, "")


def test_an_unknown_noun_is_refused() -> None:
    result = CliRunner().invoke(main, ["logs"])
    assert result.exit_code == 2
    assert "No such command 'logs'" in result.output


def test_help_loads_no_client_no_broker_no_loop_and_no_rich() -> None:
    code = (
        "import sys\n"
        "from headrace.cli import main\n"
        "try:\n"
        "    main(['--help'])\n"
        "finally:\n"
        "    heavy = ('asyncio', 'rich', 'fastcrc', 'headrace.client', 'headrace.protocol', 'headrace.log')\n"
        "    print([name for name in sys.modules if name.startswith(heavy)], file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == "[]\n"
