"""How compacted segments take the place of old ones, such that a crash at any moment loses nothing.

    1  the new segments are complete and synced as `.cleaned`
    2  `.cleaned` -> `.swap`, from the highest base offset down; of each the `.log` last
    3  the old segments -> `.deleted`
    4  `.swap` -> their final names

Between the steps the directory is synced. So whoever opens the log finds out how far it came (`settle`): while a
`.cleaned` log is there, step 2 was not finished, and the old segments are still whole; `.swap` logs alone are the truth
from step 2 on, and steps 3 and 4 are done again. Every new segment has all index files, if empty ones. So a file with a
final name belongs to the old segment as long as its `.swap` is still there, and to the new one afterwards.
"""

import contextlib
from collections.abc import Sequence
from typing import Final

from headrace.log.fs import FileSystem
from headrace.log.names import CLEANED, DELETED, LOG, SEGMENT_SUFFIXES, SWAP, LogFileName, file_name, parse_file_name
from headrace.log.scan import places
from headrace.log.segment import Segment

_STAGES: Final = (CLEANED, SWAP, DELETED)


def swap_in(fs: FileSystem, directory: str, *, old: Sequence[Segment], new: Sequence[Segment]) -> None:
    """`new`, complete and synced as `.cleaned`, for `old`, which end as `.deleted`. Raises OSError."""
    fs.sync_dir(directory)
    for segment in reversed(new):
        _rename_in_two_steps(fs, directory, segment, SWAP)
    for segment in old:
        segment.files.rename(DELETED)
    fs.sync_dir(directory)
    for segment in new:
        segment.files.rename("")
    fs.sync_dir(directory)


def _rename_in_two_steps(fs: FileSystem, directory: str, segment: Segment, stage: str) -> None:
    """The `.log` gets its name when those of the others are safe: it is the one that `settle` believes."""
    files = segment.files
    for suffix in SEGMENT_SUFFIXES:
        if suffix == LOG:
            fs.sync_dir(directory)
        fs.rename(files.path(suffix), files.path(suffix, stage))
    files.stage = stage
    fs.sync_dir(directory)


def settle(fs: FileSystem, directory: str, names: Sequence[str]) -> bool:
    """Finish or undo what a crash has interrupted, and remove what nobody needs. True if `names` have changed."""
    staged = [name for name in names if name.endswith(_STAGES)]
    files = [file for name in staged if (file := parse_file_name(name)) is not None and file.stage]
    if not files:
        return False
    cleaned_logs = [file.offset for file in files if file.stage == CLEANED and file.suffix == LOG]
    unfinished = [file for file in files if cleaned_logs and file.stage == SWAP and file.offset >= min(cleaned_logs)]
    _remove(fs, directory, unfinished)
    if unfinished:
        fs.sync_dir(directory)  # a crash must not leave them without the `.cleaned` log that tells what they are
    _remove(fs, directory, [file for file in files if file.stage != SWAP])
    for name in sorted(fs.list_dir(directory)):
        swap = parse_file_name(name)
        if swap is not None and swap.stage == SWAP and swap.suffix == LOG:
            _remove_replaced(fs, directory, swap.offset)
    fs.sync_dir(directory)
    for name in fs.list_dir(directory):
        swap = parse_file_name(name)
        if swap is not None and swap.stage == SWAP:
            fs.rename(f"{directory}/{name}", f"{directory}/{file_name(swap.offset, swap.suffix)}")
    fs.sync_dir(directory)
    return True


def _remove(fs: FileSystem, directory: str, files: Sequence[LogFileName]) -> None:
    for file in files:
        with contextlib.suppress(FileNotFoundError):
            fs.remove(f"{directory}/{file_name(*file)}")


def _remove_replaced(fs: FileSystem, directory: str, base_offset: int) -> None:
    """The old segments that begin inside the new one. The one with its own name is replaced by the rename."""
    file = fs.open(f"{directory}/{file_name(base_offset, LOG, SWAP)}", read_only=True)
    end_offset = base_offset
    for _, _, last_offset in places(file, 0, file.size):
        end_offset = last_offset + 1
    for name in fs.list_dir(directory):
        old = parse_file_name(name)
        if (
            old is not None
            and not old.stage
            and old.suffix in SEGMENT_SUFFIXES
            and base_offset < old.offset < end_offset
        ):
            fs.remove(f"{directory}/{name}")
