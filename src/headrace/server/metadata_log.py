"""`__cluster_metadata-0` on this node's disk: the log, its snapshots, and what the quorum must not forget.

Files, as Kafka has them:

    00000000000000000000.log …                  the records, in batches; control records are the quorum's own
    00000000000000012345-0000000007.checkpoint  a snapshot: it replaces all records below its end offset
    quorum-state                                epoch, leader and vote; synced before anything is done in an epoch

A snapshot counts once it has its name: it is written under another one, synced and renamed. The newest that is whole is
read at start, and then the log from its end offset on.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from headrace.cluster.control_records import (
    ControlRecord,
    VoterNode,
    membership,
    read_voters,
    snapshot_footer,
    snapshot_header,
)
from headrace.cluster.image import Image
from headrace.cluster.metadata_records import MetadataRecord, decode_record, encode_record, record_version
from headrace.cluster.quorum import Append, OnDisk, SnapshotId
from headrace.cluster.quorum_state import QuorumState, format_quorum_state, parse_quorum_state
from headrace.cluster.replay import Replay
from headrace.cluster.snapshot import image_records
from headrace.log.append import Origin
from headrace.log.config import UNLIMITED, LogConfig
from headrace.log.errors import RecordListTooLargeError
from headrace.log.fs import FileSystem
from headrace.log.log import Log
from headrace.protocol.batch import BatchHeader, verify
from headrace.protocol.errors import CorruptBatchError
from headrace.protocol.records import (
    ControlType,
    NewRecord,
    build_batch,
    control_key,
    iter_batches,
    read_control_type,
    read_records,
)

DIRECTORY: Final = "__cluster_metadata-0"
TOPIC_ID: Final = (1).to_bytes(16, "big")  # fixed, so that nobody needs metadata to find the metadata
QUORUM_STATE: Final = "quorum-state"
MAX_BATCH_BYTES: Final = 8 * 1024 * 1024  # Kafka's limit for a batch of the metadata log
_READ_BYTES: Final = 4 * 1024 * 1024
_SNAPSHOT_BATCH_RECORDS: Final = 1000
_SNAPSHOT_NAME: Final = re.compile(r"(\d{20})-(\d{10})\.checkpoint")

# Nothing is deleted by age or size: the quorum says what may go, segment by segment. Those are as large as Kafka's.
LOG_CONFIG: Final = LogConfig(
    segment_bytes=1 << 30,
    segment_ms=7 * 24 * 3_600_000,
    max_message_bytes=MAX_BATCH_BYTES,
    cleanup_policy=frozenset(),
    message_timestamp_after_max_ms=UNLIMITED,
)


class Found(NamedTuple):
    """What was on the disk: for the quorum, and for the controller."""

    on_disk: OnDisk
    replay: Replay


class MetadataLog:
    """Written by the loop's thread; `log` hands out its flushes and chores like every other log."""

    def __init__(self, fs: FileSystem, directory: str, log: Log, *, kraft_version: int) -> None:
        self._fs = fs
        self._directory = directory
        self._kraft_version = kraft_version
        self.log = log

    @classmethod
    def open(
        cls,
        fs: FileSystem,
        data_directory: str,
        *,
        clean: bool,
        kraft_version: int,
        now_ms: int,
        segment_bytes: int = LOG_CONFIG.segment_bytes,
        segment_ms: int = LOG_CONFIG.segment_ms,
    ) -> "MetadataLog":
        """Raises StorageError."""
        config = replace(LOG_CONFIG, segment_bytes=segment_bytes, segment_ms=segment_ms)
        directory = f"{data_directory}/{DIRECTORY}"
        fs.make_dir(directory)
        # Recovery reads all of it: it is small, and its recovery point stands in no checkpoint, as with Kafka.
        log = Log.open(fs, directory, config, clean=clean, now_ms=now_ms, topic_id=TOPIC_ID)
        return cls(fs, directory, log, kraft_version=kraft_version)

    # Reading

    def read(self) -> Found:
        """The newest snapshot that is whole, and the log behind it. Raises CorruptBatchError, ReplayError."""
        replay = Replay()
        voters: tuple[VoterNode, ...] = ()
        snapshot = None
        snapshot_bytes = log_bytes = 0
        last_epoch = 0
        for candidate in sorted(self._snapshots(), reverse=True):
            loaded = self._load_snapshot(candidate)
            if loaded is not None:
                snapshot, (replay, voters, snapshot_bytes) = candidate, loaded
                last_epoch = candidate.epoch
                break
        start = 0 if snapshot is None else snapshot.end_offset
        if self.log.log_end_offset < start:
            self.log.truncate_fully_and_start_at(start)
        if self.log.log_start_offset > start:
            raise CorruptBatchError(
                f"{self._directory} begins at offset {self.log.log_start_offset}, and no snapshot reaches that far. "
                "Restore the missing .checkpoint file, or start with an empty data directory."
            )
        for header, data in self._batches(start):
            last_epoch = max(last_epoch, header.leader_epoch)
            voters = _read_batch(header, data, replay) or voters
            log_bytes += len(data)
        on_disk = OnDisk(
            self._read_state(), self.log.log_end_offset, last_epoch, voters, snapshot, snapshot_bytes, log_bytes
        )
        return Found(on_disk, replay)

    def _batches(self, offset: int) -> Iterator[tuple[BatchHeader, bytes]]:
        end_offset = self.log.log_end_offset
        while offset < end_offset:
            data = self.log.read(offset, max_bytes=_READ_BYTES).read()
            for position, header in iter_batches(data):
                verify(data, position)  # a log that was closed well is opened unread; nothing else would notice
                if header.base_offset >= offset:
                    yield header, data[position : position + header.size_bytes]
                offset = header.next_offset

    def _snapshots(self) -> list[SnapshotId]:
        names = map(_SNAPSHOT_NAME.fullmatch, self._fs.list_dir(self._directory))
        return [SnapshotId(int(name[1]), int(name[2])) for name in names if name]

    def _load_snapshot(self, snapshot: SnapshotId) -> tuple[Replay, tuple[VoterNode, ...], int] | None:
        """What it says, and its size. None if the file is not whole: an older one, or the log, says the same."""
        data = self._fs.read_bytes(self._snapshot_path(snapshot))
        replay = Replay()
        voters: tuple[VoterNode, ...] = ()
        last = None
        try:
            for position, header in iter_batches(data):
                verify(data, position)
                batch = data[position : position + header.size_bytes]
                voters = _read_batch(header, batch, replay) or voters
                last = _control_type(batch) if header.is_control else None
        except CorruptBatchError:
            return None
        return (replay, voters, len(data)) if last is ControlType.SNAPSHOT_FOOTER else None

    def _read_state(self) -> QuorumState:
        path = f"{self._directory}/{QUORUM_STATE}"
        if not self._fs.exists(path):
            return QuorumState()
        return parse_quorum_state(self._fs.read_bytes(path).decode())

    # Writing

    def save_state(self, state: QuorumState) -> None:
        """Synced when this returns."""
        text = format_quorum_state(state, kraft_version=self._kraft_version)
        self._fs.write_atomically(f"{self._directory}/{QUORUM_STATE}", text.encode())

    def append(self, effect: Append, *, metadata_version: int, now_ms: int) -> int:
        """Write one batch, without syncing it. Its size. Raises StorageError, RecordListTooLargeError."""
        if effect.control:
            batch = _control_batch(effect.control, effect.base_offset, effect.epoch, now_ms)
        else:
            batch = _record_batch(effect.records, effect.base_offset, effect.epoch, metadata_version, now_ms)
        if len(batch) > MAX_BATCH_BYTES:
            raise RecordListTooLargeError(
                f"this would be {len(batch)} bytes of metadata; one request may make {MAX_BATCH_BYTES}. "
                "Ask for less at once."
            )
        result = self.log.append(batch, leader_epoch=effect.epoch, now_ms=now_ms, origin=Origin.COORDINATOR)
        assert result.base_offset == effect.base_offset, f"at {result.base_offset}, expected {effect.base_offset}"
        return len(batch)

    def write_snapshot(
        self, snapshot: SnapshotId, image: Image, voters: Sequence[VoterNode], *, last_timestamp_ms: int
    ) -> int:
        """Its size. For the worker thread: the image is immutable, and the file is nobody else's."""
        head = [snapshot_header(last_timestamp_ms), *membership(self._kraft_version, voters)]
        pieces = [_control_batch(head, 0, snapshot.epoch, last_timestamp_ms)]
        offset = len(head)
        records = image_records(image)
        for start in range(0, len(records), _SNAPSHOT_BATCH_RECORDS):
            some = records[start : start + _SNAPSHOT_BATCH_RECORDS]
            pieces.append(_record_batch(some, offset, snapshot.epoch, image.metadata_version, last_timestamp_ms))
            offset += len(some)
        pieces.append(_control_batch([snapshot_footer()], offset, snapshot.epoch, last_timestamp_ms))
        data = b"".join(pieces)
        self._fs.write_atomically(self._snapshot_path(snapshot), data)
        return len(data)

    def drop_before(self, snapshot: SnapshotId) -> None:
        """Older snapshots, and the segments that only hold records below this one's end."""
        older = [self._snapshot_path(each) for each in self._snapshots() if each < snapshot]
        self.log.remove_later(older)
        self.log.advance_log_start(snapshot.end_offset)

    def _snapshot_path(self, snapshot: SnapshotId) -> str:
        return f"{self._directory}/{snapshot.end_offset:020d}-{snapshot.epoch:010d}.checkpoint"


def _read_batch(header: BatchHeader, batch: bytes, replay: Replay) -> tuple[VoterNode, ...]:
    """Replay the records of a batch; the voters that it names, if it does."""
    rows = list(read_records(batch))
    if not header.is_control:
        replay.apply([decode_record(row.value or b"") for row in rows], base_offset=header.base_offset)
        return ()
    voters: tuple[VoterNode, ...] = ()
    for row in rows:
        if read_control_type(row.key) is ControlType.KRAFT_VOTERS:
            voters = read_voters(row.value or b"")
    return voters


def _control_type(batch: bytes) -> ControlType:
    """Of the last record in a control batch."""
    return read_control_type(list(read_records(batch))[-1].key)


def _control_batch(records: Sequence[ControlRecord], base_offset: int, epoch: int, now_ms: int) -> bytearray:
    rows = [NewRecord(now_ms, control_key(record.type), record.value) for record in records]
    return build_batch(rows, base_offset=base_offset, leader_epoch=epoch, control=True)


def _record_batch(
    records: Sequence[MetadataRecord], base_offset: int, epoch: int, metadata_version: int, now_ms: int
) -> bytearray:
    rows = [
        NewRecord(now_ms, None, encode_record(record, record_version(record, metadata_version))) for record in records
    ]
    return build_batch(rows, base_offset=base_offset, leader_epoch=epoch)
