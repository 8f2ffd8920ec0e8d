"""What a read of the log gives: whole batches, as a piece of a file that nobody has touched yet.

The connection sends it with `sendfile`, or reads it when it is small. A slice holds a reference to its file, and the
descriptor lives as long as any reference does. So retention, compaction or a full table of open files may drop a file
while it is being sent, and the receiver still gets the bytes that were promised.
"""

from typing import Final

from headrace.log.fs import File
from headrace.protocol.batch import HEADER_SIZE, read_header


class LogSlice:
    __slots__ = ("file", "position", "ready_until", "size_bytes")

    def __init__(self, file: File, position: int, size_bytes: int) -> None:
        self.file: File | None = file
        self.position = position
        self.size_bytes = size_bytes
        self.ready_until = position  # whoever sends what is before it need not wait for the disk

    def __len__(self) -> int:
        return self.size_bytes

    def __repr__(self) -> str:
        return f"LogSlice({self.file!r}, position={self.position}, size_bytes={self.size_bytes})"

    def read(self) -> bytes:
        """All of it."""
        if self.file is None:
            return b""
        data = self.file.read(self.position, self.size_bytes)
        if len(data) != self.size_bytes:
            raise OSError(f"{len(data)} of {self.size_bytes} bytes at {self.position}: the file was cut meanwhile")
        return data

    def read_cached(self) -> bytes | None:
        """All of it, or None if the disk would have to be waited for, or if the file was cut meanwhile."""
        return b"" if self.file is None else self.file.read_cached(self.position, self.size_bytes)

    def fileno(self) -> int:
        """For `sendfile`. Raises OSError for an empty slice."""
        if self.file is None:
            raise OSError("an empty slice has no file")
        return self.file.fileno()

    def drop(self, size_bytes: int) -> int:
        """So much of its beginning was sent: how much is left."""
        self.position += size_bytes
        self.size_bytes -= size_bytes
        return self.size_bytes

    @property
    def first_offset(self) -> int | None:
        """The base offset of the first batch, which may lie before the offset that was asked for; None if empty."""
        if self.file is None:
            return None
        return read_header(self.file.read(self.position, HEADER_SIZE)).base_offset


class _EmptySlice(LogSlice):
    __slots__ = ()

    def __init__(self) -> None:
        self.file = None
        self.position = 0
        self.size_bytes = 0
        self.ready_until = 0


EMPTY: Final[LogSlice] = _EmptySlice()
