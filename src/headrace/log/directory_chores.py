"""Slow work of a data directory, as data: checkpoints to write, directories to remove. See `chores`."""

import contextlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from threading import Lock
from typing import Final

from headrace.log.checkpoints import Offsets, format_offsets
from headrace.log.flush_round import RunAll, attempt
from headrace.log.fs import TMP_SUFFIX, FileSystem, write_whole

_NOW_SUFFIX: Final = ".now"  # the two threads that write must not share a temporary file


class CheckpointFiles:
    """Checkpoints that two threads write: the worker, well, and the loop where it cannot wait for the worker.

    An older content never takes the place of a newer one, whoever is faster, and what has not changed is not written
    again: an idle broker leaves the disk alone.
    """

    __slots__ = ("_fs", "_lock", "_named", "_saved", "last_number")

    def __init__(self, fs: FileSystem) -> None:
        self._fs = fs
        self.last_number = 0  # of a plan
        self._lock = Lock()  # for the two that follow, and the renames; held for some microseconds
        self._named: dict[str, int] = {}  # by path: the number of the plan whose content stands there
        self._saved: dict[str, bytes] = {}  # what is known to be safe on disk

    def plan(self, tables: Mapping[str, Offsets]) -> "WriteCheckpoints":
        """The content as of now, by path."""
        self.last_number += 1
        return WriteCheckpoints(self, tables, self.last_number)

    def is_newer(self, path: str, number: int) -> bool:
        """Is what the next process would find there from a later plan than this?"""
        with self._lock:
            return self._named.get(path, 0) > number

    def save(self, tables: Mapping[str, Offsets], number: int, run_all: RunAll = map) -> None:
        """Safe when this returns. Raises OSError."""
        contents = {path: format_offsets(offsets).encode() for path, offsets in tables.items()}
        contents = {path: content for path, content in contents.items() if self._saved.get(path) != content}
        steps = [
            partial(write_whole, self._fs, path + TMP_SUFFIX, content, sync=True) for path, content in contents.items()
        ]
        for error in run_all(attempt, steps):
            if error is not None:
                raise error
        for path in contents:
            self._put(path + TMP_SUFFIX, path, number)
        for directory in {os.path.dirname(path) for path in contents}:
            self._fs.sync_dir(directory)
        with self._lock:
            self._saved.update((path, content) for path, content in contents.items() if self._named[path] == number)

    def replace(self, tables: Mapping[str, Offsets], number: int) -> None:
        """For the next process, but not yet for one that starts after a power cut. Raises OSError.

        Whoever then syncs the directory makes sure that the old content is gone. The new one may be cut short by a
        power cut, and is then no checkpoint at all, which costs time and nothing else.
        """
        for path, offsets in tables.items():
            write_whole(self._fs, path + _NOW_SUFFIX, format_offsets(offsets).encode(), sync=False)
            self._put(path + _NOW_SUFFIX, path, number)

    def _put(self, temporary: str, path: str, number: int) -> None:
        with self._lock:
            if number >= self._named.get(path, 0):
                self._fs.rename(temporary, path)
                self._named[path] = number
                self._saved.pop(path, None)
                return
        self._fs.remove(temporary)


@dataclass(frozen=True, slots=True, eq=False)
class WriteCheckpoints:
    files: CheckpointFiles
    tables: Mapping[str, Offsets]  # by path
    number: int

    def run(self, run_all: RunAll = map) -> None:
        self.files.save(self.tables, self.number, run_all)

    def run_without_sync(self) -> None:
        self.files.replace(self.tables, self.number)

    def done(self) -> None:
        pass

    def failed(self, error: OSError) -> None:
        """The old ones are still there, and the next ones replace them."""


@dataclass(frozen=True, slots=True, eq=False)
class RemoveDirectory:
    """Of a deleted log. A segment of 1 GB takes tens of milliseconds."""

    fs: FileSystem
    path: str

    def run(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            self.fs.remove_tree(self.path)

    def done(self) -> None:
        pass

    def failed(self, error: OSError) -> None:
        """The next opening of the data directory tries again."""
