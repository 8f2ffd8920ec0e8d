"""The metadata quorum as a pure state machine: events in, effects out, in the order in which they must happen.

The quorum decides who writes the metadata log and which of its records are committed. It follows KRaft: in each
epoch at most one node leads; the leader's first record says so; a record is committed once a majority of the voters
has it on disk and the leader has committed a record of its own epoch. A node saves its epoch, its vote and its
leader before it acts on them, since a node that forgets them could vote twice.

This part runs a quorum of one voter, so an election is won by starting it and a majority is the voter's own disk:

    start ─► [save epoch + 1] ─► [append LeaderChange (+ voters)] ─► leading
    propose records ─► [append] ─► ... on disk ─► [commit]
    propose records ─► [append] ─► refused by the disk ─► as if they had never been proposed
    enough committed since the last snapshot ─► [take snapshot] ─► taken ─► [drop what the one before it replaced]
                                                                └► failed ─► later

What a start has to read is the newest snapshot and the log behind it. So a snapshot is also taken, at leisure, when
that log has become as large as the snapshot itself: a start never reads more than twice what there is to know, and all
snapshots together take no more writing than the log.

The shell carries out effects in order, one after the other. `Append` means to write and sync; when a sync is done it
tells how far by `Flushed`. It may sync many appends at once.
"""

from typing import Final, NamedTuple, TypeAlias

from headrace.cluster.control_records import ControlRecord, VoterEndpoint, VoterNode, leader_change, membership
from headrace.cluster.metadata_records import MetadataRecord
from headrace.cluster.quorum_state import QuorumState

NOT_KNOWN: Final = -1
SNAPSHOT_RETRY_MS: Final = 60_000  # after one that failed, most likely for lack of room


class SnapshotId(NamedTuple):
    """A snapshot replaces all records below `end_offset`, the last of which is of `epoch`."""

    end_offset: int
    epoch: int


# ---- events


class Start(NamedTuple):
    """The node is up, and has read what is on its disk."""


class Propose(NamedTuple):
    """The controller wants these records in the log, as one batch."""

    records: tuple[MetadataRecord, ...]


class Refused(NamedTuple):
    """The disk did not take the batch that was to be appended last: it is as if its records had not been proposed."""

    records: int


class Written(NamedTuple):
    """An appended batch turned out to have this size."""

    size_bytes: int


class Flushed(NamedTuple):
    """Everything below this offset is on disk."""

    log_end_offset: int


class Tick(NamedTuple):
    """Some time has passed."""


class SnapshotTaken(NamedTuple):
    """A snapshot that was asked for is on disk, under its name."""

    snapshot: SnapshotId
    size_bytes: int = 0


class SnapshotFailed(NamedTuple):
    """A snapshot that was asked for could not be written. The log says the same, so there is time."""

    snapshot: SnapshotId


Event: TypeAlias = Start | Propose | Refused | Written | Flushed | Tick | SnapshotTaken | SnapshotFailed

# ---- effects


class SaveState(NamedTuple):
    """Write quorum-state, and sync it before the next effect."""

    state: QuorumState


class Append(NamedTuple):
    """Append one batch to the log: either control records or records of the controller."""

    base_offset: int
    epoch: int
    control: tuple[ControlRecord, ...] = ()
    records: tuple[MetadataRecord, ...] = ()


class Lead(NamedTuple):
    """This node leads the epoch: its controller may decide, and its first record will be at `next_offset`."""

    epoch: int
    next_offset: int


class Commit(NamedTuple):
    """All records below the high watermark are committed, and will be the same on every node forever."""

    high_watermark: int


class TakeSnapshot(NamedTuple):
    """Write a snapshot of the committed image; SnapshotTaken shall follow."""

    snapshot: SnapshotId


class DropBefore(NamedTuple):
    """Older snapshots, and the records of the log below this offset, are not needed any more."""

    snapshot: SnapshotId


Effect: TypeAlias = SaveState | Append | Lead | Commit | TakeSnapshot | DropBefore


class SnapshotPolicy(NamedTuple):
    """When to take a snapshot: by what has been committed since the last one, or by its age."""

    max_bytes: int = 20_971_520  # metadata.log.max.record.bytes.between.snapshots
    max_interval_ms: int = 3_600_000  # metadata.log.max.snapshot.interval.ms; 0: never by age
    worth_bytes: int = 524_288  # of log: what a start reads in a tenth of a second is not worth a snapshot at leisure


class OnDisk(NamedTuple):
    """What the node found on its disk when it started."""

    state: QuorumState
    log_end_offset: int
    last_epoch: int  # of the last record in the log or of the newest snapshot; 0 if there is neither
    voters: tuple[VoterNode, ...] = ()  # the newest voters in log or snapshot
    newest_snapshot: SnapshotId | None = None
    snapshot_bytes: int = 0
    bytes_since_snapshot: int = 0


class Quorum:
    """One member of the quorum."""

    def __init__(
        self, me: VoterNode, on_disk: OnDisk, *, kraft_version: int, policy: SnapshotPolicy, now_ms: int
    ) -> None:
        others = [voter.voter_id for voter in on_disk.voters if voter.voter_id != me.voter_id]
        if others:
            raise ValueError(
                f"the metadata log names the voters {[*others, me.voter_id]}: a quorum of more than one is not served"
            )
        self.me = me
        self.kraft_version = kraft_version
        self.state = on_disk.state  # as saved: never older than what others may know of this node
        self.log_end_offset = on_disk.log_end_offset
        self.high_watermark = NOT_KNOWN  # only grows
        self.newest_snapshot = on_disk.newest_snapshot
        self._on_disk = on_disk
        self._policy = policy
        self._leading = False
        self._snapshot_bytes = on_disk.snapshot_bytes
        self._bytes_since_snapshot = on_disk.bytes_since_snapshot
        self._snapshot_due_ms = now_ms + policy.max_interval_ms
        self._pending_snapshot: SnapshotId | None = None
        self._pending_bytes = 0  # what it stands for
        self._no_snapshot_before_ms = 0

    @property
    def epoch(self) -> int:
        return self.state.leader_epoch

    @property
    def leader_id(self) -> int:
        """Who leads, as far as this node knows, or NOBODY."""
        return self.state.leader_id

    def reached_at(self, *endpoints: VoterEndpoint) -> None:
        """Where others find this node, which it may know only when its listeners are bound; before it starts."""
        assert not self._leading, f"node {self.me.voter_id} leads, and others know where it is"
        self.me = self.me._replace(endpoints=endpoints)

    def step(self, event: Event, *, now_ms: int) -> list[Effect]:
        """Take an event, and say what must be done."""
        if isinstance(event, Start):
            return self._lead()
        if isinstance(event, Propose):
            return self._append(event.records)
        if isinstance(event, Refused):
            self.log_end_offset -= event.records
            return []
        if isinstance(event, Written):
            self._bytes_since_snapshot += event.size_bytes
            return []
        if isinstance(event, Flushed):
            return [*self._commit(event.log_end_offset), *self._maybe_snapshot(now_ms)]
        if isinstance(event, SnapshotTaken):
            return self._snapshot_taken(event, now_ms)
        if isinstance(event, SnapshotFailed):
            return self._snapshot_failed(event.snapshot, now_ms)
        return self._maybe_snapshot(now_ms, at_leisure=True)

    def _lead(self) -> list[Effect]:
        """The vote of the only voter is the majority: a new epoch begins, with this node as its leader."""
        assert not self._leading, f"node {self.me.voter_id} leads epoch {self.epoch} already"
        # A node that led before a restart starts anew: of its old epoch it may have forgotten records it never synced.
        epoch = max(self.state.leader_epoch, self._on_disk.last_epoch) + 1
        self.state = QuorumState(leader_epoch=epoch, leader_id=self.me.voter_id)
        self._leading = True
        control = [leader_change(self.me.voter_id, [self.me.voter_id], [self.me.voter_id])]
        if self._on_disk.voters != (self.me,):
            control += membership(self.kraft_version, [self.me])
        append = Append(self.log_end_offset, epoch, control=tuple(control))
        self.log_end_offset += len(control)
        return [SaveState(self.state), append, Lead(epoch, self.log_end_offset)]

    def _append(self, records: tuple[MetadataRecord, ...]) -> list[Effect]:
        assert self._leading, (
            f"node {self.me.voter_id} does not lead epoch {self.epoch}, and was given {len(records)} records"
        )
        append = Append(self.log_end_offset, self.epoch, records=records)
        self.log_end_offset += len(records)
        return [append]

    def _commit(self, flushed_offset: int) -> list[Effect]:
        assert flushed_offset <= self.log_end_offset, (
            f"{flushed_offset} on disk of a log that ends at {self.log_end_offset}"
        )
        if flushed_offset <= self.high_watermark:
            return []
        self.high_watermark = flushed_offset
        return [Commit(flushed_offset)]

    def _maybe_snapshot(self, now_ms: int, *, at_leisure: bool = False) -> list[Effect]:
        if (
            self._pending_snapshot is not None
            or self.high_watermark == NOT_KNOWN
            or now_ms < self._no_snapshot_before_ms
        ):
            return []
        covered = 0 if self.newest_snapshot is None else self.newest_snapshot.end_offset
        by_age = self._policy.max_interval_ms > 0 and now_ms >= self._snapshot_due_ms
        enough_bytes = self._policy.max_bytes
        if at_leisure:  # not while a start or a stop is under way, which would wait for it
            enough_bytes = min(enough_bytes, max(self._policy.worth_bytes, self._snapshot_bytes))
        if self.high_watermark <= covered or not (by_age or self._bytes_since_snapshot >= enough_bytes):
            return []
        self._pending_snapshot = SnapshotId(self.high_watermark, self.epoch)
        self._pending_bytes, self._bytes_since_snapshot = self._bytes_since_snapshot, 0
        return [TakeSnapshot(self._pending_snapshot)]

    def _snapshot_taken(self, event: SnapshotTaken, now_ms: int) -> list[Effect]:
        snapshot, self._snapshot_bytes = event
        assert snapshot == self._pending_snapshot, f"{snapshot} was taken, and {self._pending_snapshot} was asked for"
        self._pending_snapshot = None
        self._snapshot_due_ms = now_ms + self._policy.max_interval_ms
        older, self.newest_snapshot = self.newest_snapshot, snapshot
        # One older snapshot and the log from there on stay: should the newest turn out unreadable, nothing is lost.
        return [] if older is None else [DropBefore(older)]

    def _snapshot_failed(self, snapshot: SnapshotId, now_ms: int) -> list[Effect]:
        assert snapshot == self._pending_snapshot, f"{snapshot} failed, and {self._pending_snapshot} was asked for"
        self._pending_snapshot = None
        self._bytes_since_snapshot += self._pending_bytes
        self._no_snapshot_before_ms = now_ms + SNAPSHOT_RETRY_MS
        return []
