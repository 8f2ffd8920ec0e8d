"""Room on the disk for the day when there is none: without it not even a deletion could be written down.

A full disk refuses every change of the metadata, and deleting a topic is one. So a file keeps some room, and gives up a
piece of it for each change that makes room and found none. Its files go later, so there are several pieces: others who
write may take what a change leaves of its own. When there is room again, the file is filled up.
"""

from typing import Final

from headrace.log.fs import FileSystem

FILE_NAME: Final = ".headrace-reserve"
PIECE_BYTES: Final = 32 << 10  # the records of a thousand deletions
PIECES: Final = 8


class Reserve:
    """`fill` is a chore: it runs in the worker's thread."""

    __slots__ = ("_fs", "_is_full", "_path")

    def __init__(self, fs: FileSystem, directory: str) -> None:
        self._fs = fs
        self._path = f"{directory}/{FILE_NAME}"
        self._is_full = False

    @property
    def is_full(self) -> bool:
        return self._is_full

    def give_up_a_piece(self) -> bool:
        """On the loop: it must not wait, and cutting a small file does not. False if there is none left."""
        self._is_full = False
        try:
            file = self._fs.open(self._path)
        except OSError:
            return False
        try:
            if not file.size:
                return False
            file.truncate(max(0, file.size - PIECE_BYTES))
        except OSError:
            return False
        finally:
            file.close()
        return True

    def run(self) -> None:
        """Fill it up as far as there is room. Raises OSError."""
        file = self._fs.open(self._path, create=True)
        try:
            while file.size < PIECES * PIECE_BYTES:
                file.append(bytes(PIECE_BYTES))
        finally:
            file.close()

    def done(self) -> None:
        self._is_full = True

    def failed(self, error: OSError) -> None:
        """There is no room yet. It is tried again at the next tick."""
