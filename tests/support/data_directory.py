"""A data directory for tests: opened, filled, flushed and read back."""

from headrace.log.checkpoints import TopicPartition
from headrace.log.config import LogConfig
from headrace.log.directory import LogDirectory
from headrace.log.fs import FileSystem
from headrace.log.log import Log
from headrace.protocol.records import NewRecord, build_batch
from tests.support.compaction import read_all

DATA = "data"
ID = bytes(range(16))
ORDERS = TopicPartition("orders", 0)
USERS = TopicPartition("users", 3)


def a_directory(
    fs: FileSystem, *, path: str = DATA, config: LogConfig | None = None, now_ms: int = 0, max_open_files: int = 64
) -> LogDirectory:
    return LogDirectory.open(fs, path, lambda _: config or LogConfig(), now_ms=now_ms, max_open_files=max_open_files)


def append(log: Log | None, *values: bytes) -> None:
    assert log is not None
    for value in values:
        log.append(build_batch([NewRecord(0, b"k", value)]), leader_epoch=0, now_ms=0)
    log.raise_high_watermark(log.log_end_offset)


def values(log: Log | None) -> list[bytes | None]:
    assert log is not None
    return [record.value for record in read_all(log)]


def flush(log: Log) -> None:
    plan = log.plan_flush()
    if plan is not None:
        plan.run()
        plan.done()
