"""The fetch session with one broker (KIP-227): the broker remembers what is read, and is told only what changes.

Theory. A session is made by a full request, which names all partitions and has epoch 0; the answer brings its id. Later
requests count epochs from 1 and name only partitions that are new or read from another place, and those to forget. A
broker that does not want the session, or has dropped it, says so by id 0 or an error; the next request is full again.
So is the one after an answer that got lost: then nobody knows what the broker remembers.

Topics go by id where all of them have one; a topic that was deleted and made anew is forgotten by its old id.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from headrace.client.topic_partition import TopicPartition
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.fetch import FetchPartition, FetchTopic, ForgottenTopic
from headrace.protocol.types import ZERO_UUID

NO_SESSION: Final = 0
FULL: Final = 0  # the epoch of a request that begins a session
FINAL: Final = -1  # of one that ends it
_FIRST: Final = 1
_LAST: Final = 0x7FFFFFFF  # then it begins at 1 again


class Wanted(NamedTuple):
    """What is read of a partition, and by which id its topic goes."""

    topic_id: bytes
    row: FetchPartition


class SessionRequest(NamedTuple):
    """The fields of a Fetch request that the session decides."""

    session_id: int
    epoch: int
    topics: Sequence[FetchTopic]
    forgotten: Sequence[ForgottenTopic]
    has_ids: bool  # else only versions below 13 will do


class FetchSession:
    """One request at a time: `request`, then `answered` or `lost`."""

    __slots__ = ("_epoch", "_id", "_partitions", "names")

    def __init__(self) -> None:
        self._id = NO_SESSION
        self._epoch = FULL
        self._partitions: dict[TopicPartition, Wanted] = {}  # what the broker remembers
        self.names: dict[bytes, str] = {}  # of the topics that were asked for, by their ids: answers have only ids

    @property
    def id(self) -> int:
        return self._id

    def request(self, wanted: Mapping[TopicPartition, Wanted]) -> SessionRequest:
        """Read these partitions, and no others."""
        before = self._partitions
        self._partitions = dict(wanted)
        has_ids = all(each.topic_id != ZERO_UUID for each in wanted.values())
        if self._epoch == FULL:
            self.names = _names(wanted)
            return SessionRequest(self._id, FULL, _by_topic(wanted.items()), (), has_ids)
        changed = [(partition, each) for partition, each in wanted.items() if before.get(partition) != each]
        gone = [
            (partition, each)
            for partition, each in before.items()
            if partition not in wanted or wanted[partition].topic_id != each.topic_id
        ]
        if gone or len(before) != len(wanted):
            self.names = _names(wanted)
        return SessionRequest(self._id, self._epoch, _by_topic(changed), _forget(gone), has_ids)

    def answered(self, session_id: int, error_code: int) -> None:
        if error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
            self._begin_anew(NO_SESSION)
        elif error_code:
            self._begin_anew(self._id)
        elif session_id == NO_SESSION or (self._epoch != FULL and session_id != self._id):
            self._begin_anew(NO_SESSION)
        else:
            self._id = session_id
            self._epoch = _FIRST if self._epoch in (FULL, _LAST) else self._epoch + 1

    def lost(self) -> None:
        """No answer came. A full request with the old id makes the broker drop the old session."""
        self._begin_anew(self._id)

    def _begin_anew(self, session_id: int) -> None:
        self._id, self._epoch, self._partitions = session_id, FULL, {}


def _names(wanted: Mapping[TopicPartition, Wanted]) -> dict[bytes, str]:
    return {each.topic_id: partition.topic for partition, each in wanted.items()}


def _by_topic(wanted: Iterable[tuple[TopicPartition, Wanted]]) -> list[FetchTopic]:
    topics: dict[tuple[str, bytes], list[FetchPartition]] = {}
    for partition, each in wanted:
        topics.setdefault((partition.topic, each.topic_id), []).append(each.row)
    return [FetchTopic(*topic, rows) for topic, rows in topics.items()]


def _forget(gone: Iterable[tuple[TopicPartition, Wanted]]) -> list[ForgottenTopic]:
    topics: dict[tuple[str, bytes], list[int]] = {}
    for partition, each in gone:
        topics.setdefault((partition.topic, each.topic_id), []).append(partition.partition)
    return [ForgottenTopic(*topic, numbers) for topic, numbers in topics.items()]
