"""Ten thousand partitions: how long a broker takes to have them again after a stop, and how many files it opens."""

import os
import shutil
import tempfile
import time
from typing import Final

from benchmarks.figures import Figure
from headrace.log.checkpoints import CLEAN_SHUTDOWN, TopicPartition
from headrace.log.config import LogConfig
from headrace.log.directory import MAX_OPEN_FILES, LogDirectory
from headrace.log.directory_names import directory_name
from headrace.log.fs import RealFileSystem
from headrace.protocol.records import NewRecord, build_batch

PARTITIONS: Final = 10_000
GOAL_SECONDS: Final = 1.0
REPEATS: Final = 3
BATCHES: Final = 20
_TOPIC_ID: Final = bytes(range(1, 17))
_CONFIG: Final = LogConfig()


def run() -> list[Figure]:
    path = tempfile.mkdtemp(prefix="headrace-bench-")
    try:
        _fill(path)
        return [*_clean(path), *_unclean(path)]
    finally:
        shutil.rmtree(path)


def _fill(path: str) -> None:
    """One log with a few batches, and copies of its directory: the cost of creating them is not measured here."""
    directory = _open(path)
    log = directory.create(TopicPartition("t", 0), topic_id=_TOPIC_ID, now_ms=0)
    for _ in range(BATCHES):
        log.append(build_batch([NewRecord(0, b"key", bytes(500))]), leader_epoch=0, now_ms=0)
    directory.close()
    first = f"{path}/{directory_name(TopicPartition('t', 0))}"
    for number in range(1, PARTITIONS):
        shutil.copytree(first, f"{path}/{directory_name(TopicPartition('t', number))}")


def _open(path: str) -> LogDirectory:
    return LogDirectory.open(RealFileSystem(), path, lambda _: _CONFIG, now_ms=0)


def _clean(path: str) -> list[Figure]:
    """After a clean stop. The best of several times: noise only ever adds."""
    files_before = _open_files()
    rounds = [_reopen(path) for _ in range(REPEATS)]
    opening, logs, closing = (min(seconds) for seconds in zip(*(round_[:3] for round_ in rounds), strict=True))
    most_files = max(files for _, _, _, files in rounds) - files_before
    return [
        Figure("10,000 partitions: the directory is open", opening, "s", note="logs are opened when asked for"),
        Figure("10,000 partitions: every log is open", logs, "s", goal=GOAL_SECONDS),
        Figure("10,000 partitions: all closed again", closing, "s", goal=GOAL_SECONDS, note="nothing was written"),
        Figure("files open at most", most_files, "files", goal=MAX_OPEN_FILES + 1, note="the bound, and the lock"),
    ]


def _reopen(path: str) -> tuple[float, float, float, int]:
    """CPU seconds until the directory is open, until every log is, and to close them; files open before that."""
    start = time.process_time()
    directory = _open(path)
    is_open = time.process_time()
    for partition in directory:
        log = directory.get(partition, now_ms=0)
        assert log is not None
        assert log.log_end_offset == BATCHES
    are_logs_open = time.process_time()
    files = _open_files()
    before_closing = time.process_time()
    directory.close()
    return is_open - start, are_logs_open - start, time.process_time() - before_closing, files


def _unclean(path: str) -> list[Figure]:
    """After a kill: every log is read from its recovery point on. It is not closed: that would sync every log."""
    os.unlink(f"{path}/{CLEAN_SHUTDOWN}")
    start = time.process_time()
    directory = _open(path)
    seconds = time.process_time() - start
    assert len(directory.opened) == PARTITIONS
    return [Figure("10,000 partitions: recovered after a kill", seconds, "s", note="10 KB of log to read in each")]


def _open_files() -> int:
    return len(os.listdir("/proc/self/fd"))
