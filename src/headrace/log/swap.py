"""How compacted segments take the place of old ones, such that a crash at any moment loses nothing.

    1  the new segments are complete and synced as `.cleaned`
    2  their index files: `.cleaned` -> `.swap`
    3  their logs: `.cleaned` -> `.swap`
    4  the old segments -> `.deleted`, and the log reads the new ones
    5  the new segments: `.swap` -> their final names

Between the steps the directory is synced. So whoever opens the log finds out how far it came (`settle`). While a
`.cleaned` log is there, step 3 was not finished: the new segments below it are taken, and the old ones from there on,
since what is older may always be compacted before what is younger. When there are `.swap` logs only, they are the
truth, and the rest is done again. Every new segment has all index files, if empty ones. So an index with a final name
belongs to the old segment as long as its `.swap` is there, and to the new one afterwards.

The steps are renames, and take the loop microseconds; the syncs take milliseconds, and are the worker's.
"""

import contextlib
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from headrace.log.errors import StorageError
from headrace.log.fs import File, FileSystem
from headrace.log.names import CLEANED, DELETED, LOG, SEGMENT_SUFFIXES, SWAP, LogFileName, file_name, parse_file_name
from headrace.log.scan import places
from headrace.log.segment import Segment
from headrace.protocol.errors import CorruptBatchError

if TYPE_CHECKING:
    from headrace.log.log import Log

_INDEX_SUFFIXES: Final = tuple(suffix for suffix in SEGMENT_SUFFIXES if suffix != LOG)


class Replacement(NamedTuple):
    """A compacted segment, complete and synced as `.cleaned`, for a run of sealed ones."""

    old: Sequence[Segment]
    new: Segment


class Swap:
    """Steps 2 to 5 for one log. Until step 4 the log may change its mind, by `abandon`. Replacements are in order.

    Invariant: `log.swap` is this one from its making until it is over. That it is given up is a step like the others,
    with its sync: while there is no file descriptor for that, it is not over, and never goes on.
    """

    __slots__ = ("_is_given_up", "_is_in_place", "_log", "_replacements", "_steps")

    def __init__(self, log: "Log", replacements: Sequence[Replacement]) -> None:
        assert log.swap is None, "one swap at a time"
        self._log = log
        self._replacements = replacements
        self._is_in_place = False  # the log reads the new segments
        self._is_given_up = False  # and never will
        self._steps: list[Callable[[], None]] = [
            lambda: self._rename(_INDEX_SUFFIXES, CLEANED, SWAP),
            lambda: self._rename((LOG,), CLEANED, SWAP),
            self._replace,
            lambda: self._rename(SEGMENT_SUFFIXES, SWAP, ""),
        ]
        log.swap = self

    @property
    def is_done(self) -> bool:
        return self._is_in_place and not self._steps

    def run(self) -> None:
        """All steps and syncs, for those who can wait. Raises StorageError."""
        while self.step():
            try:
                self.sync()
            except OSError as error:
                raise self.failed(error) from error

    def step(self) -> bool:
        """The next step. True if a sync has to follow, and then another step. Raises StorageError."""
        log = self._log
        try:
            if log.swap is not self:
                return False
            log.refuse_if_failed()
            if not self._is_in_place and not self._is_given_up and not self._fits():
                self._give_up()
            if not self._steps:
                log.swap = None
                return False
            self._steps.pop(0)()
        except OSError as error:
            raise self.failed(error) from error
        return True

    def sync(self) -> None:
        """In any thread. Raises OSError."""
        self._log.fs.sync_dir(self._log.directory)

    def failed(self, error: OSError) -> StorageError:
        return self._log.fail(f"compacted segments could not take their place ({error})")

    def abandon(self) -> None:
        """The log goes on without the new segments, for good when this returns, unless they are in place already.

        Their files stay until the next round of compaction or the next opening. Raises OSError; if that was for lack of
        a file descriptor, it may be called again.
        """
        if self._is_in_place or self._log.swap is not self:
            return
        self._give_up()
        self._rename_back()
        self.sync()
        self._log.swap = None

    def _give_up(self) -> None:
        self._is_given_up = True
        self._steps = [self._rename_back]

    def _rename_back(self) -> None:
        """As if step 3 had stopped before its first rename."""
        oldest = self._replacements[0].new.files
        if oldest.stage == SWAP:
            self._log.fs.rename(oldest.path(LOG), oldest.path(LOG, CLEANED))
            oldest.stage = CLEANED

    def _fits(self) -> bool:
        """Has the log still all segments that are to be replaced, and are they sealed?"""
        sealed = set(map(id, self._log.segments.sealed))
        return all(id(segment) in sealed for replacement in self._replacements for segment in replacement.old)

    def _rename(self, suffixes: Iterable[str], stage: str, next_stage: str) -> None:
        for _, new in self._replacements:
            if new.files.stage != stage:
                continue  # retention has been faster
            for suffix in suffixes:
                self._log.fs.rename(new.files.path(suffix, stage), new.files.path(suffix, next_stage))
            if LOG in suffixes:
                new.files.stage = next_stage

    def _replace(self) -> None:
        log = self._log
        for old, _ in self._replacements:
            for segment in old:
                segment.files.rename(DELETED)
        for old, new in self._replacements:
            log.remove_later(log.segments.replace(old, new))
            new.is_durable = True
        self._is_in_place = True


def settle(fs: FileSystem, directory: str, files: Sequence[LogFileName]) -> None:
    """Finish or undo what a crash has interrupted, and remove what nobody needs. `files` are all with a stage."""
    cleaned_logs = [file.offset for file in files if file.stage == CLEANED and file.suffix == LOG]
    unfinished = [file for file in files if cleaned_logs and file.stage == SWAP and file.offset >= min(cleaned_logs)]
    _remove(fs, directory, unfinished)
    if unfinished:
        fs.sync_dir(directory)  # a crash must not leave them without the `.cleaned` log that tells what they are
    _remove(fs, directory, [file for file in files if file.stage != SWAP])
    swapped = [file for file in files if file.stage == SWAP and file not in unfinished]
    for file in swapped:
        if file.suffix == LOG:
            _remove_replaced(fs, directory, file.offset)
    fs.sync_dir(directory)
    for file in swapped:
        fs.rename(f"{directory}/{file_name(*file)}", f"{directory}/{file_name(file.offset, file.suffix)}")
    fs.sync_dir(directory)


def _remove(fs: FileSystem, directory: str, files: Sequence[LogFileName]) -> None:
    for file in files:
        with contextlib.suppress(FileNotFoundError):
            fs.remove(f"{directory}/{file_name(*file)}")


def _remove_replaced(fs: FileSystem, directory: str, base_offset: int) -> None:
    """The old segments that begin inside the new one. The one with its own name is replaced by the rename."""
    end_offset = _find_end(fs.open(f"{directory}/{file_name(base_offset, LOG, SWAP)}", read_only=True), base_offset)
    for name in fs.list_dir(directory):
        old = parse_file_name(name)
        if (
            old is not None
            and not old.stage
            and old.suffix in SEGMENT_SUFFIXES
            and base_offset < old.offset < end_offset
        ):
            fs.remove(f"{directory}/{name}")


def _find_end(file: File, base_offset: int) -> int:
    """The offset after its last whole batch.

    It was complete and synced. But a truncation may have made it the active one before it had its final name, and a
    crash have torn what was appended to it since: recovery cuts that off.
    """
    end_offset = base_offset
    with contextlib.suppress(CorruptBatchError):
        for *_, last_offset in places(file, 0, file.size):
            end_offset = last_offset + 1
    return end_offset
