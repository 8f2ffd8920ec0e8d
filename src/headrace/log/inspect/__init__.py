"""Look into the files of a log without opening it: nothing is locked, recovered or changed.

Each file becomes a stream of rows (`rows.py`). What a file is, its name says, as it does for Kafka. A damaged file
gives its rows up to the fault and then raises DamagedFileError (or another CorruptFileError) with the place.
"""

import os
from collections.abc import Iterator

from headrace.log.fs import FileSystem
from headrace.log.inspect.indexes import read_aborted, read_offset_index, read_producers, read_time_index
from headrace.log.inspect.rows import Row
from headrace.log.inspect.segments import RecordDecoder, read_segment
from headrace.log.inspect.texts import TEXT_FILES, read_text_file

WORKING_SUFFIXES = (".deleted", ".cleaned", ".swap", ".tmp")  # the file before such a suffix says what it is


def is_known_file(path: str) -> bool:
    """Can `read_file` say something about a file of this name?"""
    name = _plain_name(path)
    return name in TEXT_FILES or os.path.splitext(name)[1] in (
        ".log",
        ".checkpoint",
        ".index",
        ".timeindex",
        ".txnindex",
        ".snapshot",
    )


def read_file(
    fs: FileSystem, path: str, *, decoder: RecordDecoder | None = None, with_records: bool = True
) -> Iterator[Row]:
    """The rows of one file, read as its name says. Raises CorruptFileError, and OSError if it cannot be read at all."""
    name = _plain_name(path)
    match os.path.splitext(name)[1]:
        case ".log" | ".checkpoint":
            return read_segment(fs, path, decoder=decoder, with_records=with_records)
        case ".index":
            return read_offset_index(fs, path)
        case ".timeindex":
            return read_time_index(fs, path)
        case ".txnindex":
            return read_aborted(fs, path)
        case ".snapshot":
            return read_producers(fs, path)
    assert name in TEXT_FILES, f"{path} is of no known kind; ask is_known_file first"
    return read_text_file(fs, path)


def _plain_name(path: str) -> str:
    name = os.path.basename(path)
    for suffix in WORKING_SUFFIXES:
        name = name.removesuffix(suffix)
    return name
