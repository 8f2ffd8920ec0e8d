"""Which brokers are alive: what the active controller knows from their heartbeats.

This is the one thing that the controller knows and does not write down. A controller that becomes active gives
everybody who is not fenced a fresh session: it cannot know who died before, and finds out within one time-out. Only
of the broker in its own process it knows better: that one is new, and must not wait for the session of its
predecessor.
"""

from typing import NamedTuple

from headrace.cluster.image import Image

NEVER_HEARD = -1


class _Session(NamedTuple):
    epoch: int
    last_contact_ms: int
    metadata_offset: int = NEVER_HEARD  # the last record of the metadata log that the broker has read
    # The last record of the metadata log when its leaderships were given away: it may go when the others have read it.
    shutdown_offset: int | None = None


class Sessions:
    """The sessions of all brokers; time is an argument."""

    def __init__(self, image: Image, *, own_node_id: int, timeout_ms: int, now_ms: int) -> None:
        self.timeout_ms = timeout_ms
        self._sessions = {
            broker.broker_id: _Session(broker.epoch, now_ms)
            for broker in image.brokers.values()
            if not broker.fenced and broker.broker_id != own_node_id
        }

    def heard(self, broker_id: int, epoch: int, *, metadata_offset: int, now_ms: int) -> None:
        """A heartbeat of this registration came in."""
        known = self._sessions.get(broker_id)
        shutdown_offset = known.shutdown_offset if known is not None and known.epoch == epoch else None
        self._sessions[broker_id] = _Session(epoch, now_ms, metadata_offset, shutdown_offset)

    def forget(self, broker_id: int) -> None:
        """The broker was fenced, unregistered, or registered anew."""
        self._sessions.pop(broker_id, None)

    def begin_shutdown(self, broker_id: int, *, last_offset: int) -> None:
        """The last of the records that gave away its leaderships is at this offset."""
        session = self._sessions[broker_id]
        if session.shutdown_offset is None:
            self._sessions[broker_id] = session._replace(shutdown_offset=last_offset)

    def is_valid(self, broker_id: int, epoch: int, *, now_ms: int) -> bool:
        """Whether the broker with this registration was heard of within the time-out."""
        session = self._sessions.get(broker_id)
        return session is not None and session.epoch == epoch and not self._is_over(session, now_ms)

    def find_expired(self, image: Image, *, now_ms: int) -> int | None:
        """A broker that is not fenced yet, and was not heard of for too long."""
        for broker_id, session in self._sessions.items():
            broker = image.brokers.get(broker_id)
            if broker is not None and not broker.fenced and self._is_over(session, now_ms):
                return broker_id
        return None

    def shutdown_offset(self, broker_id: int) -> int | None:
        """The last record of the log when the broker's shutdown began, or None if it does not shut down."""
        session = self._sessions.get(broker_id)
        return None if session is None else session.shutdown_offset

    def lowest_offset(self, image: Image) -> int | None:
        """How far everybody who is active has read the metadata log; None if nobody is."""
        offsets = [
            session.metadata_offset
            for broker_id, session in self._sessions.items()
            if image.is_active(broker_id) and session.shutdown_offset is None
        ]
        return min(offsets, default=None)

    def _is_over(self, session: _Session, now_ms: int) -> bool:
        return now_ms - session.last_contact_ms > self.timeout_ms
