"""What all admin calls share: where a request goes, when it is repeated, and how results with errors are told.

A request goes to any broker, to the controller, to a broker, to the leaders of partitions or to a coordinator. If the
answer says that it went to the wrong one, or none came, it is looked up and sent again, until the call's time is over
or `retries` are used up. Errors of single items are not repeated: they are the answer.

A call about several items returns all results, or raises PartialError with both what worked and what did not. A call
about one item raises the item's own error.
"""

import asyncio
import os
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from headrace.client import background
from headrace.client.admin_configs import ADMIN_CONFIGS
from headrace.client.backoff import retry_backoff
from headrace.client.cluster import Cluster
from headrace.client.config import load_settings
from headrace.client.coordinators import CoordinatorKind
from headrace.client.errors import (
    ClosedError,
    KafkaError,
    PartialError,
    RequestTimedOutError,
    UnknownTopicError,
    error_for,
)
from headrace.client.topic_partition import TopicPartition
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)

Key = TypeVar("Key")
Result = TypeVar("Result")

# What an answer says that came from the wrong broker, or from one that is not ready.
MOVED: Final = frozenset(
    {
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)
# The same broker gives another answer later.
_NOT_YET: Final = MOVED | {ErrorCode.UNSTABLE_OFFSET_COMMIT}
_METADATA_SINCE: Final = 4  # the first version that can forbid the creation of topics

# (response) -> the error codes in it, where MOVED codes are looked for.
Codes = Callable[[Any], Iterable[int]]
# (response) -> the result of each partition, or its error.
ReadPartitions = Callable[[Any], Iterable[tuple[TopicPartition, Any]]]


class AdminCalls:
    """Every method of an admin client takes `timeout` in seconds, default.api.timeout.ms if it is left out."""

    def __init__(
        self, bootstrap: str | Sequence[str] | None = None, *, config: Mapping[str, Any] | None = None, **configs: Any
    ) -> None:
        """`bootstrap` is host:port of some brokers; configs are Kafka's, by keyword or in a dict with dots.

        Nothing is sent yet. Raises ConfigError.
        """
        self._settings = load_settings(ADMIN_CONFIGS, bootstrap, config, configs)
        self._backoff = retry_backoff(self._settings)
        self._lazy_cluster: Cluster | None = None
        self._is_closed = False
        self._process = 0  # that has the connections: a forked child has none

    async def ping(self) -> None:
        """Raise at once if no broker answers, where other calls would try again until their time is over."""
        await self._cluster.refresh()

    async def close(self) -> None:
        """Close all connections; calls that wait fail with ClosedError."""
        self._is_closed = True
        if self._lazy_cluster is not None and self._process == os.getpid():
            await self._lazy_cluster.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def _cluster(self) -> Cluster:
        """Made at the first call, since it belongs to the loop that runs then."""
        if self._lazy_cluster is None:
            if self._is_closed:
                raise ClosedError
            self._lazy_cluster = Cluster(self._settings)
            self._process = os.getpid()
        elif self._process != os.getpid():
            raise ClosedError(background.FORKED)
        return self._lazy_cluster

    @property
    def _request_timeout_ms(self) -> int:
        """How long a broker may take over a change before it answers."""
        return self._settings.number("request.timeout.ms")

    # Repeating

    async def _repeat(self, attempt: Callable[[], Awaitable[Result]], timeout: float | None) -> Result:
        """Until it works, or fails for good, or the time is over."""
        loop = asyncio.get_running_loop()
        limit = self._settings.seconds("default.api.timeout.ms") if timeout is None else timeout
        retries = self._settings.number("retries")
        started = loop.time()
        attempts = 0
        last: KafkaError | None = None
        while True:
            attempts += 1
            try:
                async with asyncio.timeout(started + limit - loop.time()):
                    return await attempt()
            except TimeoutError:
                if last is not None:  # it tells why the time was not enough
                    _note_attempts(last, attempts, loop.time() - started)
                    raise last from None
                raise RequestTimedOutError(
                    f"The call was not done within {limit:g} s.", tried=_count(attempts, "attempt")
                ) from None
            except KafkaError as error:
                last = error
                pause = self._backoff.seconds(attempts)
                elapsed = loop.time() - started
                if not error.retriable or attempts > retries or elapsed + pause >= limit:
                    _note_attempts(error, attempts, elapsed)
                    raise
            await asyncio.sleep(pause)

    # Where to

    async def _any(self, request: Any, codes: Codes, timeout: float | None, **versions: Any) -> Any:
        """Of any broker; for questions."""

        async def attempt() -> Any:
            return _here(await self._cluster.ask(request, **versions), codes)

        return await self._repeat(attempt, timeout)

    async def _controller(self, request: Any, codes: Codes, timeout: float | None, **versions: Any) -> Any:
        """Of the controller, or of a broker that passes it on: that is what metadata names in a KRaft cluster."""

        async def attempt() -> Any:
            cluster = self._cluster
            if cluster.updated_at is None:
                await cluster.refresh()
            node_id = cluster.metadata.controller_id
            node = cluster.metadata.brokers.get(node_id) or await cluster.any_node()
            try:
                return _here(await cluster.send(node, request, **versions), codes)
            except KafkaError:
                cluster.request_update()
                raise

        return await self._repeat(attempt, timeout)

    async def _broker(self, node_id: int, request: Any, codes: Codes, timeout: float | None, **versions: Any) -> Any:
        """Of this broker."""

        async def attempt() -> Any:
            cluster = self._cluster
            if node_id not in cluster.metadata.brokers:
                await cluster.refresh()
                if node_id not in cluster.metadata.brokers:
                    known = ", ".join(map(str, sorted(cluster.metadata.brokers)))
                    raise KafkaError(
                        ErrorCode.BROKER_NOT_AVAILABLE, f"There is no broker {node_id}; there are {known}."
                    )
            return _here(await cluster.send(node_id, request, **versions), codes)

        return await self._repeat(attempt, timeout)

    async def _coordinator(
        self, kind: CoordinatorKind, key: str, request: Any, codes: Codes, timeout: float | None, **versions: Any
    ) -> Any:
        """Of the coordinator of this group or transactional id."""

        async def attempt() -> Any:
            cluster = self._cluster
            try:
                return _here(await cluster.send_to_coordinator(kind, key, request, **versions), codes)
            except KafkaError as error:
                if error.code in MOVED:
                    cluster.forget_coordinator(kind, key)
                raise

        return await self._repeat(attempt, timeout)

    async def _brokers(self, timeout: float | None) -> list[int]:
        """The ids of all brokers."""

        async def attempt() -> list[int]:
            return sorted((await self._cluster.refresh()).brokers)

        return await self._repeat(attempt, timeout)

    async def _leaders(
        self,
        partitions: Iterable[TopicPartition],
        make_request: Callable[[Mapping[str, list[int]]], Any],
        read: ReadPartitions,
        timeout: float | None,
        **versions: Any,
    ) -> dict[TopicPartition, Any]:
        """One request to each leader, of the partitions that it leads; what moved meanwhile is asked for again."""
        wanted = list(dict.fromkeys(partitions))
        results: dict[TopicPartition, Any] = {}

        async def attempt() -> None:
            left = [each for each in wanted if each not in results]
            by_leader, lost = await self._group_by_leader(left)
            results.update(lost)
            answers = await asyncio.gather(
                *(self._cluster.send(node, make_request(topics), **versions) for node, topics in by_leader.items()),
                return_exceptions=True,
            )
            failures = [answer for answer in answers if isinstance(answer, BaseException)]
            for answer in answers:
                if not isinstance(answer, BaseException):
                    for partition, result in read(answer):
                        if isinstance(result, KafkaError) and result.code in MOVED:
                            failures.append(result)
                        else:
                            results[partition] = result
            if failures:
                raise failures[0]

        await self._repeat(attempt, timeout)
        return {each: results[each] for each in wanted}

    async def _group_by_leader(
        self, partitions: Iterable[TopicPartition]
    ) -> tuple[dict[int, dict[str, list[int]]], dict[TopicPartition, KafkaError]]:
        """Leader -> topic -> partitions; and what does not exist. Raises a retriable error if a leader is missing."""
        topics = {row.name: row for row in await self._ask_for_topics({each.topic for each in partitions})}
        by_leader: dict[int, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
        lost: dict[TopicPartition, KafkaError] = {}
        for each in partitions:
            row = topics.get(each.topic)
            if row is None or row.error_code:
                lost[each] = topic_error(each.topic, row.error_code if row else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                continue
            found = [partition for partition in row.partitions if partition.partition_index == each.partition]
            if not found:
                lost[each] = UnknownTopicError(
                    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                    f"Topic {each.topic!r} has no partition {each.partition}; it has {len(row.partitions)}.",
                )
            elif found[0].leader_id < 0:
                raise error_for(ErrorCode.LEADER_NOT_AVAILABLE, f"Partition {each} has no leader at the moment.")
            else:
                by_leader[found[0].leader_id][each.topic].append(each.partition)
        if any(leader not in self._cluster.metadata.brokers for leader in by_leader):
            await self._cluster.refresh()
        return by_leader, lost

    async def _ask_for_topics(self, names: Iterable[str] | None) -> Sequence[MetadataResponseTopic]:
        """The topics as metadata shows them now; all of them for None."""
        topics = None if names is None else [MetadataRequestTopic(name=name) for name in sorted(names)]
        response: MetadataResponse = await self._cluster.ask(
            MetadataRequest(topics, False), min_version=_METADATA_SINCE
        )
        return response.topics


def settle(results: Mapping[Key, Result | KafkaError], what: str) -> dict[Key, Result]:
    """The results, if no error is among them. `what` is the plural of the items. Raises PartialError."""
    errors = {key: result for key, result in results.items() if isinstance(result, KafkaError)}
    if not errors:
        return {key: result for key, result in results.items() if not isinstance(result, KafkaError)}
    if len(results) == 1:
        raise next(iter(errors.values()))
    done = {key: result for key, result in results.items() if not isinstance(result, KafkaError)}
    raise PartialError(errors, done, what)


def failure(code: int, message: str | None = None) -> KafkaError | None:
    """None for no error: `failure(code, message) or Result(...)` reads as it is meant."""
    return error_for(code, message) if code else None


def topic_error(name: str, code: int, message: str | None = None) -> KafkaError:
    if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return error_for(code, f"There is no topic {name!r}.")
    if code == ErrorCode.TOPIC_ALREADY_EXISTS:
        return error_for(code, f"There is a topic {name!r} already.")
    return error_for(code, message or None)


def no_codes(_: Any) -> Iterable[int]:
    """For answers whose items have codes of their own, none of which means that the broker was the wrong one."""
    return ()


def top_code(response: Any) -> Iterable[int]:
    """For answers with one code for all."""
    return (response.error_code,)


def _here(response: Any, codes: Codes) -> Any:
    """The response, unless it says that another broker must be asked, or the same one later."""
    for code in codes(response):
        if code in _NOT_YET:
            raise error_for(code)
    return response


def _note_attempts(error: KafkaError, attempts: int, elapsed: float) -> None:
    if attempts > 1:
        before = f"; {error.tried}" if error.tried else ""
        error.tried = f"{_count(attempts, 'attempt')} in {elapsed:.1f} s{before}"


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"
