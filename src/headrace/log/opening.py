"""How a log is found on disk: its files by their names, its end by its tail, the rest when somebody asks.

A log that was closed well is opened with a listing of its directory and two small reads (the last index entry and the
tail of the active segment), in some tens of microseconds, so that a broker has ten thousand within a second. Any other
is recovered first (`recovery`). Left-overs of an interrupted compaction are settled in both cases (`swap`).
"""

import contextlib
from collections.abc import Sequence
from typing import NamedTuple

from headrace.log.config import LogConfig
from headrace.log.durability import Durability
from headrace.log.epoch_file import EpochFile
from headrace.log.fs import FileSystem
from headrace.log.names import LOG, SNAPSHOT, LogFileName, file_name, parse_file_name
from headrace.log.open_files import OpenFiles
from headrace.log.producer_history import ProducerHistory
from headrace.log.producers import ProducerStates
from headrace.log.recovery import RecoveryReport, recover
from headrace.log.segments import Segments
from headrace.log.swap import settle
from headrace.log.tail import find_end_offset
from headrace.protocol.batch import MAX_INT64
from headrace.protocol.errors import CorruptBatchError


class LogParts(NamedTuple):
    """An opened log before it is a `Log`."""

    segments: Segments
    producers: ProducerHistory
    epochs: EpochFile
    durability: Durability
    log_end_offset: int
    # If recovery was needed:
    report: RecoveryReport | None = None
    states: ProducerStates | None = None  # of the producers, at the log's end
    removable: Sequence[str] = ()


def open_parts(
    fs: FileSystem,
    directory: str,
    config: LogConfig,
    *,
    clean: bool,
    now_ms: int,
    recovery_point: int,
    log_start_offset: int,
    cleaned_to: int,
    open_files: OpenFiles,
) -> LogParts:
    """Raises OSError."""
    bases, snapshots = _find_files(fs, directory)
    segments = Segments(fs, directory, open_files)
    for base_offset in bases[:-1]:
        size = fs.size_of(f"{directory}/{file_name(base_offset, LOG)}")
        segments.open(base_offset, size, config, now_ms=now_ms)
    if bases:
        segments.open_active(bases[-1], config, now_ms=now_ms)
    else:
        segments.create(log_start_offset, config, now_ms=now_ms)
    producers = ProducerHistory(fs, directory, segments, snapshots)
    epochs = EpochFile(fs, directory)
    durability = Durability(fs, directory, segments, producers, epochs)
    parts = None
    if clean:
        with contextlib.suppress(CorruptBatchError):
            parts = LogParts(segments, producers, epochs, durability, find_end_offset(segments.active))
            recovery_point = parts.log_end_offset
    if parts is None:
        recovery_point = min(recovery_point, segments.active.base_offset) if clean else recovery_point
        report, states, removable = recover(
            segments,
            producers,
            epochs,
            recovery_point=recovery_point,
            gaps_to=MAX_INT64 if config.is_compacted else cleaned_to,
        )
        parts = LogParts(segments, producers, epochs, durability, report.end_offset, report, states, removable)
    # A log that has never held anything is not synced when it is closed.
    are_names_safe = bool(bases) and parts.report is None and parts.log_end_offset > 0
    durability.opened(recovery_point=min(recovery_point, parts.log_end_offset), are_names_safe=are_names_safe)
    return parts


def _find_files(fs: FileSystem, directory: str) -> tuple[list[int], list[int]]:
    """Base offsets of segments, in order, and offsets of snapshots, after settling what was interrupted."""
    try:
        files = _list_files(fs, directory)
    except FileNotFoundError:
        fs.make_dir(directory)
        return [], []
    staged = [file for file in files if file.stage]
    if staged:
        settle(fs, directory, staged)
        files = _list_files(fs, directory)
    bases = {file.offset for file in files if file.suffix == LOG}
    snapshots = [file.offset for file in files if file.suffix == SNAPSHOT]
    for file in files:
        if file.offset not in bases and file.suffix != SNAPSHOT:
            fs.remove(f"{directory}/{file_name(*file)}")  # an index without a log
    return sorted(bases), snapshots


def _list_files(fs: FileSystem, directory: str) -> list[LogFileName]:
    return [file for file in map(parse_file_name, fs.list_dir(directory)) if file is not None]
