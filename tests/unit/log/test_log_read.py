"""Reading: ranges, limits, segments, timestamps; slices that outlive their segment."""

import os
from pathlib import Path

import pytest

from headrace.log.append import Origin
from headrace.log.config import LogConfig
from headrace.log.errors import OffsetOutOfRangeError, StorageError
from headrace.log.fs import RealFileSystem
from headrace.log.log import Log
from headrace.log.lookup import TimestampOffset
from headrace.log.memory_fs import Fault, MemoryFileSystem
from headrace.log.open_files import OpenFiles
from headrace.protocol.compression import Codec
from tests.support.log_batches import EPOCH, NOW_MS, a_batch, append, batches_of, flush, records_of, run_chores

CONFIG = LogConfig(segment_bytes=400, index_interval_bytes=100)


@pytest.fixture
def log() -> Log:
    """Thirty batches of two records, four to a segment."""
    fs = MemoryFileSystem()
    fs.make_dir("/data")
    log = Log.open(fs, "/data/t-0", CONFIG, clean=False, now_ms=NOW_MS)
    for number in range(30):
        append(log, b"a%02d" % number, b"b%02d" % number, timestamps=[NOW_MS + number * 10, NOW_MS + number * 10 + 5])
    assert len(log.segments) > 5
    return log


def test_every_offset_from_the_start_to_the_end_can_be_read(log: Log) -> None:
    for offset in range(60):
        first = log.read(offset, max_bytes=1).first_offset
        assert first == offset // 2 * 2
    assert log.read(60, max_bytes=1000).read() == b""


def test_offsets_outside_the_log_are_refused_with_its_range(log: Log) -> None:
    log.raise_high_watermark(60)
    log.advance_log_start(7)
    for offset in (-1, 6, 61):
        with pytest.raises(OffsetOutOfRangeError, match=f"offset {offset} is outside 7..60"):
            log.read(offset, max_bytes=1000)


def test_a_reader_that_comes_back_for_more_sees_everything_once(log: Log) -> None:
    expected = [value % number for number in range(30) for value in (b"a%02d", b"b%02d")]
    for max_bytes in (1, 100, 250, 10_000):
        values = [data[-6:] for _, data in batches_of(log, max_bytes=max_bytes)]
        assert len(values) == 30
    assert [record.value for record in records_of(log)] == expected


def test_nothing_at_or_behind_the_end_offset_is_served(log: Log) -> None:
    for end_offset in range(61):
        headers = [header for header, _ in batches_of(log, end_offset=end_offset, max_bytes=150)]
        assert len(headers) == end_offset // 2


def test_the_end_offset_may_lie_behind_the_log(log: Log) -> None:
    assert log.read(58, max_bytes=1000, end_offset=1 << 60).first_offset == 58


def test_a_reader_at_the_tail_is_remembered(log: Log) -> None:
    assert log.read(58, max_bytes=1000)
    position = log.active.size
    append(log, b"new")
    found = log.read(60, max_bytes=1000)
    assert (found.position, found.first_offset) == (position, 60)


def test_a_slice_is_sent_from_its_file_after_deletion_and_eviction(tmp_path: Path) -> None:
    log = Log.open(
        RealFileSystem(),
        str(tmp_path / "t-0"),
        CONFIG,
        clean=False,
        now_ms=NOW_MS,
        open_files=OpenFiles(1),
    )
    for number in range(20):
        append(log, b"value %02d" % number)
    log.raise_high_watermark(20)
    found = log.read(0, max_bytes=1000)
    expected = found.read()
    fd = found.fileno()
    log.delete_segments(list(log.segments)[:3])
    run_chores(log)
    for offset in range(log.log_start_offset, 20):
        log.read(offset, max_bytes=1).read()
    assert not (tmp_path / "t-0" / "00000000000000000000.log").exists()
    assert os.pread(fd, found.size_bytes, found.position) == expected == found.read()
    del found
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(fd)


def test_an_empty_slice_is_empty_in_every_way(log: Log) -> None:
    empty = log.read(60, max_bytes=100)
    assert (len(empty), bool(empty), empty.read(), empty.first_offset) == (0, False, b"", None)
    with pytest.raises(OSError, match="no file"):
        empty.fileno()


def test_a_read_that_the_disk_refuses_is_an_error_of_that_read_alone(log: Log) -> None:
    fs = log.fs
    assert isinstance(fs, MemoryFileSystem)
    fs.faults.append(Fault("read", path_end=".log"))
    with pytest.raises(StorageError, match="reading offset 5"):
        log.read(5, max_bytes=100)
    assert log.failure is None
    assert log.read(5, max_bytes=100).first_offset == 4
    append(log)


def test_few_files_are_enough_for_many_segments(tmp_path: Path) -> None:
    open_files = OpenFiles(3)
    logs = [
        Log.open(
            RealFileSystem(), str(tmp_path / f"t-{number}"), CONFIG, clean=False, now_ms=NOW_MS, open_files=open_files
        )
        for number in range(5)
    ]
    for number in range(40):
        for log in logs:
            append(log, b"%d" % number)
    assert len(open_files) == 3
    for log in logs:
        assert [record.value for record in records_of(log)] == [b"%d" % number for number in range(40)]
        log.close()
    assert len(open_files) == 0


# Timestamps


def test_the_first_record_at_or_after_a_timestamp_is_found(log: Log) -> None:
    for number in range(30):
        at = NOW_MS + number * 10
        assert log.find_timestamp(at) == TimestampOffset(at, number * 2, EPOCH)
        assert log.find_timestamp(at + 1) == TimestampOffset(at + 5, number * 2 + 1, EPOCH)
    assert log.find_timestamp(0) == TimestampOffset(NOW_MS, 0, EPOCH)
    assert log.find_timestamp(NOW_MS + 296) is None


def test_only_records_from_the_log_start_on_are_found(log: Log) -> None:
    log.raise_high_watermark(60)
    log.advance_log_start(21)
    assert log.find_timestamp(0) == TimestampOffset(NOW_MS + 105, 21, EPOCH)


def test_the_first_record_with_the_largest_timestamp_is_found(log: Log) -> None:
    append(log, b"x", b"y", b"z", timestamps=[NOW_MS, NOW_MS + 9000, NOW_MS + 9000])
    for _ in range(10):
        append(log, timestamps=[NOW_MS])
    assert log.max_timestamp() == TimestampOffset(NOW_MS + 9000, 61, EPOCH)


def test_compressed_and_marker_records_are_searched_too(log: Log) -> None:
    append(log, b"x", b"y", timestamps=[NOW_MS + 5000, NOW_MS + 6000], codec=Codec.ZSTD)
    assert log.find_timestamp(NOW_MS + 5500) == TimestampOffset(NOW_MS + 6000, 61, EPOCH)


def test_a_log_without_records_or_timestamps_has_none_to_find() -> None:
    log = Log.open(MemoryFileSystem(), "/t-0", CONFIG, clean=False, now_ms=NOW_MS)
    assert log.find_timestamp(0) is None
    assert log.max_timestamp() is None
    append(log, timestamps=[-1])
    assert log.find_timestamp(0) is None
    assert log.max_timestamp() is None


def test_epochs_of_replicated_records_are_told_with_the_timestamp() -> None:
    log = Log.open(MemoryFileSystem(), "/t-0", CONFIG, clean=False, now_ms=NOW_MS)
    log.append(a_batch(timestamps=[7], leader_epoch=3), leader_epoch=9, now_ms=NOW_MS, origin=Origin.REPLICATION)
    assert log.find_timestamp(1) == TimestampOffset(7, 0, 3)


def test_a_flushed_log_is_read_the_same(log: Log) -> None:
    before = records_of(log)
    run_chores(log)
    flush(log)
    assert records_of(log) == before
