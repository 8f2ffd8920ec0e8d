"""`headrace start` as a process of its own."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

START = [sys.executable, "-c", "from headrace.cli import main; main()", "start"]


@contextmanager
def started(
    *arguments: str, cwd: Path, python_path: Path | None = None
) -> Iterator[tuple["subprocess.Popen[str]", str]]:
    process = subprocess.Popen(
        [*START, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": f"{python_path or ''}:{os.environ.get('PYTHONPATH', '')}"},
    )
    try:
        assert process.stdout is not None
        yield process, process.stdout.readline()
    finally:
        process.kill()
        process.communicate()


def port_in(line: str) -> int:
    return int(line.split("PLAINTEXT://127.0.0.1:")[1].split(",", maxsplit=1)[0])


def test_it_says_where_it_is_reached_and_stops_cleanly_when_told(tmp_path: Path) -> None:
    with started("--listen", "127.0.0.1:0", cwd=tmp_path) as (process, line):
        assert line.startswith("Headrace is ready at PLAINTEXT://127.0.0.1:")
        assert "Try: headrace produce hello --bootstrap 127.0.0.1:" in line
        socket.create_connection(("127.0.0.1", port_in(line)), timeout=120).close()
        process.send_signal(signal.SIGTERM)
        assert process.wait(120) == 0
    assert (tmp_path / "headrace-data" / ".kafka_cleanshutdown").exists()


def test_a_terminal_that_is_closed_stops_it_cleanly_too_unless_that_is_ignored(tmp_path: Path) -> None:
    with started("--listen", "127.0.0.1:0", cwd=tmp_path) as (process, line):
        assert line.startswith("Headrace is ready")
        process.send_signal(signal.SIGHUP)
        assert process.wait(120) == 0
    clean = tmp_path / "headrace-data" / ".kafka_cleanshutdown"
    assert clean.exists()
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does; a child inherits it
    try:
        with started("--listen", "127.0.0.1:0", cwd=tmp_path) as (process, line):
            port = port_in(line)
            process.send_signal(signal.SIGHUP)
            socket.create_connection(("127.0.0.1", port), timeout=120).close()
            assert process.poll() is None
            assert not clean.exists()
            process.send_signal(signal.SIGTERM)
            assert process.wait(120) == 0
    finally:
        signal.signal(signal.SIGHUP, before)


def test_an_ipv6_address_is_told_in_the_form_in_which_it_can_be_used(tmp_path: Path) -> None:
    with started("--ephemeral", "--listen", "[::1]:0", cwd=tmp_path) as (process, line):
        address = line.split("--bootstrap ")[1].split(". Ctrl-C")[0]
        assert address.startswith("[::1]:")
        listed = subprocess.run(
            [*START[:-1], "topic", "list", "--bootstrap", address], capture_output=True, text=True, check=False
        )
        assert (listed.returncode, listed.stdout) == (0, ""), listed.stderr
        process.send_signal(signal.SIGTERM)
        assert process.wait(120) == 0


@pytest.mark.parametrize("is_installed", [True, False])
def test_it_runs_on_uvloop_where_that_is_installed(tmp_path: Path, is_installed: bool) -> None:
    uvloop = "from asyncio import new_event_loop\nprint('uvloop', flush=True)\n"
    (tmp_path / "uvloop.py").write_text(uvloop if is_installed else "raise ImportError('not here')\n")
    with started("--ephemeral", "--listen", "127.0.0.1:0", cwd=tmp_path, python_path=tmp_path) as (process, line):
        if is_installed:
            assert line == "uvloop\n"
            assert process.stdout is not None
            line = process.stdout.readline()
        assert line.startswith("Headrace is ready")
        process.send_signal(signal.SIGTERM)
        assert process.wait(120) == 0


def test_a_thread_that_computes_soon_gives_the_interpreter_back(tmp_path: Path) -> None:
    """A module that is found when Python starts prints what holds at the end."""
    (tmp_path / "sitecustomize.py").write_text(
        "import atexit, sys\natexit.register(lambda: print(sys.getswitchinterval(), flush=True))\n"
    )
    with started("--ephemeral", "--listen", "127.0.0.1:0", cwd=tmp_path, python_path=tmp_path) as (process, line):
        assert line.startswith("Headrace is ready")
        process.send_signal(signal.SIGTERM)
        output, _ = process.communicate(timeout=120)
    assert float(output.split()[-1]) < sys.getswitchinterval() / 10


def test_ephemeral_data_is_gone_at_the_end(tmp_path: Path) -> None:
    with started("--ephemeral", "--listen", "127.0.0.1:0", cwd=tmp_path) as (process, line):
        data = Path(line.split("data in ")[1].split(". Try")[0])
        assert data.is_dir()
        process.send_signal(signal.SIGINT)
        assert process.wait(120) == 0
    assert not data.exists()


def test_a_second_broker_on_the_same_data_is_refused(tmp_path: Path) -> None:
    with started("--listen", "127.0.0.1:0", cwd=tmp_path):
        second = subprocess.run(
            [*START, "--listen", "127.0.0.1:0"], capture_output=True, text=True, cwd=tmp_path, timeout=120, check=False
        )
    assert second.returncode == 1
    assert "locked by another process" in second.stderr


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1"])
def test_configs_come_from_file_and_command_line_and_mistakes_are_named(tmp_path: Path, encoding: str) -> None:
    text = "# für drei Partitionen\nnum.partitions=3\nlog.retention.hours=abc\n"
    (tmp_path / "server.properties").write_text(text, encoding=encoding)
    refused = subprocess.run(
        [*START, "--config", "server.properties", "--set", "lisenters=x"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=120,
        check=False,
    )
    assert refused.returncode == 1
    assert "lisenters is not a broker config; did you mean listeners?" in refused.stderr
    assert "log.retention.hours must be" in refused.stderr
    assert not (tmp_path / "headrace-data").exists()


FAILS_AT_ITS_END = """
import errno, os, signal
import headrace.log.fs, headrace.server.unsynced
from headrace.cli import main, start
from headrace.log.memory_fs import Fault, MemoryFileSystem

disk = MemoryFileSystem()
headrace.log.fs.RealFileSystem = lambda: disk

def ready(broker, path):
    disk.faults.append(Fault("sync", errno.EIO, path_end="/__cluster_metadata-0/00000000000000000000.log"))
    os.kill(os.getpid(), signal.SIGTERM)

start._say_ready = ready
main()
"""


def test_a_disk_that_fails_while_it_stops_is_told_and_not_waited_for(tmp_path: Path) -> None:
    stopped = subprocess.run(
        [sys.executable, "-c", FAILS_AT_ITS_END, "start", "--listen", "127.0.0.1:0"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=120,
        check=False,
    )
    assert stopped.returncode == 1
    assert "Error: the broker stops: " in stopped.stderr
