"""What can be read without waiting for the disk is read at once; the rest can be waited for before."""

import errno
import os
from pathlib import Path

import pytest

from headrace.log import cached_reads
from headrace.log.fs import RealFile, RealFileSystem

CONTENT = bytes(range(251)) * 20_000  # 5 MB


@pytest.fixture
def file(tmp_path: Path) -> RealFile:
    file = RealFileSystem().open(str(tmp_path / "00000000000000000000.log"), create=True)
    file.append(CONTENT)
    file.sync()
    return file


def refuse(monkeypatch: pytest.MonkeyPatch, code: int) -> list[int]:
    """Reads that must not wait fail with this; at which positions they were tried."""
    positions: list[int] = []

    def preadv(_: int, __: object, position: int, flags: int) -> int:
        assert flags == os.RWF_NOWAIT
        positions.append(position)
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "preadv", preadv)
    return positions


def test_what_was_just_written_is_read_at_once(file: RealFile) -> None:
    assert file.read_cached(1000, 3000) == CONTENT[1000:4000]
    assert file.is_cached(len(CONTENT) - 1)


def test_less_than_all_is_nothing(file: RealFile) -> None:
    assert file.read_cached(len(CONTENT) - 10, 11) is None


def test_what_is_on_the_disk_only_is_refused(file: RealFile, monkeypatch: pytest.MonkeyPatch) -> None:
    assert refuse(monkeypatch, errno.EAGAIN) == []
    assert file.read_cached(1000, 3000) is None
    assert not file.is_cached(1000)


@pytest.mark.parametrize("code", [errno.EOPNOTSUPP, errno.EINVAL])
def test_where_the_file_system_cannot_tell_everything_is_read(
    file: RealFile, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    positions = refuse(monkeypatch, code)
    assert file.read_cached(1000, 3000) == CONTENT[1000:4000]
    assert file.is_cached(2000)
    assert positions == [1000, 2000]
    assert file.read_cached(len(CONTENT) - 10, 11) is None


def test_where_the_system_cannot_tell_everything_is_read(file: RealFile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cached_reads, "_NO_WAIT", 0)
    positions = refuse(monkeypatch, errno.EAGAIN)
    assert file.read_cached(1000, 3000) == CONTENT[1000:4000]
    assert file.is_cached(2000)
    assert positions == []
    assert file.read_cached(len(CONTENT) - 10, 11) is None


def test_a_disk_that_fails_is_told_to_the_reader(file: RealFile, monkeypatch: pytest.MonkeyPatch) -> None:
    refuse(monkeypatch, errno.EIO)
    with pytest.raises(OSError, match="Input/output"):
        file.read_cached(1000, 3000)
    assert file.is_cached(1000), "whoever reads it will hear of it"


def test_what_was_dropped_from_memory_is_there_again_when_it_was_loaded(file: RealFile) -> None:
    """Whatever the file system says of what was dropped: some keep it."""
    file.drop_pages()
    file.load(0, 3_000_000)
    assert all(file.is_cached(position) for position in range(0, 3_000_000, 100_000))
    assert file.read_cached(0, 3_000_000) == CONTENT[:3_000_000]


def test_loading_ends_where_the_file_does(file: RealFile) -> None:
    file.load(len(CONTENT) - 100, len(CONTENT) + 1_000_000)
    file.load(len(CONTENT) + 5, len(CONTENT) + 10)
