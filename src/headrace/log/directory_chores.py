"""Slow work of a data directory, as data: checkpoints to write, directories to remove. See `chores`."""

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass

from headrace.log.checkpoints import Offsets, write_offsets
from headrace.log.fs import FileSystem


@dataclass(frozen=True, slots=True, eq=False)
class WriteCheckpoints:
    fs: FileSystem
    tables: Mapping[str, Offsets]  # by path

    def run(self) -> None:
        for path, offsets in self.tables.items():
            write_offsets(self.fs, path, offsets)

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
