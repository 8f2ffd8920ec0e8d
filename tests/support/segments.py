"""Segments on a file system in memory, from batches."""

from collections.abc import Sequence

from headrace.log.config import LogConfig
from headrace.log.fs import FileSystem
from headrace.log.memory_fs import MemoryFileSystem
from headrace.log.open_files import OpenFiles
from headrace.log.segment import Segment
from headrace.protocol.batch import read_header
from headrace.protocol.records import NewRecord, build_batch

DIRECTORY = "data/orders-0"


def memory_fs(directory: str = DIRECTORY) -> MemoryFileSystem:
    """With an empty directory that would survive a crash."""
    fs = MemoryFileSystem()
    fs.make_dir(directory)
    parts = directory.split("/")
    for depth in range(len(parts)):
        fs.sync_dir("/".join(parts[:depth]))
    return fs


def a_segment(
    fs: FileSystem,
    base_offset: int,
    batches: Sequence[bytes | bytearray],
    config: LogConfig,
    *,
    directory: str = DIRECTORY,
    now_ms: int = 0,
) -> Segment:
    segment = Segment.create(fs, directory, base_offset, config, open_files=OpenFiles(limit=100), now_ms=now_ms)
    for batch in batches:
        header = read_header(batch)
        segment.append(batch, last_offset=header.last_offset, max_timestamp=header.max_timestamp)
    segment.write_indexes()
    return segment


def a_batch(offset: int, *, timestamp: int = 0, count: int = 1, value: bytes = b"v") -> bytearray:
    return build_batch([NewRecord(timestamp, b"k", value)] * count, base_offset=offset)
