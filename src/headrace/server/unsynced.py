"""A file system for data that is gone at the end anyway: nothing waits for the disk.

What is written can be read, also after the broker was killed; only a power cut would tell the difference, and after
that nobody looks for the data of a temporary directory.
"""

import os

from headrace.log.fs import Buffer, RealFile, RealFileSystem


class UnsyncedFile(RealFile):
    __slots__ = ()

    def sync(self) -> None:
        pass

    def write_out(self, start: int, end: int) -> None:
        pass


class UnsyncedFileSystem(RealFileSystem):
    __slots__ = ()
    file_type = UnsyncedFile

    def sync_dir(self, path: str) -> None:
        pass

    def write_atomically(self, path: str, data: Buffer) -> None:
        # In place: where a rename replaces a file, ext4 writes the new one out at once, which is a sync in disguise.
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644), "wb") as file:
            file.write(data)
            file.truncate()
