"""A file system in memory, with a directory for logs."""

import pytest

from headrace.log.memory_fs import MemoryFileSystem


@pytest.fixture
def fs() -> MemoryFileSystem:
    fs = MemoryFileSystem()
    fs.make_dir("/data")
    return fs
