"""Look into the files of a log without opening it: nothing is locked, recovered or changed.

Each file becomes a stream of rows (`rows.py`). What a file is, its name says, as it does for Kafka. A damaged file
gives its rows up to the fault and then raises DamagedFileError (or another CorruptFileError) with the place.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from headrace.log.fs import TMP_SUFFIX, FileSystem
from headrace.log.inspect.indexes import read_aborted, read_offset_index, read_producers, read_time_index
from headrace.log.inspect.rows import Row
from headrace.log.inspect.segments import RecordDecoder, read_segment
from headrace.log.inspect.texts import TEXT_FILES, read_text_file
from headrace.log.names import (
    ABORTED_INDEX,
    CLEANED,
    DELETED,
    LOG,
    OFFSET_INDEX,
    SNAPSHOT,
    SWAP,
    TIME_INDEX,
)

CHECKPOINT: Final = ".checkpoint"  # a snapshot of the metadata log, or what a new one begins with

_BATCH_FILES: Final = frozenset((LOG, CHECKPOINT))
_ENTRY_FILES: Final[Mapping[str, Callable[[FileSystem, str], Iterator[Row]]]] = {
    OFFSET_INDEX: read_offset_index,
    TIME_INDEX: read_time_index,
    ABORTED_INDEX: read_aborted,
    SNAPSHOT: read_producers,
}
_STAGES: Final = (DELETED, CLEANED, SWAP, TMP_SUFFIX)  # before such a suffix stands what the file is


def is_known_file(path: str) -> bool:
    """Can `read_file` say something about a file of this name?"""
    name = _plain_name(path)
    suffix = os.path.splitext(name)[1]
    return name in TEXT_FILES or suffix in _BATCH_FILES or suffix in _ENTRY_FILES


def read_file(
    fs: FileSystem, path: str, *, decoder: RecordDecoder | None = None, with_records: bool = True
) -> Iterator[Row]:
    """The rows of one file, read as its name says. Raises CorruptFileError, and OSError if it cannot be read at all."""
    name = _plain_name(path)
    suffix = os.path.splitext(name)[1]
    if suffix in _BATCH_FILES:
        return read_segment(fs, path, decoder=decoder, with_records=with_records)
    if suffix in _ENTRY_FILES:
        return _ENTRY_FILES[suffix](fs, path)
    assert name in TEXT_FILES, f"{path} is of no known kind; ask is_known_file first"
    return read_text_file(fs, path, name=name)


def _plain_name(path: str) -> str:
    name = os.path.basename(path)
    for suffix in _STAGES:
        name = name.removesuffix(suffix)
    return name
