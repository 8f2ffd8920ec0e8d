"""The leader epochs of one log and their file, `leader-epoch-checkpoint`.

The file is read when somebody first asks, and written by the next flush after a change, before the recovery point
passes the change: what a crash loses of it, recovery finds in the batches. An epoch that has no records yet is no
reason to write it: whoever forgets it has lost nothing.
"""

import os

from headrace.log.epochs import FILE_NAME, EpochHistory
from headrace.log.errors import CorruptCheckpointError, reading
from headrace.log.fs import FileSystem


class EpochFile:
    __slots__ = ("_fs", "_history", "_is_last_empty", "_start_offset", "changes", "path", "saved_changes")

    def __init__(self, fs: FileSystem, directory: str) -> None:
        self._fs = fs
        self._history: EpochHistory | None = None
        self._is_last_empty = False  # the last epoch has no records yet, and may not be in the file
        self._start_offset = 0
        self.path = f"{directory}/{FILE_NAME}"
        self.changes = 0  # since it was opened; how many of them the file has
        self.saved_changes = 0

    @property
    def is_changed(self) -> bool:
        return self.changes != self.saved_changes

    @property
    def history(self) -> EpochHistory:
        """Raises StorageError."""
        self.load()
        assert self._history is not None
        return self._history

    def load(self) -> None:
        """A file that is missing or damaged is an empty history: it then grows with the log. Raises StorageError."""
        if self._history is None:
            with reading("the leader epochs", os.path.dirname(self.path)):
                self._history = self._read()
            self.truncate_from_start(self._start_offset)

    def _read(self) -> EpochHistory:
        try:
            return EpochHistory.parse(self._fs.read_bytes(self.path).decode(), path=self.path)
        except (FileNotFoundError, UnicodeDecodeError, CorruptCheckpointError):
            return EpochHistory()

    def begin(self, epoch: int, log_end_offset: int) -> None:
        """A leader of this epoch is there, and has written nothing yet."""
        if epoch >= 0 and self.history.assign(epoch, log_end_offset):
            self._is_last_empty = True

    def assign(self, epoch: int, start_offset: int) -> None:
        """The records from `start_offset` on are of this epoch."""
        if epoch >= 0 and (self.history.assign(epoch, start_offset) or self._is_last_empty):
            self._is_last_empty = False
            self.changes += 1

    def truncate_from_end(self, offset: int) -> None:
        if self.history.truncate_from_end(offset):
            self.changes += 1

    def truncate_from_start(self, offset: int) -> None:
        """What is not loaded yet is cut when it is."""
        self._start_offset = offset
        if self._history is not None and self._history.truncate_from_start(offset):
            self.changes += 1

    def clear(self) -> None:
        self._history = EpochHistory()
        self.changes += 1

    def to_bytes(self) -> bytes:
        return self.history.format().encode()
