"""The file system port: what both sides promise, and what only the real one can show."""

import errno
import gc
import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from headrace.log.errors import LockedError
from headrace.log.fs import FileSystem, RealFileSystem, sync_file
from headrace.log.memory_fs import MemoryFileSystem


@pytest.fixture(params=["real", "memory"])
def fs_and_directory(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[FileSystem, str]:
    if request.param == "real":
        return RealFileSystem(), str(tmp_path)
    fs = MemoryFileSystem()
    fs.make_dir("/data")
    return fs, "/data"


@contextmanager
def file_size_limit(limit_bytes: int) -> Iterator[None]:
    """As a disk that is full: writes beyond the limit are short, then fail with EFBIG."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_file_gives_back_what_was_appended(fs_and_directory: tuple[FileSystem, str]) -> None:
    fs, directory = fs_and_directory
    file = fs.open(f"{directory}/a", create=True)
    file.append(b"hello ")
    file.append(memoryview(bytearray(b"world")))
    assert file.size == 11
    assert file.read(0, 100) == b"hello world"
    assert file.read(6, 3) == b"wor"
    assert file.read(11, 5) == b""
    assert fs.read_bytes(f"{directory}/a") == b"hello world"
    assert fs.size_of(f"{directory}/a") == 11


def test_appending_goes_on_at_the_end_after_reopening_and_truncating(fs_and_directory: tuple[FileSystem, str]) -> None:
    fs, directory = fs_and_directory
    fs.open(f"{directory}/a", create=True).append(b"0123456789")
    file = fs.open(f"{directory}/a")
    assert file.size == 10
    file.truncate(4)
    file.append(b"abc")
    assert fs.read_bytes(f"{directory}/a") == b"0123abc"


def test_the_raw_writer_appends_too(fs_and_directory: tuple[FileSystem, str]) -> None:
    fs, directory = fs_and_directory
    file = fs.open(f"{directory}/a", create=True)
    file.append(b"one")
    write, handle = file.raw_writer()
    assert write(handle, b"two") == 3
    assert fs.read_bytes(f"{directory}/a") == b"onetwo"


def test_cutting_back_removes_what_lies_behind_the_size(fs_and_directory: tuple[FileSystem, str]) -> None:
    fs, directory = fs_and_directory
    file = fs.open(f"{directory}/a", create=True)
    file.append(b"good")
    write, handle = file.raw_writer()
    write(handle, b"torn")
    file.cut_back()
    assert not file.torn
    assert fs.read_bytes(f"{directory}/a") == b"good"


def test_a_missing_file_is_not_found(fs_and_directory: tuple[FileSystem, str]) -> None:
    fs, directory = fs_and_directory
    for act in (fs.open, fs.read_bytes, fs.size_of, fs.modified_ms, fs.remove, fs.list_dir, fs.remove_tree):
        with pytest.raises(FileNotFoundError):
            act(f"{directory}/missing")
    assert not fs.exists(f"{directory}/missing")
    sync_file(fs, f"{directory}/missing")


def test_names_change_by_rename_remove_and_make_dir(fs_and_directory: tuple[FileSystem, str]) -> None:
    fs, directory = fs_and_directory
    fs.make_dir(f"{directory}/x/y")
    fs.make_dir(f"{directory}/x/y")
    fs.open(f"{directory}/x/y/a", create=True).append(b"a")
    fs.open(f"{directory}/x/y/b", create=True).append(b"b")
    fs.rename(f"{directory}/x/y/a", f"{directory}/x/y/b")
    assert fs.list_dir(f"{directory}/x/y") == ["b"]
    assert fs.read_bytes(f"{directory}/x/y/b") == b"a"
    fs.rename(f"{directory}/x", f"{directory}/z")
    fs.remove(f"{directory}/z/y/b")
    assert fs.list_dir(f"{directory}/z/y") == []
    fs.remove_tree(f"{directory}/z")
    assert fs.list_dir(directory) == []


def test_an_atomic_write_replaces_the_content_and_leaves_no_other_file(
    fs_and_directory: tuple[FileSystem, str],
) -> None:
    fs, directory = fs_and_directory
    fs.write_atomically(f"{directory}/a", b"a longer first content")
    fs.write_atomically(f"{directory}/a", b"second")
    assert fs.read_bytes(f"{directory}/a") == b"second"
    assert fs.list_dir(directory) == ["a"]


def test_a_lock_is_exclusive_until_it_is_released(fs_and_directory: tuple[FileSystem, str]) -> None:
    fs, directory = fs_and_directory
    lock = fs.lock(f"{directory}/.lock")
    with pytest.raises(LockedError, match="another data directory"):
        fs.lock(f"{directory}/.lock")
    lock.release()
    lock.release()
    fs.lock(f"{directory}/.lock").release()


def test_the_lock_excludes_who_takes_record_locks_as_java_does(tmp_path: Path) -> None:
    fs = RealFileSystem()
    path = tmp_path / ".lock"
    take_record_lock = f"import fcntl; f = open({str(path)!r}, 'r+'); fcntl.lockf(f, fcntl.LOCK_EX | fcntl.LOCK_NB)"
    lock = fs.lock(str(path))
    with pytest.raises(LockedError):
        fs.lock(str(path))
    refused = subprocess.run([sys.executable, "-c", take_record_lock], capture_output=True, check=False)
    assert b"BlockingIOError" in refused.stderr
    lock.release()
    subprocess.run([sys.executable, "-c", take_record_lock], check=True)
    holder = subprocess.Popen(
        [sys.executable, "-c", f"{take_record_lock}; print(flush=True); input()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with holder:
        assert holder.stdin is not None
        assert holder.stdout is not None
        holder.stdout.readline()
        with pytest.raises(LockedError, match="locked by another process"):
            fs.lock(str(path))
        holder.stdin.write(b"\n")
    fs.lock(str(path)).release()


def test_syncing_and_dropping_pages_keep_the_content(fs_and_directory: tuple[FileSystem, str]) -> None:
    fs, directory = fs_and_directory
    file = fs.open(f"{directory}/a", create=True)
    file.append(b"x" * 10_000)
    file.sync()
    file.write_out(1_000, 10_000)
    file.drop_pages()
    fs.sync_dir(directory)
    assert file.read(9_990, 100) == b"x" * 10


def test_a_real_disk_that_fills_up_in_the_middle_of_an_append_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    file = RealFileSystem().open(str(tmp_path / "a"), create=True)
    file.append(b"good")
    with file_size_limit(10), pytest.raises(OSError, match=os.strerror(errno.EFBIG)):
        file.append(b"more than fits")
    assert (file.size, file.torn) == (4, False)
    assert (tmp_path / "a").read_bytes() == b"good"
    file.append(b"!")
    assert (tmp_path / "a").read_bytes() == b"good!"


def test_a_failed_atomic_write_keeps_the_old_content(tmp_path: Path) -> None:
    fs = RealFileSystem()
    fs.write_atomically(str(tmp_path / "a"), b"old")
    with file_size_limit(10), pytest.raises(OSError, match=os.strerror(errno.EFBIG)):
        fs.write_atomically(str(tmp_path / "a"), b"new, and too long for the disk")
    assert (tmp_path / "a").read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["a"]


def test_a_descriptor_is_closed_when_the_last_reference_goes(tmp_path: Path) -> None:
    file = RealFileSystem().open(str(tmp_path / "a"), create=True)
    other = file
    fd = file.fileno()
    del file
    gc.collect()
    os.fstat(fd)
    del other
    gc.collect()
    with pytest.raises(OSError, match=os.strerror(errno.EBADF)):
        os.fstat(fd)


def test_a_file_that_was_cut_by_somebody_else_reads_short(tmp_path: Path) -> None:
    file = RealFileSystem().open(str(tmp_path / "a"), create=True)
    file.append(b"0123456789")
    os.truncate(tmp_path / "a", 4)
    assert file.read(2, 8) == b"23"
