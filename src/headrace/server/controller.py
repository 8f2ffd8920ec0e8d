"""The metadata road of this node: decide, append, sync, commit, tell everybody, reply.

The pure parts are elsewhere: `cluster.controller` holds the images and what is not yet committed, `cluster.quorum` says
what must be done in which order, the decisions are plain functions. This is the shell that carries the effects out: it
appends to the metadata log at once, lets the worker thread sync it (many appends by one sync), and when a sync is done
publishes the committed image and sends the replies that waited for it.

A disk without room does no harm. A batch that it does not take is cut off again, the decision behind it is withdrawn,
and whoever asked gets the error: nothing has happened, and it may be tried again. What makes room, as deletions do, is
written where a reserve was kept for it (`reserve`). A snapshot that cannot be written is tried again later, and so is
a sync for which there was no file descriptor: it has not begun. But if a sync fails, or a part cannot be cut off, then
the node cannot know any more what the cluster is: `on_failure` is called, and the broker stops.
"""

import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

from headrace.cluster.controller import Controller as Office
from headrace.cluster.controller import Outcome, activation_records
from headrace.cluster.decision import ControllerSettings, Decision
from headrace.cluster.features import METADATA_VERSION
from headrace.cluster.image import Image
from headrace.cluster.quorum import (
    Append,
    Commit,
    DropBefore,
    Effect,
    Flushed,
    Lead,
    Propose,
    Quorum,
    Refused,
    SaveState,
    SnapshotFailed,
    SnapshotId,
    SnapshotTaken,
    Start,
    TakeSnapshot,
    Tick,
    Written,
)
from headrace.cluster.replay import Replay
from headrace.log.chores import Chore, FlushPlan
from headrace.log.errors import RecordListTooLargeError, StorageError, is_passing, is_without_descriptor
from headrace.server.clock import Clock
from headrace.server.later import Later
from headrace.server.metadata_log import MetadataLog
from headrace.server.reserve import Reserve
from headrace.server.worker import Worker
from headrace.server.write_trouble import WriteTrouble

_LOG: Final = logging.getLogger(__name__)
FLUSH_AGAIN_MS: Final = 1_000  # after there was no file descriptor for a sync

R = TypeVar("R")


class Controller:
    """The road for a node that is the only voter of its quorum."""

    def __init__(
        self,
        log: MetadataLog,
        quorum: Quorum,
        replay: Replay,
        *,
        settings: ControllerSettings,
        levels: dict[str, int],
        session_timeout_ms: int,
        clock: Clock,
        worker: Worker,
        on_failure: Callable[[Exception], None],
        trouble: WriteTrouble | None = None,
        reserve: Reserve | None = None,
    ) -> None:
        self._log = log
        self._reserve = reserve
        self._trouble = trouble or WriteTrouble()
        self._quorum = quorum
        self._clock = clock
        self._worker = worker
        self._on_failure = on_failure
        self._levels = levels  # of the features that a new cluster gets
        self._is_flushing = False  # or waits for a file descriptor
        self._is_flush_late = False
        self._listeners: list[Callable[[Image, Image], None]] = []
        self._replies: deque[tuple[int, Callable[[], None]]] = deque()  # what waits for an offset to be committed
        self.settings = settings
        self._office = Office(
            settings,
            replay,
            next_offset=quorum.log_end_offset,
            session_timeout_ms=session_timeout_ms,
            now_ms=clock.now_ms(),
        )
        self._replay = replay
        # What every reader sees: the newest committed image. It is replaced, never changed.
        self.image: Image = self._office.committed_image

    @property
    def committed_offset(self) -> int:
        """Of the last committed record; -1 if there is none."""
        return max(self._quorum.high_watermark, 0) - 1

    @property
    def office(self) -> Office:
        """The pure controller, for decisions that depend on sessions."""
        return self._office

    @property
    def quorum(self) -> Quorum:
        return self._quorum

    def start(self) -> Later[None]:
        """Lead the quorum. Resolved when the cluster has its features and everything so far is committed."""
        self._carry_out(self._quorum.step(Start(), now_ms=self._clock.now_ms()))
        return self.submit(lambda _: activation_records(self._replay, self.settings, self._levels))

    def subscribe(self, listener: Callable[[Image, Image], None]) -> None:
        """Call `listener(old, new)` at every commit that changed the image, before replies go out."""
        self._listeners.append(listener)

    def submit(self, decide: Callable[[Image], Decision[R]], *, makes_room: bool = False) -> Later[R]:
        """Decide on the newest image; the reply when all that it rests on is committed. Raises what `append` does."""
        return self.append(self._office.adopt(decide(self._office.image)), makes_room=makes_room)

    def append(self, outcome: Outcome[R], *, makes_room: bool = False) -> Later[R]:
        """What `office` has adopted; to be called at once, since offsets are given in order.

        Raises StorageError if the disk has no room for it, and RecordListTooLargeError if it is more than one batch may
        have: then it is as if it had not been decided. What `makes_room` may use the reserve.
        """
        if outcome.records:
            self._propose(outcome, makes_room)
        later: Later[R] = Later()
        if outcome.reply_offset <= self.committed_offset:
            later.resolve(outcome.reply)
        else:
            self._replies.append((outcome.reply_offset, lambda: later.resolve(outcome.reply)))
        return later

    def _propose(self, outcome: Outcome[R], makes_room: bool) -> None:
        now_ms = self._clock.now_ms()
        try:
            self._carry_out(self._quorum.step(Propose(outcome.records), now_ms=now_ms))
        except RecordListTooLargeError:
            self._quorum.step(Refused(len(outcome.records)), now_ms=now_ms)
            self._office.withdraw(outcome)
            raise
        except StorageError as error:
            self._quorum.step(Refused(len(outcome.records)), now_ms=now_ms)
            self._trouble.refused(self._log.log, error)
            if makes_room and is_passing(error) and self._reserve is not None and self._reserve.give_up_a_piece():
                self._propose(outcome, makes_room)
                return
            self._office.withdraw(outcome)
            raise
        if self._trouble.is_on:
            self._trouble.ended(self._log.log)

    def tick(self) -> None:
        """Some time has passed: a snapshot may be due, and there may be room for the reserve."""
        if self._reserve is not None and not self._reserve.is_full:
            self._submit(self._reserve)
        self._carry_out(self._quorum.step(Tick(), now_ms=self._clock.now_ms()))

    # Effects

    def _carry_out(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            self._perform(effect)

    def _perform(self, effect: Effect) -> None:
        if isinstance(effect, Append):
            self._append(effect)
        elif isinstance(effect, Commit):
            self._commit(effect.high_watermark)
        elif isinstance(effect, SaveState):
            self._log.save_state(effect.state)
        elif isinstance(effect, Lead):
            self._office.skip(effect.next_offset)
        elif isinstance(effect, TakeSnapshot):
            self._submit(_SnapshotChore(self, effect.snapshot, self.image, self._clock.now_ms()))
        else:
            assert isinstance(effect, DropBefore), effect
            self._drop_before(effect.snapshot)

    def _drop_before(self, snapshot: SnapshotId) -> None:
        try:
            self._log.drop_before(snapshot)
            for chore in self._log.log.take_chores():
                self._submit(chore)
        except OSError as error:
            if not is_without_descriptor(error):
                raise
            _LOG.warning("old metadata is not removed: %s. The next snapshot tries again.", error)

    def _submit(self, chore: Chore) -> None:
        # What ends while the worker closes may want more. Closing the log syncs it, and the next start does the rest.
        if not self._worker.is_closing:
            self._worker.submit(chore)

    def _append(self, effect: Append) -> None:
        now_ms = self._clock.now_ms()
        # The first records of a cluster say which version it is; they are written in that version themselves.
        metadata_version = self._office.image.features.get(METADATA_VERSION, self._levels[METADATA_VERSION])
        try:
            size_bytes = self._log.append(effect, metadata_version=metadata_version, now_ms=now_ms)
        except StorageError:
            if self._log.log.failure is not None:
                self._on_failure(self._log.log.failure)
            raise
        self._carry_out(self._quorum.step(Written(size_bytes), now_ms=now_ms))
        self._flush()

    def _flush(self) -> None:
        """Sync what was appended; while a sync runs, the next ones gather."""
        if self._is_flushing:
            return
        try:
            plan = self._log.log.plan_flush()
        except OSError as error:
            if not is_without_descriptor(error):
                raise
            self._flush_later(error)
            return
        if plan is not None:
            self._is_flushing = True
            self._submit(_FlushChore(self, plan))

    def _flushed(self, plan: FlushPlan) -> None:
        self._is_flushing = self._is_flush_late = False
        plan.done()
        self._carry_out(self._quorum.step(Flushed(plan.end_offset), now_ms=self._clock.now_ms()))
        self._flush()

    def _flush_failed(self, plan: FlushPlan, error: OSError) -> None:
        plan.failed(error)
        if is_without_descriptor(error):
            self._flush_later(error)
        else:
            self._on_failure(error)

    def _flush_later(self, error: OSError) -> None:
        """A file could not be opened: nothing is saved, and nothing is in doubt. Whoever waits, waits longer."""
        if not self._is_flush_late:
            _LOG.error("changes of metadata wait for a file descriptor: %s. It is tried again and again.", error)
        self._is_flushing = self._is_flush_late = True
        self._clock.call_later(FLUSH_AGAIN_MS, self._flush_again)

    def _flush_again(self) -> None:
        if not self._worker.is_closing:
            self._is_flushing = False
            self._flush()

    def _commit(self, high_watermark: int) -> None:
        self._log.log.raise_high_watermark(high_watermark)
        self._office.commit(high_watermark)
        old, self.image = self.image, self._office.committed_image
        if old is not self.image:
            for listener in self._listeners:
                listener(old, self.image)
        while self._replies and self._replies[0][0] < high_watermark:
            self._replies.popleft()[1]()

    def _write_snapshot(self, snapshot: SnapshotId, image: Image, now_ms: int) -> int:
        """In the worker thread. Its size."""
        return self._log.write_snapshot(snapshot, image, [self._quorum.me], last_timestamp_ms=now_ms)

    def _snapshot_failed(self, snapshot: SnapshotId, error: OSError) -> None:
        _LOG.error(
            "a snapshot of the metadata cannot be written: %s. The log has it all; it is tried again later.", error
        )
        self._carry_out(self._quorum.step(SnapshotFailed(snapshot), now_ms=self._clock.now_ms()))

    def _snapshot_taken(self, snapshot: SnapshotId, size_bytes: int) -> None:
        self._carry_out(self._quorum.step(SnapshotTaken(snapshot, size_bytes), now_ms=self._clock.now_ms()))


class _FlushChore:
    __slots__ = ("_controller", "_plan")

    def __init__(self, controller: Any, plan: FlushPlan) -> None:
        self._controller = controller
        self._plan = plan

    def run(self) -> None:
        self._plan.run()

    def done(self) -> None:
        self._controller._flushed(self._plan)

    def failed(self, error: OSError) -> None:
        self._controller._flush_failed(self._plan, error)


class _SnapshotChore:
    __slots__ = ("_controller", "_image", "_now_ms", "_size_bytes", "_snapshot")

    def __init__(self, controller: Any, snapshot: SnapshotId, image: Image, now_ms: int) -> None:
        self._controller = controller
        self._snapshot = snapshot
        self._image = image
        self._now_ms = now_ms
        self._size_bytes = 0

    def run(self) -> None:
        self._size_bytes = self._controller._write_snapshot(self._snapshot, self._image, self._now_ms)

    def done(self) -> None:
        self._controller._snapshot_taken(self._snapshot, self._size_bytes)

    def failed(self, error: OSError) -> None:
        self._controller._snapshot_failed(self._snapshot, error)
