"""Brokers of one partition whose logs part as a test wants it: what no cluster that behaves well does.

Each replica has a log of its own, pairs of leader epoch and value; the test says who leads, in which epoch, and which
replica the leader recommends to readers. Fetches, metadata and questions about offsets and epochs are answered by these
logs over real sockets.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

from headrace.protocol.apis import API_BY_NAME
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from headrace.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from headrace.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from headrace.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from tests.support.log_batches import a_batch
from tests.support.scripted_peer import Asked, ScriptedPeer, reply

TOPIC: Final = "orders"
TOPIC_ID: Final = bytes(range(16))
EARLIEST: Final = -2
_EMPTY_FETCH_SECONDS: Final = 0.02
_NAMES: Final = {api.key: name for name, api in API_BY_NAME.items()}

Log = list[tuple[int, bytes]]


class FetchSeen(NamedTuple):
    node: int
    offset: int
    leader_epoch: int


class ScriptedCluster:
    def __init__(self, *logs: Log) -> None:
        """Broker 0 leads, in epoch 0."""
        self.logs = list(logs)
        self.leader = 0
        self.epoch = 0
        self.preferred = -1  # what the leader recommends
        self.epoch_errors: list[ErrorCode] = []  # of the next questions about epochs
        self.follower_error = ErrorCode.NONE  # of fetches from the replica that is recommended
        self.fetches: list[FetchSeen] = []
        self.ready_fetches = 0  # answers with records, or a recommendation
        self.epochs_asked: list[int] = []
        self.may_answer_fetches = asyncio.Event()  # answers with something in them wait for it
        self.may_answer_epochs = asyncio.Event()
        # An answer waits for what it returns; an error code is the answer then.
        self.fetch_gate: Callable[[FetchSeen], Awaitable[ErrorCode | None]] | None = None
        self.may_answer_fetches.set()
        self.may_answer_epochs.set()
        self.peers = [ScriptedPeer(self._answerer(node)) for node in range(len(logs))]
        self._stack = AsyncExitStack()

    @property
    def bootstrap(self) -> str:
        return str(self.peers[0].address)

    def elect(self, node: int) -> None:
        """Another leader, in a new epoch."""
        self.leader = node
        self.epoch += 1

    async def __aenter__(self) -> Self:
        for peer in self.peers:
            await self._stack.enter_async_context(peer)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    def _answerer(self, node: int) -> Any:
        async def answer(asked: Asked, writer: asyncio.StreamWriter) -> None:
            name = _NAMES[asked.api_key]
            if name == "Fetch":
                response: Any = await self._fetch(node, asked.request)
            elif name == "Metadata":
                response = self._metadata()
            elif name == "ListOffsets":
                response = self._list_offsets(node, asked.request)
            else:
                assert name == "OffsetForLeaderEpoch", name
                response = self._epoch_end(node, asked.request)
                await self.may_answer_epochs.wait()
            with suppress(ConnectionError):
                writer.write(reply(asked, response))

        return answer

    def _metadata(self) -> MetadataResponse:
        nodes = list(range(len(self.peers)))
        row = MetadataResponsePartition(0, 0, self.leader, self.epoch, nodes, nodes, [])
        return MetadataResponse(
            brokers=[MetadataResponseBroker(node, *peer.address) for node, peer in enumerate(self.peers)],
            cluster_id="scripted",
            controller_id=0,
            topics=[MetadataResponseTopic(0, TOPIC, TOPIC_ID, partitions=[row])],
        )

    def _refusal(self, node: int, epoch: int) -> ErrorCode:
        """Why this one does not answer as the leader of this epoch."""
        if epoch >= 0 and epoch != self.epoch:
            return ErrorCode.FENCED_LEADER_EPOCH if epoch < self.epoch else ErrorCode.UNKNOWN_LEADER_EPOCH
        return ErrorCode.NONE if node == self.leader else ErrorCode.NOT_LEADER_OR_FOLLOWER

    def _list_offsets(self, node: int, request: Any) -> ListOffsetsResponse:
        (row,) = request.topics[0].partitions
        code = self._refusal(node, row.current_leader_epoch)
        offset = 0 if row.timestamp == EARLIEST else len(self.logs[node])
        return ListOffsetsResponse(
            topics=[ListOffsetsTopicResponse(TOPIC, [ListOffsetsPartitionResponse(0, code, -1, offset, -1)])]
        )

    def _epoch_end(self, node: int, request: Any) -> OffsetForLeaderEpochResponse:
        (row,) = request.topics[0].partitions
        self.epochs_asked.append(row.leader_epoch)
        if self.epoch_errors:
            found = EpochEndOffset(self.epoch_errors.pop(0), 0)
        elif code := self._refusal(node, row.current_leader_epoch):
            found = EpochEndOffset(code, 0)
        else:
            epochs = [epoch for epoch, _ in self.logs[node] if epoch <= row.leader_epoch]
            found = EpochEndOffset(0, 0, epochs[-1], len(epochs)) if epochs else EpochEndOffset(0, 0)
        return OffsetForLeaderEpochResponse(topics=[OffsetForLeaderTopicResult(TOPIC, [found])])

    async def _fetch(self, node: int, request: Any) -> FetchResponse:
        if not request.topics:
            return FetchResponse()
        (wanted,) = request.topics[0].partitions
        seen = FetchSeen(node, wanted.fetch_offset, wanted.current_leader_epoch)
        self.fetches.append(seen)
        row = self._row(node, wanted, has_rack=bool(request.rack_id))
        if not row.records and row.preferred_read_replica < 0:
            await asyncio.sleep(_EMPTY_FETCH_SECONDS)  # as a broker waits for more
        else:
            self.ready_fetches += 1
            await self.may_answer_fetches.wait()
        if self.fetch_gate is not None and (code := await self.fetch_gate(seen)) is not None:
            row = PartitionData(0, code)
        return FetchResponse(responses=[FetchableTopicResponse(TOPIC, TOPIC_ID, [row])])

    def _row(self, node: int, wanted: Any, *, has_rack: bool) -> PartitionData:
        log = self.logs[node]
        is_recommended = node == self.preferred and node != self.leader
        code = self.follower_error if is_recommended else self._refusal(node, wanted.current_leader_epoch)
        if code is ErrorCode.NONE and wanted.fetch_offset > len(log):
            code = ErrorCode.OFFSET_OUT_OF_RANGE
        if code:
            return PartitionData(0, code)
        if has_rack and self.preferred >= 0 and node == self.leader:
            return PartitionData(0, 0, len(log), len(log), 0, preferred_read_replica=self.preferred)
        batches = [
            bytes(a_batch(value, base_offset=offset, leader_epoch=epoch))
            for offset, (epoch, value) in enumerate(log)
            if offset >= wanted.fetch_offset
        ]
        return PartitionData(0, 0, len(log), len(log), 0, records=memoryview(b"".join(batches)))
