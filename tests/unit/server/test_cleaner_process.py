"""Rounds of compaction in a process of its own: the same outcome, and no process that outlives its purpose."""

import asyncio
import fcntl
import os
import pickle
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

import headrace
from headrace.log.checkpoints import TopicPartition
from headrace.log.cleaner_child import NICENESS
from headrace.log.cleaner_filter import LastWord
from headrace.log.cleaner_run import CleanerLimits, CleaningPlan, Source
from headrace.log.config import LogConfig
from headrace.log.fs import RealFileSystem
from headrace.log.memory_fs import MemoryFileSystem
from headrace.log.names import CLEANED, LOG
from headrace.protocol.records import NewRecord, build_batch
from headrace.server.cleaner_process import CleanerProcess
from headrace.server.unsynced import UnsyncedFileSystem
from headrace.server.worker import ClosingError
from tests.support.one_topic import client_of, produce, values
from tests.support.running_broker import Running
from tests.support.segments import DIRECTORY, a_segment, memory_fs
from tests.support.waiting import wait_until

COMPACT = LogConfig(cleanup_policy=frozenset({"compact"}))
NOW_MS = 1_000_000
COUNT = 50
WITH_PAUSES = CleanerLimits(bytes_per_second=100_000.0)  # of two thirds of a second, one for each of two walks
SLOWLY = CleanerLimits(bytes_per_second=1.0)  # a round never ends

_STARTS_AND_WAITS = """
import os, sys, time
sys.path[:] = {path!r}
from pathlib import Path
from tests.unit.server.test_cleaner_process import SLOWLY, WITH_PAUSES, CleanerProcess, a_plan, pid_of
process = CleanerProcess()
def pause(seconds):
    if process.is_there:
        if {forks} and os.fork() == 0:
            time.sleep({forked_seconds})
            os._exit(0)
        print(pid_of(process), flush=True)
        sys.stdin.read()
process.run(a_plan(Path({directory!r}), limits={limits}), pause)
"""
FORKED_SECONDS = 10  # more than it takes to notice, and not too long to be left behind


def a_plan(
    directory: Path | str,
    fs: RealFileSystem | MemoryFileSystem | None = None,
    limits: CleanerLimits | None = None,
    producers: dict[int, LastWord] | None = None,
) -> CleaningPlan:
    """For a segment with records of two keys."""
    fs = fs or RealFileSystem()
    records = [NewRecord(offset, b"k%d" % (offset % 2), b"v" * 2000) for offset in range(COUNT)]
    batches = [build_batch([record], base_offset=offset) for offset, record in enumerate(records)]
    segment = a_segment(fs, 0, batches, COMPACT, directory=str(directory))
    return CleaningPlan(
        partition=TopicPartition("orders", 0),
        fs=fs,
        directory=str(directory),
        config=COMPACT,
        limits=limits or CleanerLimits(),
        sources=(Source(0, COUNT, segment.size, segment.path(LOG)),),
        first_dirty_offset=0,
        aborted=(),
        producers=producers or {},
        now_ms=NOW_MS,
    )


def pause(seconds: float) -> None:
    time.sleep(seconds)


@pytest.fixture
def process() -> Iterator[CleanerProcess]:
    process = CleanerProcess()
    yield process
    process.close()


def pid_of(process: CleanerProcess) -> int:
    assert process._process is not None
    return process._process.pid


def is_running(pid: int) -> bool:
    """Also not as a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.parametrize("fs", [RealFileSystem(), UnsyncedFileSystem()])
def test_the_outcome_is_the_one_of_a_round_in_this_process(
    tmp_path: Path, process: CleanerProcess, fs: RealFileSystem
) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    cleaned = f"{0:020d}{LOG}{CLEANED}"
    expected = a_plan(here, fs).run(pause)
    outcome = process.run(a_plan(there, fs), pause)
    assert process.is_there
    assert (outcome.end_offset, outcome.bytes_moved) == (expected.end_offset, expected.bytes_moved)
    assert outcome.groups[0].size_bytes == expected.groups[0].size_bytes
    assert (there / cleaned).read_bytes() == (here / cleaned).read_bytes()
    assert (there / cleaned).stat().st_size < 5000


def test_one_process_serves_many_rounds(tmp_path: Path, process: CleanerProcess) -> None:
    pids = []
    for number in range(3):
        directory = tmp_path / str(number)
        directory.mkdir()
        assert len(process.run(a_plan(directory), pause).groups) == 1
        pids.append(pid_of(process))
    assert len(set(pids)) == 1
    process.close()
    assert not process.is_there
    assert not is_running(pids[0])


def test_a_plan_may_be_larger_than_a_pipe(tmp_path: Path, process: CleanerProcess) -> None:
    producers = {number: LastWord(None, 0) for number in range(50_000)}
    assert len(process.run(a_plan(tmp_path, producers=producers), pause).groups) == 1


def test_damaged_data_is_told_by_the_process(tmp_path: Path, process: CleanerProcess) -> None:
    plan = a_plan(tmp_path)
    path = tmp_path / f"{0:020d}{LOG}"
    path.write_bytes(b"?" * path.stat().st_size)
    outcome = process.run(plan, pause)
    assert outcome.failure is not None
    assert "no valid batch" in outcome.failure


def test_files_that_only_this_process_sees_are_compacted_here(process: CleanerProcess) -> None:
    assert len(process.run(a_plan(DIRECTORY, memory_fs()), pause).groups) == 1
    assert not process.is_there


def test_without_an_interpreter_rounds_run_here(
    tmp_path: Path, process: CleanerProcess, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for executable in ("", str(tmp_path / "nothing"), shutil.which("false")):
        monkeypatch.setattr(sys, "executable", executable)
        assert len(process.run(a_plan(tmp_path), pause).groups) == 1
        assert not process.is_there
    assert caplog.text.count("slows requests down") == 3


def test_a_process_that_is_killed_costs_the_round_only(tmp_path: Path, process: CleanerProcess) -> None:
    def kill(seconds: float) -> None:
        if list(tmp_path.glob(f"*{CLEANED}")):
            os.kill(pid_of(process), signal.SIGKILL)
        time.sleep(seconds)

    outcome = process.run(a_plan(tmp_path, limits=WITH_PAUSES), kill)
    assert (outcome.groups, outcome.abandoned) == ((), True)
    assert outcome.no_room == "the process that compacts was ended by signal 9"
    assert not list(tmp_path.glob(f"*{CLEANED}"))
    assert len(process.run(a_plan(tmp_path), pause).groups) == 1


def test_a_broker_that_stops_ends_a_round_that_runs(tmp_path: Path, process: CleanerProcess) -> None:
    pids = []

    def close(_: float) -> None:
        if process.is_there:
            pids.append(pid_of(process))
            raise ClosingError

    with pytest.raises(ClosingError):
        process.run(a_plan(tmp_path, limits=SLOWLY), close)
    assert not process.is_there
    assert not is_running(pids[0])


def test_a_broker_that_stops_does_not_begin_a_round(
    tmp_path: Path, process: CleanerProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    def close(_: float) -> None:
        raise ClosingError

    monkeypatch.delattr(CleanerProcess, "_start")
    with pytest.raises(ClosingError):
        process.run(a_plan(tmp_path), close)
    assert not process.is_there


@pytest.mark.parametrize("forks", [False, True], ids=["alone", "and has forked another that holds its pipes"])
def test_it_ends_with_the_process_that_has_started_it(tmp_path: Path, *, forks: bool) -> None:
    program = _STARTS_AND_WAITS.format(
        path=[*sys.path, str(Path.cwd())],
        directory=str(tmp_path),
        limits="WITH_PAUSES" if forks else "SLOWLY",
        forks=forks,
        forked_seconds=FORKED_SECONDS,
    )
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert is_running(pid)
        parent.kill()
        wait_until(lambda: not is_running(pid), "the end of the process that compacts", seconds=FORKED_SECONDS - 1)
        assert forks or not list(tmp_path.glob(f"*{CLEANED}")), "it went on without its parent"


@contextmanager
def a_child() -> Iterator[subprocess.Popen[bytes]]:
    """The process as it is, without what otherwise starts and asks it. It ends without a word."""
    with subprocess.Popen(
        [sys.executable, "-c", f"from headrace.log.cleaner_child import main; main({os.getpid()})"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"},
    ) as child:
        yield child
        assert child.stderr is not None
        assert child.stderr.read() == b""
        assert child.wait() == 0


@pytest.mark.parametrize("share", [0, 0.5], ids=["before a plan", "within a plan"])
def test_it_ends_with_its_input(tmp_path: Path, share: float) -> None:
    plan = pickle.dumps(a_plan(tmp_path))
    with a_child() as child:
        assert child.stdin is not None
        child.stdin.write(plan[: int(share * len(plan))])
        child.stdin.close()


def test_it_ends_if_nobody_wants_the_outcome(tmp_path: Path) -> None:
    with a_child() as child:
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdout.close()
        child.stdin.write(pickle.dumps(a_plan(tmp_path)))
        child.stdin.flush()


def test_it_does_not_begin_a_round_if_its_input_ended_while_it_waited_for_another(tmp_path: Path) -> None:
    written_by_the_other = tmp_path / f"{0:020d}{LOG}{CLEANED}"
    written_by_the_other.touch()
    with a_child() as child, alone_in(tmp_path):
        assert child.stdin is not None
        child.stdin.write(pickle.dumps(a_plan(tmp_path)))
        child.stdin.close()
        wait_until(lambda: is_waiting_for_a_lock(child.pid), "the wait for the other")
    assert written_by_the_other.exists()


def is_waiting_for_a_lock(pid: int) -> bool:
    locks = [line.split() for line in Path("/proc/locks").read_text().splitlines()]
    return any(fields[1] == "->" and str(pid) in fields for fields in locks)


@contextmanager
def alone_in(directory: Path) -> Iterator[None]:
    fd = os.open(directory, os.O_RDONLY)
    fcntl.flock(fd, fcntl.LOCK_EX)
    try:
        yield
    finally:
        os.close(fd)


def test_a_round_waits_for_one_that_has_not_noticed_the_end_of_its_broker(
    tmp_path: Path, process: CleanerProcess
) -> None:
    with ExitStack() as other:
        other.enter_context(alone_in(tmp_path))
        has_waited = False

        def look(seconds: float) -> None:
            nonlocal has_waited
            if not has_waited and process.is_there and is_waiting_for_a_lock(pid_of(process)):
                has_waited = True
                assert not list(tmp_path.glob(f"*{CLEANED}"))
                other.close()
            time.sleep(seconds)

        assert len(process.run(a_plan(tmp_path), look).groups) == 1
        assert has_waited


def test_a_directory_that_is_gone_costs_the_round_only(
    tmp_path: Path, process: CleanerProcess, caplog: pytest.LogCaptureFixture
) -> None:
    plan = a_plan(tmp_path)
    shutil.rmtree(tmp_path)
    assert process.run(plan, pause).abandoned
    assert process.is_there
    assert not caplog.text


def test_requests_come_first(tmp_path: Path, process: CleanerProcess) -> None:
    process.run(a_plan(tmp_path), pause)
    ours = os.getpriority(os.PRIO_PROCESS, 0)
    assert os.getpriority(os.PRIO_PROCESS, pid_of(process)) == min(ours + NICENESS, 19)


def test_whoever_ends_a_broker_by_ctrl_c_ends_the_broker(tmp_path: Path, process: CleanerProcess) -> None:
    process.run(a_plan(tmp_path), pause)
    assert os.getpgid(pid_of(process)) != os.getpgid(0)


def children() -> set[str]:
    return {pid for task in Path("/proc/self/task").iterdir() for pid in (task / "children").read_text().split()}


def test_a_broker_has_the_process_while_it_compacts_and_no_longer(tmp_path: Path) -> None:
    before = children()
    seen: set[str] = set()
    with headrace.Broker(tmp_path, log_cleaner_backoff_ms=10) as broker:
        broker.create_topic(
            "t", cleanup_policy="compact", internal_segment_bytes="5000", min_cleanable_dirty_ratio="0.01"
        )
        with client_of(broker.address) as client:
            for _ in range(COUNT):
                assert produce(client, "t", b"v" * 1000, key=b"k") == 0

            def is_compacted() -> bool:
                seen.update(children() - before)
                return len(values(client, "t")) < 10

            wait_until(is_compacted, "compaction")
        assert seen
        wait_until(lambda: not seen & children(), "the end of the process")


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_it_ends_with_its_broker(tmp_path: Path, how: str) -> None:
    """Also if it has no round just then."""
    (tmp_path / "t-0").mkdir()

    async def story() -> None:
        running = await Running(tmp_path / "data").start()
        process = running.broker._maintenance._compaction._process
        process.run(a_plan(tmp_path / "t-0"), pause)
        pid = pid_of(process)
        if how == "stop":
            await running.stop()
        else:
            running.client.close()
            running.broker.kill()
        assert not is_running(pid)

    asyncio.run(story())
