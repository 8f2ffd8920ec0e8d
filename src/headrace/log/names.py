"""The names of a log's files, as Kafka gives them: the base offset in 20 digits, and what it is.

    00000000000000000042.log   .index   .timeindex   .txnindex     one segment, from offset 42 on
    00000000000000000042.snapshot                                  the producers as they were before offset 42

A second suffix says that a file is no part of the log, yet or any more: `.cleaned` while compaction writes it, `.swap`
from when it is complete until it has taken its place, `.deleted` until somebody removes it.
"""

from typing import Final, NamedTuple

LOG: Final = ".log"
OFFSET_INDEX: Final = ".index"
TIME_INDEX: Final = ".timeindex"
ABORTED_INDEX: Final = ".txnindex"
SNAPSHOT: Final = ".snapshot"
SEGMENT_SUFFIXES: Final = (OFFSET_INDEX, TIME_INDEX, ABORTED_INDEX, LOG)  # the log last: it decides what a segment is

CLEANED: Final = ".cleaned"
SWAP: Final = ".swap"
DELETED: Final = ".deleted"

_DIGITS: Final = 20
_SUFFIXES: Final = frozenset((*SEGMENT_SUFFIXES, SNAPSHOT))
_STAGES: Final = frozenset(("", CLEANED, SWAP, DELETED))


class LogFileName(NamedTuple):
    offset: int
    suffix: str
    stage: str  # "", CLEANED, SWAP or DELETED


def file_name(offset: int, suffix: str, stage: str = "") -> str:
    return f"{offset:020d}{suffix}{stage}"


def parse_file_name(name: str) -> LogFileName | None:
    """None for files that have nothing to do with segments."""
    digits, rest = name[:_DIGITS], name[_DIGITS:]
    if len(digits) != _DIGITS or not digits.isdecimal():
        return None
    if rest not in _SUFFIXES:
        suffix, dot, stage = rest[1:].partition(".")
        rest, stage = f".{suffix}", dot + stage
        if rest not in _SUFFIXES or stage not in _STAGES:
            return None
    else:
        stage = ""
    return LogFileName(int(digits), rest, stage)
