"""The files of one segment: its log, its indexes, their names, and the stage that they are in."""

import contextlib

from headrace.log.fs import File, FileSystem, sync_file
from headrace.log.names import LOG, SEGMENT_SUFFIXES, file_name

_INDEX_SUFFIXES = SEGMENT_SUFFIXES[:-1]


class SegmentFiles:
    __slots__ = ("_directory", "_fs", "base_offset", "stage")

    def __init__(self, fs: FileSystem, directory: str, base_offset: int, stage: str) -> None:
        self._fs = fs
        self._directory = directory
        self.base_offset = base_offset
        self.stage = stage  # "" when it is a part of the log; see `names`

    def path(self, suffix: str, stage: str | None = None) -> str:
        return f"{self._directory}/{file_name(self.base_offset, suffix, self.stage if stage is None else stage)}"

    def open_log(self) -> File:
        return self._fs.open(self.path(LOG))

    def create_log(self) -> File:
        """An empty one. What a crash may have left under the names of this segment goes."""
        for suffix in _INDEX_SUFFIXES:
            self.remove(suffix)
        file = self._fs.open(self.path(LOG), create=True)
        if file.size:
            file.truncate(0)
        return file

    def read(self, suffix: str) -> bytes:
        return self._fs.read_bytes(self.path(suffix))

    def read_end(self, suffix: str, size: int) -> tuple[bytes, int]:
        """The last `size` bytes, and how many there are in all."""
        file = self._fs.open(self.path(suffix), read_only=True)
        try:
            return file.read(max(0, file.size - size), size), file.size
        finally:
            file.close()

    def write(self, suffix: str, data: bytes) -> None:
        """Anew, as a whole. Not synced."""
        file = self._fs.open(self.path(suffix), create=True)
        try:
            file.truncate(0)
            file.append(data)
        finally:
            file.close()

    def remove(self, suffix: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            self._fs.remove(self.path(suffix))

    def sync_indexes(self) -> None:
        for suffix in _INDEX_SUFFIXES:
            sync_file(self._fs, self.path(suffix))

    def rename(self, stage: str) -> None:
        """Give all files another second suffix, the log last. Index files that are missing are not missed."""
        for suffix in _INDEX_SUFFIXES:
            with contextlib.suppress(FileNotFoundError):
                self._fs.rename(self.path(suffix), self.path(suffix, stage))
        self._fs.rename(self.path(LOG), self.path(LOG, stage))
        self.stage = stage
