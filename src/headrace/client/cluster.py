"""The cluster as a client sees it: brokers to send to, metadata that renews itself, coordinators.

    cluster = Cluster(settings)                      # on a running loop; nothing is sent yet
    topic = await cluster.topic("orders")            # metadata, asked for as far as it is not known
    leader = cluster.metadata.leader("orders", 0)
    response = await cluster.send(leader.id, FetchRequest(...))
    await cluster.close()

Theory. One task renews the metadata: on demand (`request_update`, `refresh`), when topics are tracked that are not
known yet or came with an error that passes, and by age. Demands that come while an update runs are served by the next
one, so whoever waits for `refresh` sees an answer that was asked for after the call. After an error, or an answer
without news, the next update pauses, twice as long each time. Metadata comes from any broker.

`send` makes one attempt. What to do with a retriable error is known best by the caller: a producer keeps its order, a
fetcher goes on with other partitions, an admin call just repeats.
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterable
from typing import Any, Final

from headrace.client.any_broker import AnyBroker
from headrace.client.backoff import retry_backoff
from headrace.client.config import Settings
from headrace.client.connection import Connection
from headrace.client.coordinators import CoordinatorKind, Coordinators
from headrace.client.errors import (
    ClosedError,
    ConnectionLostError,
    KafkaError,
    RequestTimedOutError,
    error_for,
)
from headrace.client.metadata import Metadata, Node, Topic
from headrace.client.pool import ConnectionPool
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

COORDINATOR: Final = "coordinator"  # the purpose of connections to coordinators
IDLE_CHECK_SECONDS: Final = 30.0
_METADATA_SINCE: Final = 4  # the first version that can forbid the creation of topics


class Cluster:
    """Everything here is for the thread of the loop on which it was made."""

    def __init__(self, settings: Settings, *, allow_auto_create: bool = False) -> None:
        """`allow_auto_create`: asking for a topic may create it, if the broker is configured so."""
        self.settings = settings
        self.metadata = Metadata()
        self._allow_auto_create = allow_auto_create
        self._loop = asyncio.get_running_loop()
        self._pool = ConnectionPool(settings)
        self._anyone = AnyBroker(settings, self._pool, lambda: self.metadata.brokers)
        self._backoff = retry_backoff(settings)
        self._coordinators = Coordinators(self._anyone.ask, self._backoff)
        self._tracked: set[str] = set()
        self._tracks_all = False
        self._listeners: list[Callable[[Metadata], None]] = []
        self._waiters: list[asyncio.Future[Metadata]] = []
        self._is_update_due = asyncio.Event()
        self._failures = 0  # updates in a row that failed, or brought nothing new
        self._attempted_at = 0.0  # the last of them, on the loop's clock
        self._updated_at: float | None = None  # on the loop's clock
        self._keeper: asyncio.Task[None] | None = None
        self._is_closed = False

    # Metadata

    @property
    def updated_at(self) -> float | None:
        """When the metadata came, on the loop's clock; None before the first time."""
        return self._updated_at

    def track(self, topics: Iterable[str]) -> None:
        """Keep these topics in the metadata from now on; those which are not known are asked for soon."""
        new = set(topics) - self._tracked
        self._tracked |= new
        if not new <= self.metadata.topics.keys():
            self._failures = 0  # a question that was not asked yet: no pause
            self.request_update()

    def untrack(self, topics: Iterable[str]) -> None:
        gone = set(topics) & self._tracked
        if gone:
            self._tracked -= gone
            if not self._tracks_all:
                self.metadata = self.metadata.without(gone)

    def track_all(self, wanted: bool = True) -> None:
        """Keep all topics of the cluster in the metadata, or only the tracked ones again."""
        if wanted != self._tracks_all:
            self._tracks_all = wanted
            self.request_update()

    def add_listener(self, listener: Callable[[Metadata], None]) -> None:
        """Call it with each new snapshot."""
        self._listeners.append(listener)

    def request_update(self) -> None:
        """The metadata is wrong or too little: renew it soon. Any number of demands make one request."""
        if self._keeper is None and not self._is_closed:
            self._keeper = self._loop.create_task(self._keep_metadata(), name="headrace-metadata")
            self._keeper.add_done_callback(self._keeper_ended)
        self._is_update_due.set()

    def stale(self, topic: str) -> None:
        """A broker answered as if its metadata were newer than ours: of this topic, which is tracked from now on."""
        self._tracked.add(topic)
        self.request_update()

    async def refresh(self) -> Metadata:
        """The metadata, renewed after this call. One attempt at all brokers; raises KafkaError."""
        if self._is_closed:
            raise ClosedError
        waiter = self._loop.create_future()
        self._waiters.append(waiter)
        self.request_update()
        metadata: Metadata = await waiter
        return metadata

    async def topic(self, name: str, *, timeout: float = 0.0) -> Topic:
        """The topic, tracked from now on; asked for once if it is not known, and again until `timeout` seconds passed.

        Raises UnknownTopicError, NoBrokersError, … with what was tried.
        """
        check_topic_name(name)
        if (known := self.metadata.topic(name)) is not None:
            self._tracked.add(name)
            return known
        was_tracked = name in self._tracked
        started = self._loop.time()
        attempts = 0
        while True:
            attempts += 1
            self.track([name])
            error = await self._look_for(name, started + timeout)
            if (known := self.metadata.topic(name)) is not None:
                return known
            pause = self._backoff.seconds(attempts)
            elapsed = self._loop.time() - started
            if error is None:
                continue  # forgotten while it was asked for
            if not error.retriable or elapsed + pause >= timeout:
                if not was_tracked:
                    self.untrack([name])
                error.tried = error.tried or f"{attempts} requests for metadata in {elapsed:.1f} s"
                raise error
            await asyncio.sleep(pause)

    async def _look_for(self, name: str, deadline: float) -> KafkaError | None:
        """What keeps the topic from being known, after one more update."""
        left = max(deadline - self._loop.time(), self.settings.seconds("request.timeout.ms"))
        try:
            async with asyncio.timeout(left):
                metadata = await self.refresh()
        except TimeoutError:
            return RequestTimedOutError("No broker answered a request for metadata in time.")
        except KafkaError as error:
            return error
        topic = metadata.topics.get(name)
        if topic is None or topic.error is ErrorCode.NONE:
            return None
        return error_for(topic.error, _topic_message(name, topic.error))

    def learn_leader(
        self, topic: str, partition: int, *, leader: int, leader_epoch: int, nodes: Iterable[Node] = ()
    ) -> bool:
        """A Produce or Fetch answer named the new leader (KIP-951). Whether that was news; ask for an update if not."""
        before = self.metadata
        self.metadata = before.with_leader(topic, partition, leader=leader, leader_epoch=leader_epoch, nodes=nodes)
        return self.metadata is not before

    # The task that keeps it

    async def _keep_metadata(self) -> None:
        idle_check = self._loop.time() + IDLE_CHECK_SECONDS
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._seconds_until_due(idle_check)):
                    await self._is_update_due.wait()
            if self._loop.time() >= idle_check:
                self._pool.close_idle()
                idle_check = self._loop.time() + IDLE_CHECK_SECONDS
            if not self._is_update_due.is_set() and self._seconds_of_age_left() > 0:
                continue
            pause = self._attempted_at + self._backoff.seconds(self._failures) - self._loop.time()
            if self._failures and pause > 0:
                await asyncio.sleep(pause)
            await self._update()

    def _keeper_ended(self, keeper: "asyncio.Task[None]") -> None:
        """When the client is closed, or by a bug, which reaches whoever waits; the next demand starts another one."""
        error = ClosedError() if keeper.cancelled() else keeper.exception()
        if not self._is_closed:
            self._keeper = None
        self._serve(len(self._waiters), lambda waiter: waiter.set_exception(error or ClosedError()))

    def _seconds_until_due(self, idle_check: float) -> float:
        return max(0.0, min(self._seconds_of_age_left(), idle_check - self._loop.time()))

    def _seconds_of_age_left(self) -> float:
        if self._updated_at is None:
            return 0.0 if self._tracked or self._tracks_all else IDLE_CHECK_SECONDS
        return self._updated_at + self.settings.seconds("metadata.max.age.ms") - self._loop.time()

    async def _update(self) -> None:
        served = len(self._waiters)  # those who come later want an answer to a later question
        self._is_update_due.clear()
        self._attempted_at = self._loop.time()
        try:
            metadata = await self._ask_for_metadata()
        except KafkaError as error:
            failure = error
            self._failures += 1
            self._forget_if_silent()
            if self._tracked or self._tracks_all:
                self._is_update_due.set()
            self._serve(served, lambda waiter: waiter.set_exception(failure))
            return
        # An answer without news: whoever asks again at once, since something is wrong, gets slower ones.
        self._failures = self._failures + 1 if metadata == self.metadata else 0
        self.metadata = metadata
        self._updated_at = self._loop.time()
        self._serve(served, lambda waiter: waiter.set_result(metadata))
        if self._is_something_missing():
            self._is_update_due.set()
        for listener in self._listeners:
            listener(metadata)

    def _is_something_missing(self) -> bool:
        """Whether a topic that somebody wants, or one of its leaders, may come into being at any time."""
        wanted = (self.metadata.topics.get(name) for name in self._tracked)
        return any(
            topic.error.retriable or any(partition.error.retriable for partition in topic.partitions.values())
            for topic in wanted
            if topic is not None
        )

    def _serve(self, count: int, settle: "Callable[[asyncio.Future[Metadata]], None]") -> None:
        served, self._waiters = self._waiters[:count], self._waiters[count:]
        for waiter in served:
            if not waiter.done():
                settle(waiter)

    async def _ask_for_metadata(self) -> Metadata:
        asked = None if self._tracks_all else frozenset(self._tracked)
        topics = None if asked is None else [MetadataRequestTopic(name=name) for name in sorted(asked)]
        request = MetadataRequest(topics, self._allow_auto_create)
        response: MetadataResponse = await self._anyone.ask(request, min_version=_METADATA_SINCE)
        if response.error_code == ErrorCode.REBOOTSTRAP_REQUIRED:
            self._rebootstrap()
            response = await self._anyone.ask(request, min_version=_METADATA_SINCE)
        if response.error_code:
            raise error_for(response.error_code)
        return self.metadata.renewed(response, asked=asked)

    def _rebootstrap(self) -> None:
        self.metadata = Metadata(topics=self.metadata.topics, names_by_id=self.metadata.names_by_id)

    def _forget_if_silent(self) -> None:
        """KIP-1102: brokers that have given no metadata for so long may not be the cluster any more."""
        trigger = self.settings.seconds("metadata.recovery.rebootstrap.trigger.ms")
        if (
            self._anyone.may_rebootstrap
            and self._updated_at is not None
            and self._loop.time() - self._updated_at > trigger
        ):
            self._rebootstrap()

    # Brokers

    async def send(
        self,
        node: int | Node,
        request: Any,
        *,
        purpose: str = "",
        min_version: int = 0,
        max_version: int | None = None,
        timeout: float | None = None,
    ) -> Any:
        """The response of this broker, over its connection for this purpose. One attempt; raises KafkaError."""
        connection = await self.connection(node, purpose)
        return await connection.send(request, min_version=min_version, max_version=max_version, timeout=timeout)

    async def connection(self, node: int | Node, purpose: str = "") -> Connection:
        """The connection to a broker, ready to be sent to; made if need be. Raises KafkaError."""
        known = self.metadata.brokers.get(node) if isinstance(node, int) else node
        if known is None:
            self.request_update()
            raise ConnectionLostError(f"Broker {node} is not among the brokers of the cluster at the moment.")
        try:
            return await self._pool.reach(known, purpose)
        except KafkaError:
            self.request_update()
            raise

    def ready(self, node: int, purpose: str = "") -> Connection | None:
        """The connection, if it is open and may be sent to now; for callers that do not want to wait."""
        known = self.metadata.brokers.get(node)
        return None if known is None else self._pool.ready(known, purpose)

    async def ask(
        self, request: Any, *, min_version: int = 0, max_version: int | None = None, timeout: float | None = None
    ) -> Any:
        """The response of any broker. Only for requests without an effect. Raises KafkaError."""
        return await self._anyone.ask(request, min_version=min_version, max_version=max_version, timeout=timeout)

    async def any_node(self) -> Node:
        """A broker that can be reached. Raises KafkaError."""
        return await self._anyone.find()

    # Coordinators

    async def coordinator(self, kind: CoordinatorKind, key: str, *, timeout: float = 0.0) -> Node:
        """The broker that coordinates this group, transactional id or share partition.

        Looked up once, and again until `timeout` seconds passed if that helps. Raises KafkaError.
        """
        return await self._coordinators.find(kind, key, timeout=timeout)

    def ready_coordinator(self, kind: CoordinatorKind, key: str) -> Connection | None:
        """The connection to it, if it is known and may be sent to now; for callers that do not want to wait."""
        node = self._coordinators.known(kind, key)
        return None if node is None else self._pool.ready(node, COORDINATOR)

    def forget_coordinator(self, kind: CoordinatorKind, key: str) -> None:
        """It answered NOT_COORDINATOR, or not at all: look it up again next time."""
        self._coordinators.forget(kind, key)

    async def send_to_coordinator(
        self,
        kind: CoordinatorKind,
        key: str,
        request: Any,
        *,
        min_version: int = 0,
        max_version: int | None = None,
        timeout: float | None = None,
    ) -> Any:
        """The response of the coordinator, over a connection of its own. One attempt; raises KafkaError.

        Error codes in the response are the caller's: NOT_COORDINATOR and COORDINATOR_NOT_AVAILABLE ask for
        `forget_coordinator`.
        """
        node = await self.coordinator(kind, key)
        try:
            return await self.send(
                node,
                request,
                purpose=COORDINATOR,
                min_version=min_version,
                max_version=max_version,
                timeout=timeout,
            )
        except (ConnectionLostError, RequestTimedOutError):
            self._coordinators.forget_node(node.id)
            raise

    # The end

    async def close(self) -> None:
        """Close all connections; whatever waits fails with ClosedError."""
        self._is_closed = True
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.wait([self._keeper])
        await self._pool.close()


def check_topic_name(name: Any) -> None:
    """Raises TypeError, UnicodeEncodeError: such a name would spoil every request for metadata from now on."""
    if not isinstance(name, str):
        raise TypeError(f"the name of a topic is a text, not {name!r}")
    name.encode()


def _topic_message(name: str, code: ErrorCode) -> str:
    if code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return f"There is no topic {name!r}."
    return f"Topic {name!r}: {code.meaning}"
