"""Fetching: records of all partitions that can be read, from the brokers that have them, ahead of the user.

Theory. There is a lane for each broker: a connection of its own, since a fetch may wait there, a fetch session, and one
request at a time. Whenever something changes, `wake` looks at all lanes that are idle. A lane fetches all of its
partitions that are ready; while one of them has max.partition.fetch.bytes that the user has not taken, the lane rests:
it would else wait at the broker for the others while the full one runs dry. So about one fetch of each partition is
ready for the user while the next one is on its way, and all together are bounded by fetch.max.bytes and one answer of
each broker. When little has come and somebody waits for it, the next fetch is sent when that one waits again, or soon:
Python runs one thread at a time, and whoever waits for a record would wait for that request, too.

An answer is opened here (CRCs, decompression) and put into the inbox; records are made of it by the user's thread. What
was asked for before a jump is dropped: the era of the partition tells.

A partition that becomes readable while its lane waits at the broker would wait, too, up to fetch.max.wait.ms. So it is
fetched on a side lane, another connection without session and without waiting, as long as that brings something.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Final

from headrace.client.backoff import retry_backoff
from headrace.client.cluster import Cluster
from headrace.client.connection import Connection
from headrace.client.consumer_errors import CorruptRecordError
from headrace.client.consumer_inbox import Fetched, Inbox
from headrace.client.errors import ClosedError, KafkaError, code_of, error_for
from headrace.client.fetch_decode import open_batches
from headrace.client.fetch_lane import MAIN, SIDE, Asked, Lane, asking
from headrace.client.fetch_leaders import MOVED
from headrace.client.fetch_session import FINAL, NO_SESSION, FetchSession, SessionRequest, Wanted
from headrace.client.metadata import Node
from headrace.client.prompt_answer import PromptAnswer
from headrace.client.subscriptions import PartitionState, Place, Subscriptions
from headrace.client.topic_partition import TopicPartition
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.errors import CorruptBatchError, EncodeError
from headrace.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, PartitionData
from headrace.protocol.primitives import new

_BY_NAME: Final = 12  # the last version in which topics go by name
_CLOSE_SECONDS: Final = 1.0  # what the end of a session may take
_LITTLE_BYTES: Final = 4096  # of records that somebody waits for
_TAKEN_SECONDS: Final = 0.001  # by then it is taken, and who took it waits again, or fetching goes on without that


class Fetcher:
    """On the client's loop."""

    def __init__(
        self,
        cluster: Cluster,
        subscriptions: Subscriptions,
        inbox: Inbox,
        *,
        on_out_of_range: Callable[[PartitionState], None],
        on_new_leader: Callable[[], None],
    ) -> None:
        """`on_new_leader` is called when a partition must be checked before it is fetched from a new leader."""
        settings = cluster.settings
        self._cluster = cluster
        self._subscriptions = subscriptions
        self._inbox = inbox
        self._on_out_of_range = on_out_of_range
        self._on_new_leader = on_new_leader
        self._loop = asyncio.get_running_loop()
        self._backoff = retry_backoff(settings)
        self._max_wait_ms = settings.number("fetch.max.wait.ms")
        self._timeout = settings.seconds("request.timeout.ms") + self._max_wait_ms / 1000
        self._min_bytes = settings.number("fetch.min.bytes")
        self._max_bytes = settings.number("fetch.max.bytes")
        self._partition_bytes = settings.number("max.partition.fetch.bytes")
        self._enough = max(1, self._partition_bytes)
        self._enough_of_all = max(1, self._max_bytes)
        self._is_committed = settings.text("isolation.level") == "read_committed"
        self._checks_crc = settings.flag("check.crcs")
        self._rack = settings.text("client.rack")
        self._preferred_seconds = settings.seconds("metadata.max.age.ms")
        self._lanes: dict[tuple[int, str], Lane] = {}
        self._connecting: set[asyncio.Task[None]] = set()
        self._is_due = False
        self._timer: asyncio.TimerHandle | None = None
        self._is_closed = False

    def wake(self) -> None:
        """Something has changed: look soon whether there is something to fetch."""
        if not self._is_due and not self._is_closed:
            self._is_due = True
            self._loop.call_soon(self._look)

    # What to fetch

    def _look(self) -> None:
        self._is_due = False
        if self._is_closed:
            return
        for node_id, states in self._by_node().items():
            lane = self._lane(node_id, MAIN)
            if not lane.is_busy:
                self._start(lane, states)
            elif left_out := [state for state in states if not lane.has_asked(state)]:
                self._start_side(self._lane(node_id, SIDE), left_out)

    def _start_side(self, lane: Lane, left_out: list[PartitionState]) -> None:
        worth = [state for state in left_out if asking(state) not in lane.tried]
        if worth and not lane.is_busy:
            self._start(lane, worth)

    def _by_node(self) -> dict[int, list[PartitionState]]:
        """Partitions that can be fetched now, by the broker to ask; a timer is set for those that pause."""
        now = self._loop.time()
        metadata = self._cluster.metadata
        by_node: dict[int, list[PartitionState]] = {}
        pauses: list[float] = []
        for partition, state in self._subscriptions.partitions.items():
            if not state.can_be_fetched(now):
                if state.not_before > now:
                    pauses.append(state.not_before)
                continue
            known = metadata.partition(*partition)
            if known is None or known.leader not in metadata.brokers:
                self._cluster.stale(partition.topic)
                continue
            state.check_against(known.leader_epoch)
            if not state.can_be_fetched(now):
                self._on_new_leader()
                continue
            node_id = known.leader
            if state.preferred_replica >= 0:
                if state.preferred_until > now and state.preferred_replica in metadata.brokers:
                    node_id = state.preferred_replica
                else:
                    state.preferred_replica = -1
            by_node.setdefault(node_id, []).append(state)
        self._set_timer(pauses)
        return by_node

    def _set_timer(self, pauses: list[float]) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if pauses:
            self._timer = self._loop.call_at(min(pauses), self.wake)

    def _lane(self, node_id: int, purpose: str) -> Lane:
        lane = self._lanes.get((node_id, purpose))
        if lane is None:
            lane = self._lanes[node_id, purpose] = Lane(node_id, purpose)
        return lane

    # Asking

    def _start(self, lane: Lane, states: list[PartitionState]) -> None:
        if self._inbox.is_full(states, partition_bytes=self._enough, all_bytes=self._enough_of_all):
            return
        connection = self._cluster.ready(lane.node_id, lane.purpose)
        if connection is not None:
            self._send(lane, connection, states)
            return
        lane.is_busy = True
        task = self._loop.create_task(self._connect(lane))
        self._connecting.add(task)
        task.add_done_callback(self._connecting.discard)

    async def _connect(self, lane: Lane) -> None:
        """Until the connection is there and not throttled; the next look uses it. A failure asks for metadata."""
        try:
            await self._cluster.connection(lane.node_id, lane.purpose)
        except KafkaError as error:
            if not error.retriable:
                self._inbox.fail(error)
            _prefer_leader(self._subscriptions.partitions.values(), lane.node_id)
            await asyncio.sleep(self._backoff.seconds(1))
        finally:
            lane.is_busy = False
            self.wake()

    def _send(self, lane: Lane, connection: Connection, states: Iterable[PartitionState]) -> None:
        metadata = self._cluster.metadata
        wanted: dict[TopicPartition, Wanted] = {}
        asked: dict[TopicPartition, Asked] = {}
        for state in states:
            partition = state.partition
            row = FetchPartition(
                partition.partition,
                state.leader_epoch,
                state.fetch_offset,
                partition_max_bytes=self._partition_bytes,
            )
            wanted[partition] = Wanted(metadata.topics[partition.topic].id, row)
            asked[partition] = asking(state)
        is_side = lane.purpose == SIDE
        if is_side:
            lane.session = FetchSession()
        part = lane.session.request(wanted)
        if is_side:
            part = part._replace(epoch=FINAL)  # without a session
        request = self._request(part, max_wait_ms=0 if is_side else self._max_wait_ms)
        lane.is_busy = True
        lane.asked = asked
        max_version = None if part.has_ids else _BY_NAME
        answer = PromptAnswer(self._loop, partial(self._answered, lane))
        try:
            connection.send_for(answer, request, max_version=max_version, timeout=self._timeout, is_urgent=True)
        except (KafkaError, EncodeError) as error:  # the broker is too old, or an offset too high
            answer.set_exception(error)

    def _request(self, part: SessionRequest, *, max_wait_ms: int) -> FetchRequest:
        return FetchRequest(
            max_wait_ms=max_wait_ms,
            min_bytes=self._min_bytes,
            max_bytes=self._max_bytes,
            isolation_level=int(self._is_committed),
            session_id=part.session_id,
            session_epoch=part.epoch,
            topics=part.topics,
            forgotten_topics_data=part.forgotten,
            rack_id=self._rack,
        )

    # Answers

    def _answered(self, lane: Lane, answer: PromptAnswer) -> None:
        asked, lane.asked = lane.asked, {}
        lane.is_busy = False
        if self._is_closed:
            return
        was_waited_for = self._inbox.is_waited_for
        try:
            self._take(lane, asked, answer.result())
        except KafkaError as error:
            _prefer_leader((each.state for each in asked.values()), lane.node_id)
            self._lost(lane, asked, error)
        except Exception as error:  # a bug: whoever consumes hears of it, since nobody else would
            self._give_up(asked, error)
        if lane.purpose == MAIN:
            self._lane(lane.node_id, SIDE).tried.clear()
        else:
            lane.tried.update(each for each in asked.values() if each == asking(each.state))
        if was_waited_for and self._inbox.is_taken_soon(_LITTLE_BYTES):
            self._set_timer([self._loop.time() + _TAKEN_SECONDS])
        else:
            self._look()  # and not in the next turn: the broker could have waited for the next fetch by then

    def _lost(self, lane: Lane, asked: Mapping[TopicPartition, Asked], error: KafkaError) -> None:
        lane.session.lost()
        if isinstance(error, ClosedError):
            return
        if not error.retriable:
            self._give_up(asked, error)
        self._cluster.request_update()

    def _give_up(self, asked: Mapping[TopicPartition, Asked], error: Exception) -> None:
        """Let the user hear of it; what was asked for is asked for again after a pause."""
        self._inbox.fail(error)
        for about in asked.values():
            if about.era == about.state.era:
                self._pause(about.state)

    def _take(self, lane: Lane, asked: Mapping[TopicPartition, Asked], response: FetchResponse) -> None:
        names = lane.session.names
        if lane.purpose == MAIN:
            lane.session.answered(response.session_id, response.error_code)
        if response.error_code:
            return  # of the session: a full request follows
        nodes = [Node(*row[:4]) for row in response.node_endpoints] if response.node_endpoints else []
        for topic in response.responses:
            name = topic.topic or names.get(topic.topic_id)
            if name is None:
                continue
            for row in topic.partitions:
                about = asked.get(new(TopicPartition, (name, row.partition_index)))
                if about is not None and about.era == about.state.era:
                    self._take_partition(about, row, nodes, lane)

    def _take_partition(self, about: Asked, row: PartitionData, nodes: list[Node], lane: Lane) -> None:
        state = about.state
        if row.error_code:
            self._failed(about, row, nodes, lane)
            return
        state.failures = 0
        state.high_watermark = row.high_watermark
        state.last_stable_offset = row.last_stable_offset
        if row.log_start_offset >= 0:
            state.log_start_offset = row.log_start_offset
        if row.preferred_read_replica >= 0:
            state.preferred_replica = row.preferred_read_replica
            state.preferred_until = self._loop.time() + self._preferred_seconds
        if row.records and about.offset == state.fetch_offset:
            self._open(state, row)

    def _open(self, state: PartitionState, row: PartitionData) -> None:
        assert row.records is not None
        try:
            opened = open_batches(
                state.partition,
                row.records,
                position=state.fetch_offset,
                aborted=(row.aborted_transactions or ()) if self._is_committed else None,
                checks_crc=self._checks_crc,
            )
        except CorruptBatchError as error:
            self._inbox.fail(CorruptRecordError(state.partition, state.fetch_offset, str(error)), state)
            self._pause(state)
            return
        if opened.next_offset == state.fetch_offset:
            return  # not even one whole batch: a broker before 0.10.1 could do that
        state.fetch_offset = opened.next_offset
        if opened.leader_epoch >= 0:
            state.fetch_epoch = opened.leader_epoch
        place = Place(state.fetch_offset, state.fetch_epoch)
        self._inbox.put(Fetched(state, opened.batches, place, len(row.records)))

    def _failed(self, about: Asked, row: PartitionData, nodes: list[Node], lane: Lane) -> None:
        code = row.error_code
        state = about.state
        partition = state.partition
        if code == ErrorCode.OFFSET_OUT_OF_RANGE:
            if about.offset != state.fetch_offset:
                return  # the other lane has brought it before the log lost it: nothing is known of what comes next
            known = self._cluster.metadata.partition(*partition)
            if known is None or lane.node_id != known.leader:
                _prefer_leader([state], lane.node_id)  # a follower may lag behind, the leader decides
                return
            self._pause(state)
            if state.position is not None and state.position.offset == state.fetch_offset:
                self._on_out_of_range(state)
            return  # else what was fetched comes first
        state.preferred_replica = -1
        if code in MOVED:
            leader = row.current_leader
            if leader.leader_id < 0 or not self._cluster.learn_leader(
                *partition, leader=leader.leader_id, leader_epoch=leader.leader_epoch, nodes=nodes
            ):
                self._cluster.stale(partition.topic)
                self._pause(state)
            return
        error = error_for(code, f"{partition} cannot be read: {code_of(code).meaning}")
        if not error.retriable and code != ErrorCode.UNKNOWN_SERVER_ERROR:
            self._inbox.fail(error, state)
        self._pause(state)

    def _pause(self, state: PartitionState) -> None:
        state.failures += 1
        state.not_before = self._loop.time() + self._backoff.seconds(state.failures)

    # The end

    async def close(self) -> None:
        """Stop, and let brokers forget their sessions."""
        self._is_closed = True
        self._set_timer([])
        for task in self._connecting:
            task.cancel()
        if self._connecting:
            await asyncio.wait(self._connecting)
        ends: list[asyncio.Future[Any]] = []
        for lane in self._lanes.values():
            connection = self._cluster.ready(lane.node_id, lane.purpose)
            if connection is not None and lane.session.id != NO_SESSION and not lane.is_busy:
                part = SessionRequest(lane.session.id, FINAL, (), (), True)
                ends.append(connection.send(self._request(part, max_wait_ms=0)))
        if ends:
            await asyncio.wait(ends, timeout=_CLOSE_SECONDS)
            for end in ends:
                if not end.done():
                    end.cancel()
                elif not end.cancelled():
                    end.exception()


def _prefer_leader(states: Iterable[PartitionState], node_id: int) -> None:
    """A replica that was recommended does not answer: the leader may know a better one."""
    for state in states:
        if state.preferred_replica == node_id:
            state.preferred_replica = -1
