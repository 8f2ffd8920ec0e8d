"""Committing offsets, in the order in which commits were asked for.

Theory. All commits of a consumer, waited for or not, stand in one queue. One request at a time is on its way; it takes
everything that stands in the queue, and of several commits of one partition the last one counts. A request that fails
in a way that passes goes back to the front of the queue, and the next attempt carries what was asked for meanwhile. So
a commit never overwrites a newer one, however often it is tried, and a program that commits after each record causes no
more requests than the broker can answer.

A member commits only what it owns, when it asks and when the request is sent: a partition that went to another member
meanwhile is refused here, since the broker could not tell.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any, Final, NamedTuple, TypeVar

from headrace.client.backoff import retry_backoff
from headrace.client.cluster import Cluster
from headrace.client.consumer_errors import CommitFailedError
from headrace.client.coordinators import COORDINATOR_MOVED, CoordinatorKind
from headrace.client.errors import (
    ClosedError,
    KafkaError,
    PartialError,
    RequestTimedOutError,
    UnsupportedVersionError,
    WrongStateError,
    code_of,
    error_for,
)
from headrace.client.group_member import GroupMember
from headrace.client.topic_partition import TopicPartition, by_topic
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from headrace.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from headrace.protocol.types import ZERO_UUID

_BY_NAME: Final = 9  # the last version of OffsetCommit and OffsetFetch in which topics go by name
_MANY_GROUPS: Final = 8  # the first version of OffsetFetch that takes several groups
_NO_OFFSET: Final = -1
_NO_EPOCH: Final = -1

_PASSES: Final = COORDINATOR_MOVED | {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.UNSTABLE_OFFSET_COMMIT,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.STALE_MEMBER_EPOCH,  # the next attempt has the epoch that the heartbeat brings
}
_LOST: Final = frozenset(
    {
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.FENCED_MEMBER_EPOCH,
    }
)


class OffsetAndMetadata(NamedTuple):
    """The next offset to read, the epoch of the leader that wrote what stands before it, and a text of one's own."""

    offset: int
    leader_epoch: int | None = None
    metadata: str = ""


Result = TypeVar("Result")
Offsets = Mapping[TopicPartition, OffsetAndMetadata]
OnCommit = Callable[[Offsets, KafkaError | None], object]


class _Commit:
    """One call, until its fate is known."""

    __slots__ = ("attempts", "deadline", "error", "future", "left", "offsets", "started")

    def __init__(self, offsets: Offsets, started: float, deadline: float) -> None:
        self.offsets = offsets
        self.left = dict(offsets)
        self.started = started
        self.deadline = deadline
        self.attempts = 0
        self.error: KafkaError | None = None  # of the last attempt
        self.future: asyncio.Future[None] = asyncio.get_running_loop().create_future()


class Commits:
    """On the client's loop. `member` tells who commits now, `may_commit` whether a partition is ours to commit."""

    def __init__(
        self, cluster: Cluster, member: Callable[[], GroupMember], may_commit: Callable[[TopicPartition], bool]
    ) -> None:
        self._cluster = cluster
        self._is_by_epoch = cluster.settings.text("group.protocol") == "consumer"
        self._member = member
        self._may_commit = may_commit
        self._backoff = retry_backoff(cluster.settings)
        self._loop = asyncio.get_running_loop()
        self._queue: list[_Commit] = []
        self._sender: asyncio.Task[None] | None = None
        self._is_closed = False

    # Committing

    def start(self, offsets: Offsets, timeout: float) -> "asyncio.Future[None]":
        """Put a commit into the queue; the future tells when it is done, or raises KafkaError."""
        who = self._member()
        if not who.group_id:
            raise WrongStateError("This consumer has no group, so it has nothing to commit to: give it a group.")
        now = self._loop.time()
        commit = _Commit(offsets, now, now + timeout)
        if self._is_closed:
            commit.future.set_exception(ClosedError())
        elif not offsets:
            commit.future.set_result(None)
        elif not self._refuse_disowned(commit):
            self._queue.append(commit)
            if self._sender is None:
                self._sender = self._loop.create_task(self._send_all(), name="headrace-commits")
        return commit.future

    async def commit(self, offsets: Offsets, timeout: float) -> None:
        """Until it is done. Raises KafkaError: CommitFailedError if the partitions went to others."""
        await self.start(offsets, timeout)

    async def flush(self) -> None:
        """Wait until everything in the queue is done, or has failed."""
        if self._sender is not None:
            await asyncio.wait([self._sender])

    async def _send_all(self) -> None:
        try:
            failures = 0
            while self._queue:
                attempted, self._queue = self._queue, []
                error = await self._attempt([commit for commit in attempted if not self._refuse_disowned(commit)])
                if error is None:
                    failures = 0
                else:
                    failures += 1
                    pause = self._backoff.seconds(failures)
                    self._queue = self._unfinished(attempted, error, pause) + self._queue
                    await asyncio.sleep(pause if self._queue else 0)
        except BaseException as error:  # the end of the client, or a bug; whoever waits must hear of it
            for commit in self._queue:
                _settle(commit, ClosedError() if isinstance(error, asyncio.CancelledError) else error)
            raise
        finally:
            self._sender = None

    def _refuse_disowned(self, commit: _Commit) -> bool:
        gone = [partition for partition in commit.left if not self._may_commit(partition)]
        if gone:
            _settle(commit, _lost(gone))
        return bool(gone)

    async def _attempt(self, commits: list[_Commit]) -> KafkaError | None:
        """One request for all of them. Settles what is decided by it; an error if some must be tried again."""
        merged: dict[TopicPartition, OffsetAndMetadata] = {}
        for commit in commits:
            commit.attempts += 1
            merged.update(commit.left)
        if not merged:
            return None
        try:
            codes = await self._send(merged)
        except asyncio.CancelledError:
            for commit in commits:
                _settle(commit, ClosedError())
            raise
        except KafkaError as error:
            if error.retriable:
                return error
            failure = error
        except Exception as error:  # something that the wire cannot carry; or a bug, of which nobody else would hear
            failure = error_for(ErrorCode.INVALID_REQUEST, f"Offsets were not committed: {error}")
        else:
            return _read_codes(commits, codes)
        for commit in commits:
            _settle(commit, failure)
        return None

    async def _send(self, offsets: Offsets) -> dict[TopicPartition, int]:
        who = self._member()
        ids = self._cluster.metadata.topics
        rows: dict[str, list[OffsetCommitRequestPartition]] = {}
        for partition, (offset, epoch, metadata) in offsets.items():
            row = OffsetCommitRequestPartition(
                partition.partition, offset, _NO_EPOCH if epoch is None else epoch, metadata
            )
            rows.setdefault(partition.topic, []).append(row)
        topics = [
            OffsetCommitRequestTopic(name, ids[name].id if name in ids else ZERO_UUID, each)
            for name, each in rows.items()
        ]
        has_ids = all(topic.topic_id != ZERO_UUID for topic in topics)
        request = OffsetCommitRequest(who.group_id, who.generation, who.member_id, who.instance_id, topics=topics)
        response: OffsetCommitResponse = await self._ask(request, None if has_ids else _BY_NAME)
        names = {topic.topic_id: topic.name for topic in topics}
        codes = {
            TopicPartition(topic.name or names.get(topic.topic_id, ""), row.partition_index): row.error_code
            for topic in response.topics
            for row in topic.partitions
        }
        if COORDINATOR_MOVED & set(codes.values()):
            self._cluster.forget_coordinator(CoordinatorKind.GROUP, who.group_id)
        return codes

    def _unfinished(self, commits: list[_Commit], error: KafkaError, pause: float) -> list[_Commit]:
        """Those to be tried again; the others have failed for good, since their time is over."""
        unfinished: list[_Commit] = []
        now = self._loop.time()
        for commit in commits:
            if commit.future.done():
                continue
            if now + pause < commit.deadline:
                unfinished.append(commit)
                continue
            failure = commit.error or error
            tried = f"{commit.attempts} requests in {now - commit.started:.1f} s; {failure.message}"
            _settle(commit, RequestTimedOutError("Offsets were not committed in time.", tried=tried))
        return unfinished

    # What was committed

    async def committed(
        self, partitions: Iterable[TopicPartition], timeout: float
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """What the group has committed; None where it has nothing. Raises KafkaError."""
        wanted = list(partitions)
        if not wanted:
            return {}

        async def attempt() -> dict[TopicPartition, OffsetAndMetadata | None]:
            return await self._fetch(wanted)

        return await self._repeat(attempt, timeout)

    async def _fetch(self, partitions: list[TopicPartition]) -> dict[TopicPartition, OffsetAndMetadata | None]:
        who = self._member()
        if not who.group_id:
            raise WrongStateError("This consumer has no group, so nothing is committed: give it a group.")
        rows = await self._fetch_rows(who, by_topic(partitions))
        found: dict[TopicPartition, OffsetAndMetadata | None] = dict.fromkeys(partitions)
        for name, row in rows:
            if row.error_code:
                raise error_for(row.error_code, f"{name}-{row.partition_index}: {code_of(row.error_code).meaning}")
            if row.committed_offset != _NO_OFFSET:
                epoch = None if row.committed_leader_epoch == _NO_EPOCH else row.committed_leader_epoch
                place = OffsetAndMetadata(row.committed_offset, epoch, row.metadata or "")
                found[TopicPartition(name, row.partition_index)] = place
        return found

    async def _fetch_rows(self, who: GroupMember, wanted: Mapping[str, list[int]]) -> list[tuple[str, Any]]:
        ids = self._cluster.metadata.topics
        topics = [
            OffsetFetchRequestTopics(name, ids[name].id if name in ids else ZERO_UUID, numbers)
            for name, numbers in wanted.items()
        ]
        has_ids = all(topic.topic_id != ZERO_UUID for topic in topics)
        is_member = self._is_by_epoch and who.generation > 0
        group = OffsetFetchRequestGroup(
            who.group_id, who.member_id if is_member else None, who.generation if is_member else -1, topics
        )
        request = OffsetFetchRequest(groups=[group], require_stable=True)
        response: OffsetFetchResponse
        try:
            response = await self._ask(request, None if has_ids else _BY_NAME, min_version=_MANY_GROUPS)
        except UnsupportedVersionError:  # a broker before 3.0
            old = OffsetFetchRequest(who.group_id, [OffsetFetchRequestTopic(*item) for item in wanted.items()])
            response = await self._ask(old, _MANY_GROUPS - 1)
            self._check(response.error_code)
            return [(topic.name, row) for topic in response.topics for row in topic.partitions]
        (answer,) = response.groups
        self._check(answer.error_code)
        names = {topic.topic_id: topic.name for topic in topics}
        return [
            (topic.name or names.get(topic.topic_id, ""), row) for topic in answer.topics for row in topic.partitions
        ]

    # Requests

    async def _ask(self, request: Any, max_version: int | None, *, min_version: int = 0) -> Any:
        group_id = self._member().group_id
        return await self._cluster.send_to_coordinator(
            CoordinatorKind.GROUP, group_id, request, min_version=min_version, max_version=max_version
        )

    def _check(self, code: int) -> None:
        if code in COORDINATOR_MOVED:
            self._cluster.forget_coordinator(CoordinatorKind.GROUP, self._member().group_id)
        if code:
            raise error_for(code)

    async def _repeat(self, attempt: Callable[[], Coroutine[Any, Any, Result]], timeout: float) -> Result:
        started = self._loop.time()
        attempts = 0
        last: KafkaError | None = None
        while True:
            attempts += 1
            try:
                async with asyncio.timeout(max(0.0, started + timeout - self._loop.time())):
                    return await attempt()
            except TimeoutError:
                failure = last or RequestTimedOutError(f"The coordinator did not answer within {timeout:g} s.")
                failure.tried = failure.tried or f"{attempts} requests in {timeout:g} s"
                raise failure from None  # the error of the attempt before tells why the time was not enough
            except KafkaError as error:
                last = error
                pause = self._backoff.seconds(attempts)
                elapsed = self._loop.time() - started
                if not (error.retriable or error.code in _PASSES) or elapsed + pause >= timeout:
                    error.tried = error.tried or f"{attempts} requests in {elapsed:.1f} s"
                    raise
            await asyncio.sleep(pause)

    async def close(self) -> None:
        """What is still in the queue fails."""
        self._is_closed = True
        if self._sender is not None:
            self._sender.cancel()
            await asyncio.wait([self._sender])


def _read_codes(commits: list[_Commit], codes: Mapping[TopicPartition, int]) -> KafkaError | None:
    """Settle the commits by the answer; an error that passes if some of them must be tried again."""
    again: KafkaError | None = None
    for commit in commits:
        errors: dict[TopicPartition, KafkaError] = {}
        for partition in list(commit.left):
            code = codes.get(partition, ErrorCode.UNKNOWN_SERVER_ERROR)
            if code in _PASSES:
                commit.error = again = error_for(code, f"{partition}: {code_of(code).meaning}")
            else:
                del commit.left[partition]
                if code:
                    errors[partition] = _error(partition, code)
        if errors:
            commit.left.clear()
            _settle(commit, _one_of(errors, commit.offsets))
        elif not commit.left:
            _settle(commit, None)
    return again


def _one_of(errors: dict[TopicPartition, KafkaError], offsets: Offsets) -> KafkaError:
    first = next(iter(errors.values()))
    if len(errors) == 1 or len({error.code for error in errors.values()}) == 1:
        return first
    done = {partition: offset for partition, offset in offsets.items() if partition not in errors}
    return PartialError(errors, done, "offsets")


def _error(partition: TopicPartition, code: int) -> KafkaError:
    if code in _LOST:
        return CommitFailedError(
            code_of(code),
            f"The offset of {partition} was not committed: this member is out of its group, and others have its "
            "partitions. Its time between two polls was longer than max.poll.interval.ms, or its heartbeats did not "
            "get through for session.timeout.ms.",
        )
    if code == ErrorCode.REBALANCE_IN_PROGRESS:
        return error_for(
            code, f"The offset of {partition} was not committed: the group rebalances. Poll, and commit again."
        )
    return error_for(code, f"The offset of {partition} was not committed: {code_of(code).meaning}")


def _lost(partitions: list[TopicPartition]) -> CommitFailedError:
    return CommitFailedError(
        ErrorCode.ILLEGAL_GENERATION,
        f"Offsets were not committed: {', '.join(map(str, partitions))} are not assigned to this member (any more).",
    )


def _settle(commit: _Commit, error: BaseException | None) -> None:
    if commit.future.done():
        return
    if error is None:
        commit.future.set_result(None)
    else:
        commit.future.set_exception(error)
