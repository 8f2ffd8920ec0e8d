"""A consumer commits offsets again and again: what was understood once need not be decoded and encoded a second time.

Theory. Two OffsetCommit requests of one member differ in the correlation id, in offsets and in leader epochs; so do the
records that they lead to, and those in the time as well; their answers differ in the correlation id only. So a
connection remembers the last request that was taken as a whole: what stood around its numbers, its answer, and a batch
into which the numbers of the next requests like it are put. Those that have come together are written together.

Nothing that was decided is remembered but what rests on the same metadata (`coordinator.repeated_commit`): whether this
node runs the shard, and whether the group takes the commit, is asked each time. Whatever is not quite the same, or may
be refused, goes the long way, as if nobody had looked at it: a write that was refused has written nothing.

A request whose bytes are not those that we would write is not remembered; where its numbers stand is found by writing
it a second time with other numbers.

Bounds: MAX_REQUEST_BYTES and MAX_TOGETHER. After MAX_TRIES requests that were remembered in vain, a connection does
without.
"""

from collections.abc import Callable, Sequence
from struct import Struct
from typing import Any, Final

from headrace.coordinator.repeated_commit import EPOCHS_SINCE, RepeatedCommit
from headrace.protocol.apis import API_BY_NAME, load
from headrace.protocol.frame import Range
from headrace.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from headrace.server.commit_batch import CommitBatch, differences
from headrace.server.context import Context
from headrace.server.log_errors import LOG_ERRORS

MAX_REQUEST_BYTES: Final = 2_048  # with it, the offsets of some hundred partitions
MAX_TOGETHER: Final = 32  # requests in one batch; a client rarely has more on their way
MAX_TRIES: Final = 8
OFFSET_COMMIT_KEY: Final = API_BY_NAME["OffsetCommit"].key
_HEAD_BYTES: Final = 8  # of a request: the API's key, its version, and the correlation id
_NUMBERS_BYTES: Final = 12  # offset and leader epoch, which stand side by side


class _Remembered:
    """One request: how to read the next one like it, what it writes, and what is said then."""

    __slots__ = ("answer", "answer_size", "api", "batch", "commit", "index", "pack_answer", "pieces", "read", "size")

    def __init__(self, index: int, commit: RepeatedCommit, frame: bytes, numbers_at: list[int], answer: bytes) -> None:
        self.index = index
        self.commit = commit
        self.batch = CommitBatch(commit, 1)
        self.size = len(frame)
        self.read = _reader_of(len(frame), numbers_at)
        values = self.read(frame, 0)
        self.api = values[0]
        self.pieces = values[2::3]
        self.answer_size = len(answer) - 4
        self.answer = answer[8:]
        self.pack_answer = Struct(f">ii{len(self.answer)}s").pack

    def batch_for(self, count: int) -> CommitBatch:
        if count > self.batch.capacity:
            self.batch = CommitBatch(self.commit, count)
        return self.batch


class RepeatedCommits:
    """What a connection remembers of its commits."""

    __slots__ = ("_groups", "_known", "_may_serve", "_now_ms", "_tries")

    def __init__(self, context: Context, may_serve: Callable[[], bool]) -> None:
        """`may_serve`: nobody wants to see each request now."""
        self._groups = context.coordinators.groups
        self._now_ms = context.clock.now_ms
        self._may_serve = may_serve
        self._known: _Remembered | None = None
        self._tries = 0  # since the last request that was served from what is remembered

    def serve(self, buffer: bytearray, frames: Sequence[Range]) -> tuple[int, bytes]:
        """How many of the first of these requests are such, which may be none, and their answers."""
        known = self._known
        if known is None or frames[0][1] - frames[0][0] != known.size or not self._may_serve():
            return 0, b""
        repeated = _alike(known, buffer, frames)
        place = self._groups.loaded_place(known.index)
        if not repeated or place is None or place.partition.flushes_every_append:
            return 0, b""
        now_ms = self._now_ms()
        if not known.commit.holds(place.shard, now_ms):
            return 0, b""
        offsets = [offset for values in repeated for offset in values[3::3]]
        leader_epochs = [leader_epoch for values in repeated for leader_epoch in values[4::3]]
        count = len(repeated)
        batch = known.batch_for(count).with_numbers(offsets, leader_epochs, now_ms)
        try:
            place.write_encoded(batch, known.commit.records(offsets, leader_epochs, now_ms), now_ms)
        except LOG_ERRORS:
            return 0, b""
        self._tries = 0
        size, answer, pack = known.answer_size, known.answer, known.pack_answer
        return count, b"".join([pack(size, values[1], answer) for values in repeated])

    def learn(
        self, version: int, frame: memoryview, body_at: int, request: OffsetCommitRequest, response: Any, answer: bytes
    ) -> None:
        """`frame` was decoded to this, and answered with that. Remember it if the next one may be served from it."""
        if (
            version < EPOCHS_SINCE
            or self._tries >= MAX_TRIES
            or len(frame) > MAX_REQUEST_BYTES
            or not _is_taken(response)
        ):
            return
        self._tries += 1
        self._known = None
        index = self._groups.index_of(request.group_id)
        place = None if index is None else self._groups.loaded_place(index)
        encode = load(OFFSET_COMMIT_KEY).encode_request[version]
        if index is None or place is None or frame[body_at:] != b"".join(encode(request)):
            return
        turned = b"".join(encode(_turned(request)))
        numbers_at = [body_at + start for start in differences(frame[body_at:], turned)]
        commit = RepeatedCommit(place.shard, request, version)
        self._known = _Remembered(index, commit, bytes(frame), numbers_at, answer)


def _alike(known: _Remembered, buffer: bytearray, frames: Sequence[Range]) -> list[tuple[Any, ...]]:
    """What stands in the first of these requests, as far as they are such."""
    read, size, api, pieces = known.read, known.size, known.api, known.pieces
    found: list[tuple[Any, ...]] = []
    for start, end in frames[:MAX_TOGETHER]:
        if end - start != size:
            break
        values = read(buffer, start)
        if values[0] != api or values[2::3] != pieces:
            break
        found.append(values)
    return found


def _is_taken(response: Any) -> bool:
    """Was every offset written, and is there any?"""
    if type(response) is not OffsetCommitResponse:
        return False
    codes = [row.error_code for topic in response.topics for row in topic.partitions]
    return bool(codes) and not any(codes)


def _turned(request: OffsetCommitRequest) -> OffsetCommitRequest:
    """The same with other numbers: no byte of an offset, or of a leader epoch, is as it was."""
    return request._replace(
        topics=[
            topic._replace(
                partitions=[
                    row._replace(
                        committed_offset=~row.committed_offset, committed_leader_epoch=~row.committed_leader_epoch
                    )
                    for row in topic.partitions
                ]
            )
            for topic in request.topics
        ]
    )


def _reader_of(size: int, numbers_at: list[int]) -> Callable[[bytes | bytearray, int], tuple[Any, ...]]:
    """What reads the API, the correlation id, and then in turns what stands around the numbers, and the numbers."""
    layout, position = ">Ii", _HEAD_BYTES
    for at in numbers_at:
        layout += f"{at - position}sqi"
        position = at + _NUMBERS_BYTES
    return Struct(f"{layout}{size - position}s").unpack_from
