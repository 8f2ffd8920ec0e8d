"""What the log adds to the bare write: append, beside `os.write` of the same bytes.

Both sides write to a file that is emptied between rounds, so that both get pages which the kernel has already: growing
the page cache costs more than all that is measured here. Both sides take turns, and the median ratio counts.

The first two batches of an emptied log are a figure of their own: they begin a file, a leader's epoch and the age of a
segment. A log sees that once in a gigabyte, and would once in a round of eight batches of 1 MB. So the bare file gets
its first two before the clock starts, too.
"""

import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from statistics import median
from struct import Struct
from typing import Final

from fastcrc.crc32 import iscsi as crc32c

from benchmarks.figures import Figure, cpu_seconds
from headrace.log.config import LogConfig
from headrace.log.fs import RealFileSystem
from headrace.log.log import Log
from headrace.protocol.batch import CRC_START, HEADER_SIZE, unpack_header
from headrace.protocol.records import NewRecord, build_batch

ROUND_BYTES: Final = 8 << 20
ROUNDS: Final = 21
FIRST_BATCHES: Final = 2  # of an emptied log, not taken the quick way
NOW_MS: Final = 1_700_000_000_000
_STAMP: Final = Struct(">qii").pack_into  # base offset, batch length, leader epoch
GOALS: Final = {200: ("200 B", 2.5), 16 << 10: ("16 KB", 1.5), 1 << 20: ("1 MB", 1.3)}


def run() -> list[Figure]:
    with tempfile.TemporaryDirectory() as directory, _bare_file(directory) as fd, _log(directory) as log:
        figures = [_append(fd, log, size) for size in GOALS]
        figures += [_floor(fd, size) for size in GOALS]
        figures.append(_first_appends(log))
        figures.append(_append_of_producer(log))
        figures.append(_read_at_the_tail(log))
    return figures


@contextmanager
def _bare_file(directory: str) -> Iterator[int]:
    fd = os.open(f"{directory}/bare", os.O_RDWR | os.O_CREAT | os.O_APPEND)
    try:
        yield fd
    finally:
        os.close(fd)


@contextmanager
def _log(directory: str) -> Iterator[Log]:
    log = Log.open(RealFileSystem(), f"{directory}/bench-0", LogConfig(), clean=False, now_ms=NOW_MS)
    yield log
    log.truncate_fully_and_start_at(0)
    log.close()


def _batch(size: int, *, producer_id: int = -1, sequence: int = -1) -> memoryview:
    """One record in a batch of exactly `size` bytes."""
    for padding in range(size - HEADER_SIZE, 0, -1):
        batch = build_batch(
            [NewRecord(NOW_MS, None, bytes(padding))],
            producer_id=producer_id,
            producer_epoch=min(producer_id, 0),
            base_sequence=sequence,
        )
        if len(batch) == size:
            return memoryview(batch)
    raise ValueError(f"no batch has {size} bytes")


def _append(fd: int, log: Log, size: int) -> Figure:
    batch = _batch(size)
    label, goal = GOALS[size]
    batches = [batch] * (ROUND_BYTES // size)
    rounds = []
    for _ in range(ROUNDS):
        _restart(fd, batch)
        bare = _time_writes(fd, batches)
        os.ftruncate(fd, 0)
        _empty(log)
        _time_appends(log, [batch] * FIRST_BATCHES)
        rounds.append((_time_appends(log, batches), bare))
    ours, theirs = (min(times) * 1e6 for times in zip(*rounds, strict=True))
    ratio = median(own / bare for own, bare in rounds)
    return Figure(f"append {label} / os.write", ratio, "x", goal, note=f"{ours:.2f} us, os.write {theirs:.2f} us")


def _floor(fd: int, size: int) -> Figure:
    """The four calls that no append can do without (header, CRC, stamp, write), in a bare loop: where a log begins."""
    batch = _batch(size)
    label, _ = GOALS[size]
    batches = [batch] * (ROUND_BYTES // size)
    rounds = []
    for _ in range(ROUNDS):
        _restart(fd, batch)
        bare = _time_writes(fd, batches)
        _restart(fd, batch)
        rounds.append((_time_four_calls(fd, batches), bare))
    os.ftruncate(fd, 0)
    ratio = median(own / bare for own, bare in rounds)
    note = f"{min(own for own, _ in rounds) * 1e6:.2f} us"
    return Figure(f"{label}: header, CRC, stamp and write alone / os.write", ratio, "x", note=note)


def _restart(fd: int, batch: memoryview) -> None:
    os.ftruncate(fd, 0)
    _time_writes(fd, [batch] * FIRST_BATCHES)


def _time_four_calls(fd: int, batches: Sequence[memoryview]) -> float:
    write = os.write
    start = time.process_time()
    for batch in batches:
        header = unpack_header(batch)
        if crc32c(batch[CRC_START:]) != header[4]:
            raise ValueError("the CRC of a batch is wrong")
        _STAMP(batch, 0, 0, header[1], 0)
        write(fd, batch)
    return (time.process_time() - start) / len(batches)


def _time_writes(fd: int, batches: Sequence[memoryview]) -> float:
    """CPU seconds of one write, in a loop without another call around it, which would hide part of the difference."""
    write = os.write
    start = time.process_time()
    for batch in batches:
        write(fd, batch)
    return (time.process_time() - start) / len(batches)


def _time_appends(log: Log, batches: Sequence[memoryview]) -> float:
    append = log.append
    start = time.process_time()
    for batch in batches:
        append(batch, leader_epoch=0, now_ms=NOW_MS)
    return (time.process_time() - start) / len(batches)


def _first_appends(log: Log) -> Figure:
    """What each of the first batches costs of a log that was emptied."""
    batches = [_batch(200)] * FIRST_BATCHES
    rounds = []
    for _ in range(ROUNDS):
        _empty(log)
        rounds.append(_time_appends(log, batches))
    return Figure(f"append 200 B, the first {FIRST_BATCHES} of a log", median(rounds) * 1e6, "us")


def _append_of_producer(log: Log) -> Figure:
    """Batches of an idempotent producer, as today's clients send them: each with the next sequence."""
    batches = [_batch(200, producer_id=7, sequence=sequence) for sequence in range(5000)]
    best = float("inf")
    for _ in range(ROUNDS):
        _empty(log)
        best = min(best, _time_appends(log, batches))
    return Figure("append 200 B of an idempotent producer", best * 1e6, "us")


def _read_at_the_tail(log: Log) -> Figure:
    """What a consumer that keeps up asks for: the newest batch, found and read."""
    _empty(log)
    _time_appends(log, [_batch(200)] * 5000)
    offset = log.log_end_offset - 1
    seconds = cpu_seconds(lambda: log.read(offset, max_bytes=1 << 20).read(), calls=2000)
    return Figure("read of the newest 200 B", seconds * 1e6, "us")


def _empty(log: Log) -> None:
    log.truncate_fully_and_start_at(0)
    for chore in log.take_chores():
        chore.run()
        chore.done()
