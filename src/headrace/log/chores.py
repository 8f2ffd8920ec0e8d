"""Slow work as data: what the log wants done by a thread that may wait for the disk.

A chore holds files and paths that nobody changes any more, or that may be synced while they grow. `run` is for the
worker thread and touches nothing else. Afterwards, on the thread that owns the log, `done` tells the log, or `failed`
does, with the OSError of `run`. Chores of one log run one after the other, in the order in which they were handed out.
"""

import contextlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Protocol, TypeAlias

from headrace.log.fs import TMP_SUFFIX, File, FileSystem, sync_file, write_whole
from headrace.log.segment import Segment

Step: TypeAlias = Callable[[], None]  # raises OSError


class NotSavedError(OSError):
    """A new file could not be written, most likely for lack of room. Nothing that was there before is in doubt."""


@contextlib.contextmanager
def _saving(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise NotSavedError(error.errno, error.strerror, path) from error


class Chore(Protocol):
    def run(self) -> None:
        """Raises OSError."""

    def done(self) -> None: ...

    def failed(self, error: OSError) -> None: ...


class Flushable(Protocol):
    """The log, as a flush sees it. It may be deleted while the flush is on its way, and another have its name."""

    is_deleted: bool

    def give_name(self, source: str, target: str) -> None:
        """In any thread. Raises OSError."""

    def flushed(self, plan: "FlushPlan") -> None: ...

    def flush_failed(self, error: OSError) -> None: ...


@dataclass(frozen=True, slots=True, eq=False)
class FlushPlan:
    """Sync all that is below `end_offset`: batches, and what a reader of them needs that no recovery would rebuild."""

    log: Flushable
    fs: FileSystem
    end_offset: int
    sealed: tuple[Segment, ...]  # all of whose files are in the plan
    files: tuple[File, ...]  # logs
    idle_files: tuple[File, ...]  # logs that are read seldom: their pages may go
    paths: tuple[str, ...]  # of indexes and snapshots
    epochs: tuple[str, bytes] | None  # the checkpoint of leader epochs: its path and new content
    directories: tuple[str, ...]  # that have got new names
    # What the log counted when the plan was made, to know afterwards what it covers:
    truncations: int
    name_changes: int
    epoch_changes: int

    def run(self) -> None:
        for step in self.contents():
            step()
        self.give_names()
        for directory in self.all_directories:
            self.fs.sync_dir(directory)
        self.give_pages_back()

    # The same, for who runs many plans at once (`flush_round`)

    def contents(self) -> Iterator[Step]:
        """In any order, or all at once."""
        for file in self.files:
            yield file.sync
        for path in self.paths:
            yield partial(sync_file, self.fs, path)
        if self.epochs is not None and not self.log.is_deleted:
            yield partial(self._write, *self.epochs)

    def _write(self, path: str, content: bytes) -> None:
        with _saving(path):
            write_whole(self.fs, path + TMP_SUFFIX, content, sync=True)

    def give_names(self) -> None:
        if self.epochs is not None:
            path, _ = self.epochs
            with _saving(path):
                self.log.give_name(path + TMP_SUFFIX, path)

    @property
    def all_directories(self) -> tuple[str, ...]:
        """To be synced when the names are given."""
        renamed = () if self.epochs is None else (os.path.dirname(self.epochs[0]),)
        return tuple(dict.fromkeys((*renamed, *self.directories)))

    def syncing(self, directory: str) -> Step:
        return partial(self.fs.sync_dir, directory)

    def give_pages_back(self) -> None:
        for file in self.idle_files:
            file.drop_pages()

    def done(self) -> None:
        self.log.flushed(self)

    def failed(self, error: OSError) -> None:
        self.log.flush_failed(error)


@dataclass(frozen=True, slots=True, eq=False)
class WriteOut:
    """Bring a part of a file that grows to the disk, and give back its pages up to there."""

    log: Flushable
    file: File
    start: int
    end: int

    def run(self) -> None:
        self.file.write_out(self.start, self.end)
        self.file.drop_pages(self.end)

    def done(self) -> None:
        """Nothing depends on it: what was written on the way is safe when a flush says so."""

    def failed(self, error: OSError) -> None:
        self.log.flush_failed(error)


@dataclass(frozen=True, slots=True, eq=False)
class RemoveFiles:
    """Files that are no part of any log. Removing one of 1 GB takes tens of milliseconds."""

    fs: FileSystem
    paths: tuple[str, ...]

    def run(self) -> None:
        for path in self.paths:
            with contextlib.suppress(FileNotFoundError):
                self.fs.remove(path)

    def done(self) -> None:
        pass

    def failed(self, error: OSError) -> None:
        """The next opening of the log tries again."""
