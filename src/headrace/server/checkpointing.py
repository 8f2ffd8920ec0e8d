"""Saving the offsets of all logs, so that the next start knows where they begin and what need not be read again.

The offsets are read on the loop, at once; the worker thread writes them, some time later. They may be old: a recovery
point or high watermark that is too low costs work at the next start, and no records.
"""

import logging
from typing import Final

from headrace.log.checkpoints import (
    HIGH_WATERMARKS,
    LOG_STARTS,
    RECOVERY_POINTS,
    Offsets,
    TopicPartition,
    write_offsets,
)
from headrace.log.fs import FileSystem
from headrace.log.log import Log
from headrace.server.partitions import Partitions
from headrace.server.worker import Worker

_LOG: Final = logging.getLogger(__name__)


def save_all(partitions: Partitions, fs: FileSystem, worker: Worker) -> None:
    logs = {TopicPartition(each.topic, each.index): each.log for each in partitions}
    tables = {
        RECOVERY_POINTS: {place: log.recovery_point for place, log in logs.items()},
        LOG_STARTS: {place: log.log_start_offset for place, log in logs.items() if _starts_inside(log)},
        HIGH_WATERMARKS: {place: log.high_watermark for place, log in logs.items()},
    }
    for name, offsets in tables.items():
        worker.submit(SaveOffsets(fs, f"{partitions.path}/{name}", offsets))


def _starts_inside(log: Log) -> bool:
    """Does the log start where no file says so?"""
    return log.log_start_offset > log.segments[0].base_offset


class SaveOffsets:
    """A checkpoint as a chore. One that fails is made up for by the next."""

    def __init__(self, fs: FileSystem, path: str, offsets: Offsets) -> None:
        self._fs = fs
        self._path = path
        self._offsets = offsets

    def run(self) -> None:
        write_offsets(self._fs, self._path, self._offsets)

    def done(self) -> None:
        pass

    def failed(self, error: OSError) -> None:
        _LOG.error("cannot save %s: %s", self._path, error)
