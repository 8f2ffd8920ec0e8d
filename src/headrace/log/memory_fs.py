"""A file system in memory that can fail in every way that a disk can: the other side of the port `fs`.

It remembers for each file and each directory what was synced and what has changed since. `crash` makes the file system
that a machine would find after a power cut: of the changes of a file any prefix survives, the last one torn at any
byte, with holes of zeros where pages were written out of order; of the changes of a directory any subset, as long as
the changes of one name stay in order. Nothing that was synced is lost. This is stricter than ext4 or XFS, on purpose.

Faults are given in advance and strike in order, and randomness is the caller's `Random`, so every run can be repeated.
"""

import errno
import os
from dataclasses import dataclass, field
from random import Random
from typing import Final

from headrace.log.errors import LockedError
from headrace.log.fs import Buffer, RawWriter, write_atomically

_Append = bytes
_Truncate = int
_HOLE_CHANCE: Final = 0.25
_SECTOR_BYTES: Final = 32  # a disk writes 512 bytes or none; smaller ones make more of small test files


class PowerCut(Exception):  # noqa: N818  (it is no error of the code under test, and no handler of OSError may catch it)
    """The machine is off: raised by the operation at which the power was cut, and by every one after it."""


@dataclass(slots=True)
class Fault:
    """`operation` on a path that ends in `path_end` fails with `error`, `times` times after `skip` successes."""

    operation: str  # a method of File or FileSystem: append, read, truncate, sync, open, remove, rename, sync_dir
    error: int = errno.EIO
    path_end: str = ""
    skip: int = 0
    times: int = 1
    written_bytes: int = 0  # of a failing append: what reached the file before the failure


@dataclass(slots=True, eq=False)
class _Content:
    """A file's bytes: those in the page cache (`data`), and those on disk (`durable`, and what `changes` may add)."""

    data: bytearray = field(default_factory=bytearray)
    durable: bytes = b""
    changes: list[_Append | _Truncate] = field(default_factory=list)
    modified_ms: int = 0

    def sync(self) -> None:
        self.durable = bytes(self.data)
        self.changes.clear()

    def after_crash(self, random: Random) -> "_Content":
        data, intact = bytearray(self.durable), len(self.durable)
        kept = random.randint(0, len(self.changes))
        for change in self.changes[:kept]:
            intact = min(intact, _apply(data, change))
        if kept < len(self.changes):
            torn = self.changes[kept]
            if isinstance(torn, bytes):
                data += torn[: random.randint(0, len(torn))]
        if len(data) > intact and random.random() < _HOLE_CHANCE:
            first = intact // _SECTOR_BYTES
            last = len(data) // _SECTOR_BYTES
            start = max(intact, random.randint(first, last) * _SECTOR_BYTES)
            end = min(len(data), random.randint(start // _SECTOR_BYTES, last) * _SECTOR_BYTES + _SECTOR_BYTES)
            data[start:end] = bytes(end - start)
        return _Content(data, bytes(data), [], self.modified_ms)


def _apply(data: bytearray, change: _Append | _Truncate) -> int:
    """Apply a change, and return how many bytes it left alone."""
    if isinstance(change, bytes):
        intact = len(data)
        data += change
    else:
        intact = min(len(data), change)
        del data[change:]
    return intact


_Change = tuple[tuple[str, "_Content | _Directory | None"], ...]  # names and what they now mean; a rename has two


@dataclass(slots=True, eq=False)
class _Directory:
    entries: "dict[str, _Content | _Directory]" = field(default_factory=dict)
    durable: "dict[str, _Content | _Directory]" = field(default_factory=dict)
    changes: list[_Change] = field(default_factory=list)

    def change(self, *effects: "tuple[str, _Content | _Directory | None]") -> None:
        _bind(self.entries, effects)
        self.changes.append(effects)

    def sync(self) -> None:
        self.durable = dict(self.entries)
        self.changes.clear()

    def after_crash(self, random: Random) -> "_Directory":
        entries = dict(self.durable)
        lost_names: set[str] = set()
        for effects in self.changes:
            names = {name for name, _ in effects}
            if names & lost_names or random.random() < 0.5:
                lost_names |= names
            else:
                _bind(entries, effects)
        survivors = {name: node.after_crash(random) for name, node in entries.items()}
        return _Directory(survivors, dict(survivors))


def _bind(entries: "dict[str, _Content | _Directory]", effects: _Change) -> None:
    for name, node in effects:
        if node is None:
            entries.pop(name, None)
        else:
            entries[name] = node


class MemoryFile:
    __slots__ = ("_closed", "_content", "_fs", "path", "size", "torn")

    def __init__(self, fs: "MemoryFileSystem", path: str, content: _Content) -> None:
        self._fs = fs
        self._content = content
        self._closed = False
        self.path = path
        self.size = len(content.data)
        self.torn = False

    def append(self, data: Buffer) -> None:
        try:
            rest = data[self.write_some(data) :]
            while rest:
                rest = rest[self.write_some(rest) :]
        except OSError:
            self.cut_back()
            raise
        self.size += len(data)

    def raw_writer(self) -> RawWriter:
        return MemoryFile.write_some, self

    def write_some(self, data: Buffer) -> int:
        """As a system call does: all, or the part that fits, or an OSError if there is no room at all."""
        self._check_open()
        written, error = self._fs.admit_append(self.path, len(data))
        if written:
            self._content.data += data[:written]
            self._content.changes.append(bytes(data[:written]))
            self._content.modified_ms = self._fs.now_ms
        self._fs.count_step()
        if error:
            raise OSError(error, os.strerror(error), self.path)
        return written

    def cut_back(self) -> None:
        try:
            self.truncate(self.size)
        except OSError:
            self.torn = True

    def read(self, position: int, size: int) -> bytes:
        self._check_open()
        self._fs.strike("read", self.path)
        return bytes(self._content.data[position : position + size])

    def read_cached(self, position: int, size: int) -> bytes | None:
        data = self.read(position, size)
        return data if len(data) == size else None

    def is_cached(self, position: int) -> bool:  # noqa: ARG002 - memory is all there is
        return True

    def load(self, start: int, end: int) -> None:
        pass

    def truncate(self, size: int) -> None:
        self._check_open()
        self._fs.strike("truncate", self.path)
        del self._content.data[size:]
        self._content.changes.append(size)
        self._content.modified_ms = self._fs.now_ms
        self.size = size
        self._fs.count_step()

    def sync(self) -> None:
        self._check_open()
        self._fs.strike("sync", self.path)
        self._fs.count_step()
        self._content.sync()

    def write_out(self, start: int, end: int) -> None:  # noqa: ARG002 - nothing is promised by it
        self._check_open()
        self._fs.strike("sync", self.path)

    def drop_pages(self, end: int = 0) -> None:  # noqa: ARG002 - memory is all there is
        self._check_open()

    def fileno(self) -> int:
        raise OSError(errno.EBADF, "a file in memory has no descriptor", self.path)

    def close(self) -> None:
        self._closed = True

    def _check_open(self) -> None:
        if self._closed:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF), self.path)


class MemoryLock:
    __slots__ = ("_locks", "_path")

    def __init__(self, locks: set[str], path: str) -> None:
        self._locks = locks
        self._path = path

    def release(self) -> None:
        self._locks.discard(self._path)


class MemoryFileSystem:
    """Its knobs: `faults`, `capacity_bytes`, `power_steps` (operations until the power is cut), `now_ms`, `crash`."""

    def __init__(self) -> None:
        self._root = _Directory()
        self._locks: set[str] = set()
        self.faults: list[Fault] = []
        self.capacity_bytes: int | None = None
        self.power_steps: int | None = None
        self.steps = 0  # operations so far that changed or synced something
        self.now_ms = 0

    def crash(self, random: Random) -> "MemoryFileSystem":
        """What a machine finds after one possible power cut now. This file system stays as it is, for others."""
        survivor = MemoryFileSystem()
        survivor._root = self._root.after_crash(random)
        survivor.now_ms = self.now_ms
        return survivor

    def used_bytes(self) -> int:
        return _used_bytes(self._root)

    # The port

    def open(self, path: str, *, create: bool = False, read_only: bool = False) -> MemoryFile:
        del read_only
        self.strike("open", path)
        parent, name = self._parent(path)
        node = parent.entries.get(name)
        if node is None and create:
            node = _Content(modified_ms=self.now_ms)
            parent.change((name, node))
            self.count_step()
        return MemoryFile(self, path, _content(node, path))

    def exists(self, path: str) -> bool:
        try:
            self._find(path)
        except FileNotFoundError:
            return False
        return True

    def size_of(self, path: str) -> int:
        return len(_content(self._find(path), path).data)

    def modified_ms(self, path: str) -> int:
        return _content(self._find(path), path).modified_ms

    def list_dir(self, path: str) -> list[str]:
        return list(self._directory(path).entries)

    def make_dir(self, path: str) -> None:
        parent = self._root
        for name in _parts(path):
            node = parent.entries.get(name)
            if node is None:
                node = _Directory()
                parent.change((name, node))
                self.count_step()
            if not isinstance(node, _Directory):
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
            parent = node

    def remove(self, path: str) -> None:
        self.strike("remove", path)
        parent, name = self._parent(path)
        _content(parent.entries.get(name), path)
        parent.change((name, None))
        self.count_step()

    def remove_tree(self, path: str) -> None:
        self.strike("remove", path)
        self._directory(path)
        parent, name = self._parent(path)
        parent.change((name, None))
        self.count_step()

    def rename(self, source: str, target: str) -> None:
        self.strike("rename", source)
        parent, old = self._parent(source)
        target_parent, new = self._parent(target)
        assert parent is target_parent, f"{source} -> {target}: only a rename within one directory is atomic"
        node = self._find(source)
        parent.change((old, None), (new, node))
        self.count_step()

    def sync_dir(self, path: str) -> None:
        self.strike("sync_dir", path)
        self.count_step()
        self._directory(path).sync()

    def read_bytes(self, path: str) -> bytes:
        self.strike("read", path)
        return bytes(_content(self._find(path), path).data)

    def write_atomically(self, path: str, data: Buffer) -> None:
        write_atomically(self, path, data)

    def lock(self, path: str) -> MemoryLock:
        if path in self._locks:
            raise LockedError(f"{path} is locked. Stop who works there, or use another data directory.")
        self._locks.add(path)
        return MemoryLock(self._locks, path)

    # For the files

    def strike(self, operation: str, path: str) -> None:
        """Raise the first fault that waits for this operation here."""
        if self.power_steps is not None and self.power_steps < 0:
            raise PowerCut(path)
        fault = self._take_fault(operation, path)
        if fault is not None:
            raise OSError(fault.error, os.strerror(fault.error), path)

    def admit_append(self, path: str, size: int) -> tuple[int, int]:
        """How many of `size` bytes one write gets onto the disk, and its error (0 for none)."""
        if self.power_steps is not None and self.power_steps < 0:
            raise PowerCut(path)
        fault = self._take_fault("append", path)
        if fault is not None:
            return min(fault.written_bytes, size), fault.error
        if self.capacity_bytes is not None:
            free = max(0, self.capacity_bytes - self.used_bytes())
            if free < size:
                return free, 0 if free else errno.ENOSPC
        return size, 0

    def count_step(self) -> None:
        """An operation has had its effect. At the last step before the power cut it does not return."""
        self.steps += 1
        if self.power_steps is not None:
            self.power_steps -= 1
            if self.power_steps < 0:
                raise PowerCut

    def _take_fault(self, operation: str, path: str) -> Fault | None:
        for fault in self.faults:
            if fault.operation == operation and path.endswith(fault.path_end) and fault.times > 0:
                if fault.skip > 0:
                    fault.skip -= 1
                    continue
                fault.times -= 1
                return fault
        return None

    def _find(self, path: str) -> _Content | _Directory:
        node: _Content | _Directory = self._root
        for name in _parts(path):
            if not isinstance(node, _Directory) or name not in node.entries:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
            node = node.entries[name]
        return node

    def _directory(self, path: str) -> _Directory:
        node = self._find(path)
        if not isinstance(node, _Directory):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
        return node

    def _parent(self, path: str) -> tuple[_Directory, str]:
        head, _, name = path.rstrip("/").rpartition("/")
        return self._directory(head), name


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part]


def _content(node: _Content | _Directory | None, path: str) -> _Content:
    if node is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
    if isinstance(node, _Directory):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    return node


def _used_bytes(node: _Content | _Directory) -> int:
    if isinstance(node, _Content):
        return len(node.data)
    return sum(map(_used_bytes, node.entries.values()))
