"""Fetch sessions (KIP-227): the broker remembers what a consumer reads, and both say only what changes.

A session begins with a full fetch (epoch 0). Later requests name the session with the next epoch, and carry only the
partitions that are new, have another offset, or are forgotten; the responses carry only partitions with records, an
error, or another high watermark or log start. An epoch that is not the next one means that a response was lost: the
consumer must begin anew. Epoch -1 ends a session and asks without one.

Sessions are limited. A new one may take the slot of one that was not used for two minutes, or of an older and smaller
one: those with many partitions save the most. Followers go before consumers. Who gets no slot reads without a session.
"""

from collections import OrderedDict
from random import Random
from typing import Final

from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.fetch import FetchRequest
from headrace.server.waiters import Watch

NO_SESSION: Final = 0
NO_EPOCH: Final = -1  # a request that ends its session, and one that never had any
FIRST_EPOCH: Final = 0  # a request that begins a session
SLOTS: Final = 1000  # max.incremental.fetch.session.cache.slots
MAX_RESPONSE_BYTES: Final = 55 << 20  # fetch.max.bytes
_SAFE_MS: Final = 120_000  # for so long a session keeps its slot, however small it is
_MAX_INT: Final = (1 << 31) - 1


class FetchSession:
    """`epoch` is the one that the next request must carry."""

    __slots__ = ("created_ms", "epoch", "has_ids", "is_follower", "last_used_ms", "session_id", "watch")

    def __init__(self, session_id: int, watch: Watch, *, has_ids: bool, is_follower: bool, now_ms: int) -> None:
        self.session_id = session_id
        self.watch = watch
        self.has_ids = has_ids  # topics are named by ids
        self.is_follower = is_follower
        self.created_ms = self.last_used_ms = now_ms
        self.epoch = 1

    @property
    def worth(self) -> tuple[bool, int]:
        return self.is_follower, len(self.watch.partitions)


class FetchSessions:
    __slots__ = ("_random", "_sessions", "_slots", "max_response_bytes")

    def __init__(
        self, *, slots: int = SLOTS, max_response_bytes: int = MAX_RESPONSE_BYTES, random: Random | None = None
    ) -> None:
        self._slots = slots
        self._random = random or Random()
        self._sessions: OrderedDict[int, FetchSession] = OrderedDict()  # the least recently used first
        self.max_response_bytes = max_response_bytes

    def __len__(self) -> int:
        return len(self._sessions)

    def find(self, request: FetchRequest, *, has_ids: bool, now_ms: int) -> FetchSession | ErrorCode | None:
        """The session that the request continues; None if it continues none, and an error if it is not the next."""
        session_id, epoch = request.session_id, request.session_epoch
        if epoch in (FIRST_EPOCH, NO_EPOCH):
            self.remove(session_id)
            return None
        session = self._sessions.get(session_id)
        if session is None:
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        if session.epoch != epoch:
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH
        if session.has_ids != has_ids:
            return ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
        # Whoever asks again does not wait for the answer before.
        session.watch.refuse_parked(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        update(session.watch, request, has_ids=has_ids)
        if not session.watch.partitions:
            self.remove(session_id)
            return None
        session.epoch = epoch + 1 if epoch < _MAX_INT else 1
        session.last_used_ms = now_ms
        self._sessions.move_to_end(session_id)
        return session

    def begin(self, watch: Watch, *, has_ids: bool, is_follower: bool, now_ms: int) -> FetchSession | None:
        """A new session; None if there is no slot for it."""
        worth = (is_follower, len(watch.partitions))
        if len(self._sessions) >= self._slots and not self._make_room(worth, now_ms):
            return None
        session_id = NO_SESSION
        while session_id == NO_SESSION or session_id in self._sessions:
            session_id = self._random.randint(1, _MAX_INT)
        session = FetchSession(session_id, watch, has_ids=has_ids, is_follower=is_follower, now_ms=now_ms)
        self._sessions[session_id] = session
        return session

    def _make_room(self, worth: tuple[bool, int], now_ms: int) -> bool:
        oldest = next(iter(self._sessions.values()), None)
        if oldest is None:
            return False
        if now_ms - oldest.last_used_ms > _SAFE_MS:
            self.remove(oldest.session_id)
            return True
        is_follower = worth[0]
        least = min(
            (
                session
                for session in self._sessions.values()
                if now_ms - session.created_ms > _SAFE_MS or (is_follower and not session.is_follower)
            ),
            key=lambda session: session.worth,
            default=None,
        )
        if least is None or worth <= least.worth:
            return False
        self.remove(least.session_id)
        return True

    def remove(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            session.watch.refuse_parked(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
            session.watch.close()


def update(watch: Watch, request: FetchRequest, *, has_ids: bool) -> None:
    """What the request says about its partitions: other offsets, new ones, forgotten ones."""
    for name, topic_id, partitions, _ in request.topics:
        topic = topic_id if has_ids else name
        for index, leader_epoch, fetch_offset, last_fetched_epoch, _, max_bytes, *_ in partitions:
            watched = watch.add(topic, index)
            watched.current_leader_epoch = leader_epoch
            watched.fetch_offset = fetch_offset
            watched.last_fetched_epoch = last_fetched_epoch
            watched.max_bytes = max(max_bytes, 0)
    for name, topic_id, indexes, _ in request.forgotten_topics_data:
        for index in indexes:
            watch.remove(topic_id if has_ids else name, index)
