"""Sends what waits: looks for batches that are ready, groups them by broker, and deals with the answers.

Theory. `wake` may come from any thread and at any time; a look follows on the loop's thread, and does all that can be
done now. Nothing here waits: what is not possible yet is tried again when the thing it waits for happens, which is a
metadata update, an answer, a connection, or a moment on the clock.

A batch is ready when it is full, has lingered long enough, or somebody flushes or is blocked for want of memory. Order
in a partition holds because batches are taken from the front of its queue, numbered in that order, and put back in
front of everything that was not sent yet. The number of requests to a broker without an answer is limited.

Who may send, and under which identity, is asked of `gate`: an idempotent producer needs an id first, a transaction its
partitions.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterable
from functools import partial
from threading import get_ident
from typing import Any, Final

from headrace.client.accumulator import Accumulator, PartitionQueue
from headrace.client.backoff import retry_backoff
from headrace.client.cluster import Cluster
from headrace.client.config import Settings
from headrace.client.connection import Connection
from headrace.client.errors import ClosedError, DeliveryTimeoutError, KafkaError, error_for
from headrace.client.gates import Gate
from headrace.client.in_flight_deadlines import InFlightDeadlines
from headrace.client.look_timer import FOREVER, LookTimer
from headrace.client.metadata import Metadata, Node
from headrace.client.pending_batch import NO_TIME, PendingBatch
from headrace.client.produce_wire import compression_of, produce_request, reason, rows_by_place, version_limit
from headrace.client.prompt_answer import PromptAnswer
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.produce import PartitionProduceResponse, ProduceResponse

_NO_ACKS: Final = 0
# The broker knows of another leader, or of none: ask again who it is.
_STALE: Final = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.NETWORK_EXCEPTION,
    }
)

Ready = tuple[Connection, list[PartitionQueue]]


class Sender:
    """Everything but `wake` is for the loop's thread."""

    def __init__(self, cluster: Cluster, settings: Settings, gate: Gate) -> None:
        self._cluster = cluster
        self._gate = gate
        self._loop = asyncio.get_running_loop()
        self._thread = get_ident()
        self._is_transactional = gate.transactional_id is not None
        self._acks = -1 if settings.text("acks") == "all" else int(settings.text("acks"))
        self._retries = settings.number("retries")
        self._linger = settings.seconds("linger.ms")
        self._delivery_timeout = settings.seconds("delivery.timeout.ms")
        self._request_timeout_ms = settings.number("request.timeout.ms")
        self._max_request_bytes = settings.number("max.request.size")
        self._max_in_flight = settings.number("max.in.flight.requests.per.connection")
        self._codec, self._level = compression_of(settings)
        self._backoff = retry_backoff(settings)
        self.batches = Accumulator(
            batch_bytes=settings.number("batch.size"),
            memory_bytes=settings.number("buffer.memory"),
            pack=lambda batch: batch.pack(self._codec, self._level),
            wake=self.wake,
            begun=self._begun,
        )
        self._deadlines = InFlightDeadlines(self._delivery_timeout, self.batches.unsettled, self._out_of_time)
        self._in_flight: dict[int, int] = {}  # requests by broker
        self._connecting: set[int] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._flushes = 0  # that wait
        self._is_woken = False
        self._timer = LookTimer(self._look)
        self._is_closed = False
        cluster.add_listener(self._metadata_came)

    # Waking up

    def wake(self) -> None:
        """There may be something to send. From any thread."""
        if not self._is_woken:
            self._is_woken = True
            if get_ident() == self._thread:
                self._loop.call_soon(self._look)  # without the two system calls that wake another thread
            else:
                self._loop.call_soon_threadsafe(self._look)

    def _begun(self) -> None:
        """A batch has begun. From any thread; unless the timer rings in time anyway, the loop has to set it."""
        if not self._timer.rings_by(time.monotonic() + self._linger):
            self.wake()

    def _metadata_came(self, _: Metadata) -> None:
        self.wake()

    def _look(self) -> None:
        self._is_woken = False
        if self._is_closed:  # a thread may have been about to send when the producer was closed
            self.fail_unsent(ClosedError())
            return
        next_at = FOREVER
        is_open = self._gate.is_open()
        while True:
            now = time.monotonic()
            ready, next_at = self._ready(now, is_open=is_open)
            if not ready:
                break
            for node, (connection, queues) in ready.items():
                self._send_to(node, connection, queues)
        self._timer.set(next_at)

    # Finding what is ready

    def _ready(self, now: float, *, is_open: bool) -> tuple[dict[int, Ready], float]:
        """Partitions to send to, by broker, and when to look again."""
        ready: dict[int, Ready] = {}
        next_at = FOREVER
        for queue in self.batches.waiting():
            batch = self._first_alive(queue, now)
            if batch is None:
                continue
            next_at = min(next_at, batch.created_at + self._delivery_timeout)
            if not is_open or not self._gate.admits(queue.place):
                continue
            due_at = batch.retry_at if batch.attempts else batch.created_at + self._linger
            if due_at > now and (batch.attempts or not self._is_pressing(queue)):
                next_at = min(next_at, due_at)
                continue
            leader = self._cluster.metadata.leader(*queue.place)
            if leader is None:
                self._cluster.stale(queue.place[0])
            elif (known := ready.get(leader.id)) is not None:
                known[1].append(queue)
            elif self._in_flight.get(leader.id, 0) < self._max_in_flight:
                connection = self._cluster.ready(leader.id)
                if connection is None:  # not connected, or throttled
                    self._connect(leader.id)
                else:
                    ready[leader.id] = connection, [queue]
        return ready, next_at

    def _is_pressing(self, queue: PartitionQueue) -> bool:
        """Whether the first batch is not to linger any longer."""
        return self._flushes > 0 or self.batches.has_waiting or self.batches.is_full(queue)

    def _first_alive(self, queue: PartitionQueue, now: float) -> PendingBatch | None:
        """The first batch of a partition; those before it whose time is over have failed."""
        while queue.waiting:
            batch = queue.waiting[0]
            if now - batch.created_at < self._delivery_timeout:
                return batch
            self._fail(self.batches.take(queue), self._timed_out(batch))
        return None

    def _timed_out(self, batch: PendingBatch) -> KafkaError:
        leader = self._cluster.metadata.leader(*batch.place)
        why = "no leader is known" if leader is None else f"the leader is {leader.address}"
        if batch.is_in_flight:
            why += ", and the last request has no answer yet"
        return DeliveryTimeoutError(
            f"{batch.count} records to {batch.topic}-{batch.partition} were not delivered within "
            f"{self._delivery_timeout:g} s (delivery.timeout.ms); {why}.",
            tried=f"{batch.attempts} requests",
        )

    def _connect(self, node: int) -> None:
        if node not in self._connecting:
            self._connecting.add(node)
            self._start(self._make_connection(node))

    async def _make_connection(self, node: int) -> None:
        try:
            await self._cluster.connection(node)
        except KafkaError:
            await asyncio.sleep(self._backoff.seconds(1))  # the cluster has asked for new metadata
        finally:
            self._connecting.discard(node)
            self.wake()

    def _start(self, coroutine: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # Sending

    def _send_to(self, node: int, connection: Connection, queues: Iterable[PartitionQueue]) -> None:
        """One request to a broker, with a batch of each partition as far as it may grow."""
        size = 0
        batches: list[PendingBatch] = []
        encoded: list[bytearray] = []
        for queue in queues:
            if not queue.waiting or (batches and size + queue.waiting[0].size_bytes > self._max_request_bytes):
                continue
            batch = self.batches.take(queue)
            self._gate.prepare(batch)
            batch.attempts += 1
            try:
                encoded.append(batch.encoded(self._codec, self._level, transactional=self._is_transactional))
            except Exception as error:  # whoever waits for it hears of it, since nobody else would
                self._fail(batch, error_for(ErrorCode.INVALID_RECORD, f"{batch} cannot be encoded: {error!r}"))
                continue
            batch.is_in_flight = True
            self._deadlines.sent(batch)
            size += batch.size_bytes
            batches.append(batch)
        if not batches:
            return  # what was waiting has failed meanwhile, with something before it
        self._in_flight[node] = self._in_flight.get(node, 0) + 1
        answered = partial(self._answered, node, batches)
        try:
            self._send(connection, batches, encoded, answered)
        except KafkaError as error:  # the broker is too old
            PromptAnswer(self._loop, answered).set_exception(error)

    def _send(
        self,
        connection: Connection,
        batches: list[PendingBatch],
        encoded: list[bytearray],
        answered: Callable[[Any], None],
    ) -> None:
        """Without acks it is in flight until the kernel has it: memory is bounded, and a flush means something."""
        topics = self._cluster.metadata.topics
        request = produce_request(
            self._gate.transactional_id, self._acks, self._request_timeout_ms, batches, encoded, topics
        )
        limit = version_limit(batches, topics, self._gate.max_version)
        if self._acks == _NO_ACKS:
            connection.send_without_reply(request, max_version=limit).add_done_callback(answered)
            return
        # Who lingers wants few and large system calls.
        answer = PromptAnswer(self._loop, answered)
        connection.send_for(answer, request, max_version=limit, is_urgent=not self._linger)

    # Answers

    def _answered(
        self, node: int, batches: list[PendingBatch], answer: "asyncio.Future[ProduceResponse | None] | PromptAnswer"
    ) -> None:
        """Without acks there is no response, and all that is known is that it was sent."""
        self._in_flight[node] -= 1
        batches = [batch for batch in batches if not batch.is_settled]  # the answer is too late for the others
        for batch in batches:
            batch.is_in_flight = False
        error = answer.exception()
        if isinstance(error, KafkaError):
            for batch in batches:
                self._refused(batch, error)
        elif error is not None:
            raise error  # a bug, for the loop's exception handler
        elif (response := answer.result()) is not None:
            self._take_answers(batches, response)
        else:
            for batch in batches:
                self._succeed(batch, -1, NO_TIME)
        if not self.is_idle:
            self.wake()

    def _take_answers(self, batches: list[PendingBatch], response: ProduceResponse) -> None:
        rows = rows_by_place(response, self._cluster.metadata.names_by_id)
        nodes = [Node(*endpoint[:4]) for endpoint in response.node_endpoints]
        for batch in batches:
            row = rows.get(batch.place)
            if row is None:
                self._refused(batch, error_for(ErrorCode.UNKNOWN_TOPIC_ID, f"The broker's answer lacks {batch}."))
            elif row.error_code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
                self._succeed(batch, row.base_offset, row.log_append_time_ms)
            else:
                self._learn_leader(batch, row, nodes)
                self._refused(batch, error_for(row.error_code, reason(batch, row)))

    def _learn_leader(self, batch: PendingBatch, row: PartitionProduceResponse, nodes: list[Node]) -> None:
        leader = row.current_leader
        if leader.leader_id >= 0:
            self._cluster.learn_leader(
                *batch.place, leader=leader.leader_id, leader_epoch=leader.leader_epoch, nodes=nodes
            )

    def _refused(self, batch: PendingBatch, error: KafkaError) -> None:
        if error.code in _STALE:
            self._cluster.stale(batch.topic)
        is_too_large = error.code is ErrorCode.MESSAGE_TOO_LARGE and not self._is_closed
        if is_too_large and self._split(batch):
            return
        fate = self._gate.failure(batch, error)
        now = time.monotonic()
        if self._is_closed:
            self._fail(batch, error)
        elif fate.retry and batch.attempts <= self._retries and now - batch.created_at < self._delivery_timeout:
            batch.retry_at = now + self._backoff.seconds(batch.attempts)
            self.batches.put_back(batch)
        else:
            fate.error.tried = fate.error.tried or f"{batch.attempts} requests in {now - batch.created_at:.1f} s"
            self._fail(batch, fate.error)

    def _split(self, batch: PendingBatch) -> bool:
        """A broker takes smaller batches than this producer makes: halves may fit."""
        parts = batch.split()
        if parts is None:
            return False
        self.batches.put_parts(parts)
        batch.when_settled(self.batches.settled)
        self._gate.split(batch, parts)
        return True

    # The end of a batch

    def _succeed(self, batch: PendingBatch, base_offset: int, append_time_ms: int) -> None:
        self._gate.settled(batch, None)
        self.batches.settled(batch)
        batch.succeed(base_offset, append_time_ms)

    def _fail(self, batch: PendingBatch, error: KafkaError) -> None:
        self._gate.settled(batch, error)
        self.batches.settled(batch)
        batch.fail(error)

    def _out_of_time(self, batch: PendingBatch) -> None:
        """While it is in flight. Whether it is stored is not known, and its answer will not be looked at."""
        error = self._timed_out(batch)
        batch.is_in_flight = False
        self._fail(batch, error)
        self.wake()

    def fail_unsent(self, error: KafkaError) -> None:
        """What was not sent yet, or waits to be sent again, fails."""
        for batch in self.batches.take_all():
            self._fail(batch, error)

    @property
    def is_idle(self) -> bool:
        return self.batches.is_settled

    async def flush(self) -> None:
        """Send everything now, and wait until its fate is known.

        What others send meanwhile is not waited for: a flush would else never end while they do.
        """
        left = set(self.batches.unsettled())
        if not left:
            return
        all_settled: asyncio.Future[None] = self._loop.create_future()

        def settled(batch: PendingBatch) -> None:
            left.discard(batch)
            if not left and not all_settled.done():
                all_settled.set_result(None)

        for batch in list(left):
            batch.when_settled(settled)
        self._flushes += 1
        try:
            self._look()  # now: to be woken takes a turn of the loop
            await all_settled
        finally:
            self._flushes -= 1

    async def close(self, error: KafkaError) -> None:
        """Now. What was not sent fails with `error`; what is in flight fails when its connection is closed."""
        self._is_closed = True
        self._timer.stop()
        self._deadlines.close()
        self.fail_unsent(error)
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
