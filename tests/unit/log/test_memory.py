"""What a log takes of memory: a broker has thousands of them."""

import gc
import tracemalloc
from pathlib import Path

from headrace.log.config import LogConfig
from headrace.log.fs import RealFileSystem
from headrace.log.log import Log
from headrace.log.open_files import OpenFiles
from tests.support.log_batches import NOW_MS, append

LOGS = 50
MAX_BYTES = 2700  # with one batch; a broker's partition has as much again around it, and 4 KB as its goal


def test_a_log_with_a_batch_takes_little_memory(tmp_path: Path) -> None:
    fs, config, open_files = RealFileSystem(), LogConfig(), OpenFiles(1)

    def a_log(number: int) -> Log:
        path = str(tmp_path / f"t-{number}")
        log = Log.open(fs, path, config, clean=True, now_ms=NOW_MS, topic_id=b"i" * 16, open_files=open_files)
        append(log, b"v")
        log.raise_high_watermark(1)
        assert log.last_stable_offset == 1
        return log

    warm = a_log(LOGS)
    gc.collect()
    tracemalloc.start()
    try:
        logs = [a_log(number) for number in range(LOGS)]
        gc.collect()
        each_bytes = tracemalloc.get_traced_memory()[0] / LOGS
    finally:
        tracemalloc.stop()
    assert each_bytes < MAX_BYTES
    for log in (warm, *logs):
        log.close()
