"""A part of a file is written out without a sync where the system can do that, and with one where it cannot."""

import ctypes
import errno
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headrace.log import write_range as module
from headrace.log.write_range import write_range

Synced = list[int]


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> Synced:
    """The descriptors that were synced."""
    found: Synced = []
    monkeypatch.setattr(os, "fdatasync", found.append)
    return found


@pytest.fixture
def fd(tmp_path: Path) -> Iterator[int]:
    made = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    os.write(made, bytes(100_000))
    yield made
    os.close(made)


def answering(code: int) -> Callable[[], Callable[..., int]]:
    """A system whose call ends with this error."""

    def call(*_: int) -> int:
        ctypes.set_errno(code)
        return -1

    return lambda: call


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has sync_file_range")
def test_on_linux_nothing_is_synced_for_it(fd: int, synced: Synced) -> None:
    write_range(fd, 5_000, 90_000)
    assert synced == []
    assert os.pread(fd, 10, 99_990) == bytes(10)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has sync_file_range")
def test_the_systems_error_is_told(tmp_path: Path, synced: Synced) -> None:
    closed = os.open(tmp_path, os.O_RDONLY)
    os.close(closed)
    with pytest.raises(OSError, match=os.strerror(errno.EBADF)):
        write_range(closed, 0, 10)
    assert synced == []


def test_where_there_is_no_such_call_the_file_is_synced(
    fd: int, synced: Synced, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_sync_file_range", lambda: None)
    write_range(fd, 5_000, 90_000)
    assert synced == [fd]


def test_where_the_call_is_there_and_does_nothing_the_file_is_synced(
    fd: int, synced: Synced, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_sync_file_range", answering(errno.ENOSYS))
    write_range(fd, 5_000, 90_000)
    assert synced == [fd]


def test_a_disk_that_fails_is_not_asked_twice(fd: int, synced: Synced, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_sync_file_range", answering(errno.EIO))
    with pytest.raises(OSError, match=os.strerror(errno.EIO)):
        write_range(fd, 5_000, 90_000)
    assert synced == []
