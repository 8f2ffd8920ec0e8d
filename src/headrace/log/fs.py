"""The file system as the log sees it: a port with two sides, the real one and one in memory that fails on demand.

The port promises no more than a disk does, and callers must not assume more:

* What was appended may be lost in a crash until `File.sync` returned. Of several appends any part may survive.
* A name (a new file, a rename, a removal) may be lost in a crash until `FileSystem.sync_dir` of its directory returned,
  even if the file itself was synced.
* A rename within a directory is atomic: whoever looks sees the old or the new file.
* A failed `append` leaves the file as it was. Where the disk refuses even that, the file is `torn`: its `size` is still
  the last good one, so readers are safe, but nobody may append to it any more.
* A failed `sync` is never tried again: the kernel may have dropped the pages that it could not write, and a second call
  would report success.

A `File` may be shared: its descriptor is closed when the last reference to it goes, so that bytes on their way to a
socket can never come from another file that got the same number. Only its sole owner may call `close`.
"""

import contextlib
import fcntl
import os
import shutil
from collections.abc import Callable
from struct import Struct
from typing import Any, Final, Protocol, TypeAlias

from headrace.log import cached_reads
from headrace.log.errors import LockedError
from headrace.log.write_range import write_range

Buffer: TypeAlias = bytes | bytearray | memoryview
RawWriter: TypeAlias = tuple[Callable[[Any, Buffer], int], Any]
TMP_SUFFIX: Final = ".tmp"
_RECORD_LOCK: Final = Struct("hhqqi")  # Linux's struct flock: type, whence, start, length (0: to the end), process


class File(Protocol):
    """An open file that grows at its end. `size` is what was appended in full."""

    path: str  # under which it was opened
    size: int
    torn: bool

    def append(self, data: Buffer) -> None:
        """All of `data`, or OSError with `size` unchanged."""

    def raw_writer(self) -> RawWriter:
        """A function and its first argument, to write at the end without a Python frame in between (it is 0.2 us).

        `write(handle, data)` may write less than it was given, and does not know `size`: the caller keeps it up to
        date, hands the rest of a short write to `append`, and calls `cut_back` after an OSError.
        """

    def cut_back(self) -> None:
        """Remove what a failed write left behind `size`; if that fails, too, the file is `torn` from now on."""

    def read(self, position: int, size: int) -> bytes:
        """Up to `size` bytes; fewer at the end of the file only. Bytes behind `size` are the caller's to avoid."""

    def read_cached(self, position: int, size: int) -> bytes | None:
        """All of it, or None if the disk would have to be waited for, or if the file is shorter."""

    def is_cached(self, position: int) -> bool:
        """Can this byte be read without waiting for the disk? Yes where nobody can tell."""

    def load(self, start: int, end: int) -> None:
        """Return when these bytes can be read without waiting."""

    def truncate(self, size: int) -> None: ...

    def sync(self) -> None:
        """Return when the content would survive a power cut."""

    def write_out(self, start: int, end: int) -> None:
        """Have the kernel write these bytes, so that their pages can be dropped. They may be lost in a crash as before.

        A failure is one of `sync`, which would not tell of it any more.
        """

    def drop_pages(self, end: int = 0) -> None:
        """Tell the kernel that the pages before `end`, or all, are not needed soon: those that are written out go."""

    def fileno(self) -> int:
        """For `sendfile`. Raises OSError where there is no descriptor."""

    def close(self) -> None: ...


class Lock(Protocol):
    def release(self) -> None: ...


class FileSystem(Protocol):
    """Paths are plain strings with `/`. A missing file is FileNotFoundError; other failures are OSError."""

    def open(self, path: str, *, create: bool = False, read_only: bool = False) -> File:
        """`create` makes the file if it is not there; an existing one is opened as it is."""

    def exists(self, path: str) -> bool: ...

    def size_of(self, path: str) -> int: ...

    def modified_ms(self, path: str) -> int:
        """When the content last changed, by the clock of the machine."""

    def list_dir(self, path: str) -> list[str]:
        """Names, in no order."""

    def make_dir(self, path: str) -> None:
        """With its parents; nothing happens if it is there."""

    def remove(self, path: str) -> None: ...

    def remove_tree(self, path: str) -> None: ...

    def rename(self, source: str, target: str) -> None:
        """Atomic; replaces `target` if it is a file."""

    def sync_dir(self, path: str) -> None: ...

    def read_bytes(self, path: str) -> bytes: ...

    def write_atomically(self, path: str, data: Buffer) -> None:
        """The old content or the new one, whatever happens; the new one for good when this returns."""

    def lock(self, path: str) -> Lock:
        """Exclusive, until released or until the process ends. Raises LockedError."""


class RealFile:
    """A file of the operating system."""

    __slots__ = ("_fd", "path", "size", "torn")

    def __init__(self, path: str, fd: int) -> None:
        self.path = path
        self._fd = fd
        self.size = os.lseek(fd, 0, os.SEEK_END)  # a quarter of what fstat costs; reads say their position
        self.torn = False

    def append(self, data: Buffer) -> None:
        try:
            written = os.write(self._fd, data)
            if written != len(data):
                # No error yet: a signal, or the last blocks of a disk. The next call says which.
                rest = memoryview(data)[written:]
                while rest:
                    rest = rest[os.write(self._fd, rest) :]
        except OSError:
            self.cut_back()
            raise
        self.size += len(data)

    def raw_writer(self) -> RawWriter:
        return os.write, self._fd

    def cut_back(self) -> None:
        try:
            os.ftruncate(self._fd, self.size)
        except OSError:
            self.torn = True

    def read(self, position: int, size: int) -> bytes:
        data = os.pread(self._fd, size, position)
        while len(data) < size:
            more = os.pread(self._fd, size - len(data), position + len(data))
            if not more:
                break
            data += more
        return data

    def read_cached(self, position: int, size: int) -> bytes | None:
        return cached_reads.read_cached(self._fd, position, size)

    def is_cached(self, position: int) -> bool:
        return cached_reads.is_cached(self._fd, position)

    def load(self, start: int, end: int) -> None:
        cached_reads.load(self._fd, start, end)

    def truncate(self, size: int) -> None:
        os.ftruncate(self._fd, size)
        self.size = size

    def sync(self) -> None:
        os.fdatasync(self._fd)

    def write_out(self, start: int, end: int) -> None:
        write_range(self._fd, start, end)

    def drop_pages(self, end: int = 0) -> None:
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(self._fd, 0, end, os.POSIX_FADV_DONTNEED)

    def fileno(self) -> int:
        return self._fd

    def close(self) -> None:
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            os.close(fd)

    def __del__(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)


class RealLock:
    __slots__ = ("_fd",)

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def release(self) -> None:
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            _set_lock(fd, fcntl.F_UNLCK)  # closing is not enough: a forked process has the same open file
            os.close(fd)


class RealFileSystem:
    """The operating system's."""

    __slots__ = ()
    file_type: type[RealFile] = RealFile

    def open(self, path: str, *, create: bool = False, read_only: bool = False) -> RealFile:
        flags = os.O_RDONLY if read_only else os.O_RDWR | os.O_APPEND
        return self.file_type(path, os.open(path, flags | (os.O_CREAT if create else 0) | os.O_CLOEXEC, 0o644))

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def size_of(self, path: str) -> int:
        return os.stat(path).st_size

    def modified_ms(self, path: str) -> int:
        return os.stat(path).st_mtime_ns // 1_000_000

    def list_dir(self, path: str) -> list[str]:
        return os.listdir(path)

    def make_dir(self, path: str) -> None:
        os.makedirs(path, exist_ok=True)

    def remove(self, path: str) -> None:
        os.unlink(path)

    def remove_tree(self, path: str) -> None:
        shutil.rmtree(path)

    def rename(self, source: str, target: str) -> None:
        os.replace(source, target)

    def sync_dir(self, path: str) -> None:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def read_bytes(self, path: str) -> bytes:
        file = self.open(path, read_only=True)
        return file.read(0, file.size)

    def write_atomically(self, path: str, data: Buffer) -> None:
        write_atomically(self, path, data)

    def lock(self, path: str) -> RealLock:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            _set_lock(fd, fcntl.F_WRLCK)
        except OSError as error:
            os.close(fd)
            raise LockedError(
                f"{path} is locked by another process. Stop that process, or use another data directory."
            ) from error
        return RealLock(fd)


def _set_lock(fd: int, kind: int) -> None:
    """Of the whole file. Apache Kafka respects it, and the other way round: Java has record locks, no `flock`.

    Of record locks it is the kind that belongs to the open file, not to the process: two brokers in one process exclude
    one another, too, and closing some other descriptor of the file does not give the lock away.
    """
    if hasattr(fcntl, "F_OFD_SETLK"):
        whole_file = _RECORD_LOCK.pack(kind, os.SEEK_SET, 0, 0, 0)
        fcntl.fcntl(fd, fcntl.F_OFD_SETLK, whole_file)
    else:
        fcntl.flock(fd, fcntl.LOCK_UN if kind == fcntl.F_UNLCK else fcntl.LOCK_EX | fcntl.LOCK_NB)


def write_atomically(fs: FileSystem, path: str, data: Buffer) -> None:
    """Temporary file, sync, rename, sync of the directory: each step is needed, and in this order."""
    tmp = path + TMP_SUFFIX
    write_whole(fs, tmp, data, sync=True)
    fs.rename(tmp, path)
    fs.sync_dir(os.path.dirname(path))


def write_whole(fs: FileSystem, path: str, data: Buffer, *, sync: bool) -> None:
    """The file has this content, or is not there."""
    file = fs.open(path, create=True)
    try:
        file.truncate(0)
        file.append(data)
        if sync:
            file.sync()
    except OSError:
        with contextlib.suppress(OSError):
            fs.remove(path)
        raise
    finally:
        file.close()


def sync_file(fs: FileSystem, path: str) -> None:
    """The content of a file that nobody has open. One that is gone needs no sync."""
    try:
        file = fs.open(path)
    except FileNotFoundError:
        return
    try:
        file.sync()
    finally:
        file.close()
