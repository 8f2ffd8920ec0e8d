"""The active controller: the newest image, who is alive, and what is decided but not yet committed.

A decision is made on the newest image, which holds everything decided so far, committed or not; otherwise two
requests that come close together could both create the same topic. Its records are appended in the order of the
decisions, so they are committed in that order or not at all. A reply may rest on records that are not committed, its
own or earlier ones, and therefore waits until all of them are. Clients and brokers see the committed image only.

When the controller loses its office, what is not committed may never be: the newest image goes back to the committed
one, and the records that then arrive from the new leader are replayed on it. Images share what they have in common,
so holding both is free.
"""

from collections import deque
from typing import Generic, NamedTuple, TypeVar

from headrace.cluster.brokers import fence_expired_broker, register_broker
from headrace.cluster.config_changes import elr_safety_records
from headrace.cluster.decision import ControllerSettings, Decision
from headrace.cluster.features import ELR_VERSION, KRAFT_VERSION, METADATA_VERSION
from headrace.cluster.heartbeats import BrokerState, decide_heartbeat
from headrace.cluster.image import EMPTY_IMAGE, Image
from headrace.cluster.metadata_records import MetadataRecord
from headrace.cluster.replay import Replay
from headrace.cluster.sessions import Sessions
from headrace.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from headrace.protocol.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
from headrace.protocol.messages.metadata_records import AbortTransactionRecord, FeatureLevelRecord

Reply = TypeVar("Reply")


class Outcome(NamedTuple, Generic[Reply]):
    """A decision that was adopted: what to append and where, and what to answer when."""

    base_offset: int
    records: tuple[MetadataRecord, ...]
    reply: Reply
    reply_offset: int  # the reply may go out when the record at this offset is committed
    notice: str | None


class Controller:
    """One term of an active controller; the next term starts with a new one."""

    def __init__(
        self,
        settings: ControllerSettings,
        replay: Replay,
        *,
        next_offset: int,
        session_timeout_ms: int,
        now_ms: int,
    ) -> None:
        self.settings = settings
        self.committed_image = replay.image
        self.next_offset = next_offset
        self.sessions = Sessions(
            replay.image, own_node_id=settings.node_id, timeout_ms=session_timeout_ms, now_ms=now_ms
        )
        self._replay = replay
        self._uncommitted: deque[tuple[int, Image]] = deque()  # the last offset of a batch, and the image after it

    @property
    def image(self) -> Image:
        """The newest image: the one to decide on."""
        return self._replay.image

    def adopt(self, decision: Decision[Reply]) -> Outcome[Reply]:
        """Make a decision on the newest image count. Its records must be appended now, before any other decision."""
        base_offset = self.next_offset
        if decision.records:
            self._replay.apply(decision.records, base_offset=base_offset)
            self.next_offset += len(decision.records)
            self._uncommitted.append((self.next_offset - 1, self.image))
        return Outcome(base_offset, decision.records, decision.reply, self.next_offset - 1, decision.notice)

    def withdraw(self, outcome: Outcome[Reply]) -> None:
        """The records of the decision that was adopted last could not be written: it does not count."""
        end_offset = outcome.base_offset + len(outcome.records)
        assert end_offset == self.next_offset, f"up to {end_offset}, and the last decision ends at {self.next_offset}"
        self._uncommitted.pop()
        self.next_offset = outcome.base_offset
        # No decision begins a transaction of metadata: the image is all that it changed.
        self._replay.image = self._uncommitted[-1][1] if self._uncommitted else self.committed_image

    def skip(self, next_offset: int) -> None:
        """The quorum wrote control records: the next decision is appended behind them."""
        assert next_offset >= self.next_offset, f"the log went back from {self.next_offset} to {next_offset}"
        self.next_offset = next_offset

    def commit(self, high_watermark: int) -> None:
        """All records below the high watermark are committed."""
        while self._uncommitted and self._uncommitted[0][0] < high_watermark:
            _, self.committed_image = self._uncommitted.popleft()

    def resign(self) -> Replay:
        """Give up the office: what is not committed is forgotten, and the log is followed from there on."""
        self._uncommitted.clear()
        self._replay = Replay(self.committed_image)
        return self._replay

    def register_broker(
        self, request: BrokerRegistrationRequest, *, version: int, kraft_version: int, now_ms: int
    ) -> Outcome[BrokerRegistrationResponse]:
        """Answer BrokerRegistration."""
        decision = register_broker(
            self.image,
            self.settings,
            self.sessions,
            request,
            version=version,
            next_offset=self.next_offset,
            kraft_version=kraft_version,
            now_ms=now_ms,
        )
        known = self.image.brokers.get(request.broker_id)
        outcome = self.adopt(decision)
        if known is None or known.epoch != self.image.brokers[request.broker_id].epoch:
            self.sessions.forget(request.broker_id)  # of its predecessor, which may have been shutting down
        return outcome

    def heartbeat(self, request: BrokerHeartbeatRequest, *, now_ms: int) -> Outcome[BrokerHeartbeatResponse]:
        """Answer BrokerHeartbeat, and remember that the broker lives."""
        decision = decide_heartbeat(self.image, self.settings, self.sessions, request)
        response, state = decision.reply
        outcome = self.adopt(Decision(decision.records, response, decision.notice))
        if state is BrokerState.SHUTDOWN_NOW:
            self.sessions.forget(request.broker_id)
        elif state is not None:
            epoch, offset = request.broker_epoch, request.current_metadata_offset
            self.sessions.heard(request.broker_id, epoch, metadata_offset=offset, now_ms=now_ms)
            if state is BrokerState.CONTROLLED_SHUTDOWN:
                self.sessions.begin_shutdown(request.broker_id, last_offset=self.next_offset - 1)
        return outcome

    def fence_expired_broker(self, *, now_ms: int) -> Outcome[int | None]:
        """Fence one broker whose session is over; the reply says which, or None. To be called until it is None."""
        outcome = self.adopt(fence_expired_broker(self.image, self.settings, self.sessions, now_ms=now_ms))
        if outcome.reply is not None:
            self.sessions.forget(outcome.reply)
        return outcome


def activation_records(replay: Replay, settings: ControllerSettings, levels: dict[str, int]) -> Decision[None]:
    """What a controller writes first: the features of a new cluster, the end of a transaction that was left open."""
    records: list[MetadataRecord] = []
    if replay.in_transaction:
        records.append(AbortTransactionRecord("the controller that began it is gone"))
    if METADATA_VERSION not in replay.image.features:
        names = sorted(levels, key=lambda name: (name != METADATA_VERSION, name))
        records += [FeatureLevelRecord(name, levels[name]) for name in names if name != KRAFT_VERSION and levels[name]]
        if levels.get(ELR_VERSION, 0):
            records += elr_safety_records(EMPTY_IMAGE, settings)
    return Decision(tuple(records), None)
