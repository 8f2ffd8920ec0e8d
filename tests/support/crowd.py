"""A thousand members of one group, each with a connection of its own.

They are as simple as the protocols allow: they know the wire, and no client. A classic leader gives each member every
n-th partition. Each goes on until it leaves or dies; what it owns, and since when, can be looked at.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from struct import Struct
from typing import Any, Final

from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from headrace.protocol.messages.find_coordinator import FindCoordinatorRequest
from headrace.protocol.messages.heartbeat import HeartbeatRequest
from headrace.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from headrace.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from headrace.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.support.wire_client import decode_response, encode_request

AGREE_SECONDS: Final = 200.0  # so long the machine may be busy; a broker that needs it is broken
_LOOK_EVERY_SECONDS: Final = 0.1
_SIZE: Final = Struct(">i")
_LEAVING: Final = -1


class Peer:
    """One connection, on which one request after the other is answered."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._correlation_id = 0
        self._last: asyncio.Task[Any] | None = None

    async def ask(self, api: str, version: int, request: Any) -> Any:
        """The answer. If nobody waits for it any more, it is read all the same, before the next request is sent."""
        self._last = asyncio.create_task(self._ask_behind(self._last, api, version, request))
        return await asyncio.shield(self._last)

    async def _ask_behind(self, earlier: asyncio.Task[Any] | None, api: str, version: int, request: Any) -> Any:
        if earlier is not None:
            await asyncio.wait([earlier])
        self._correlation_id += 1
        self._writer.write(encode_request(api, version, request, self._correlation_id))
        (size,) = _SIZE.unpack(await self._reader.readexactly(4))
        return decode_response(api, version, await self._reader.readexactly(size), self._correlation_id)

    def close(self) -> None:
        if self._last is not None:
            self._last.cancel()
        self._writer.transport.abort()


class Member(ABC):
    """`since` is its generation or epoch; None while it has nothing to work on."""

    def __init__(self, peer: Peer, group: str, topic: str, partitions: int) -> None:
        self.peer = peer
        self.group = group
        self.topic = topic
        self.partitions = partitions
        self.member_id = ""
        self.since: int | None = None
        self.owned: frozenset[int] = frozenset()
        self.heartbeats = 0
        self._task = asyncio.create_task(self._run())

    @abstractmethod
    async def _run(self) -> None: ...

    @abstractmethod
    async def _say_goodbye(self) -> None: ...

    async def leave(self) -> None:
        await self.stop()
        try:
            await self._say_goodbye()
        finally:
            self.peer.close()

    async def die(self) -> None:
        """Without a word."""
        await self.stop()
        self.peer.close()

    async def stop(self) -> None:
        """It stays connected, and is never heard of again."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    def check(self) -> None:
        """Raises what went wrong."""
        if self._task.done() and not self._task.cancelled():
            self._task.result()


class ClassicMember(Member):
    session_timeout_ms = 60_000
    heartbeat_seconds = 1.0

    async def _run(self) -> None:
        while True:
            joined = await self._join()
            rows = self._assign(joined.members) if joined.leader == self.member_id else []
            synced = await self.peer.ask(
                "SyncGroup",
                5,
                SyncGroupRequest(self.group, joined.generation_id, self.member_id, None, "crowd", "nth", rows),
            )
            if synced.error_code == ErrorCode.REBALANCE_IN_PROGRESS:
                continue
            assert synced.error_code == ErrorCode.NONE, ErrorCode(synced.error_code)
            self.owned = frozenset(map(int, bytes(synced.assignment).split()))
            self.since = joined.generation_id
            await self._stay(joined.generation_id)
            self.since = None

    async def _join(self) -> Any:
        while True:
            request = JoinGroupRequest(
                self.group,
                self.session_timeout_ms,
                60_000,
                self.member_id,
                None,
                "crowd",
                [JoinGroupRequestProtocol("nth", b"")],
            )
            joined = await self.peer.ask("JoinGroup", 9, request)
            self.member_id = joined.member_id
            if joined.error_code != ErrorCode.MEMBER_ID_REQUIRED:
                assert joined.error_code == ErrorCode.NONE, ErrorCode(joined.error_code)
                return joined

    def _assign(self, members: Sequence[Any]) -> list[SyncGroupRequestAssignment]:
        names = sorted(member.member_id for member in members)
        return [
            SyncGroupRequestAssignment(
                name, b" ".join(b"%d" % each for each in range(place, self.partitions, len(names)))
            )
            for place, name in enumerate(names)
        ]

    async def _stay(self, generation: int) -> None:
        while True:
            await asyncio.sleep(self.heartbeat_seconds)
            request = HeartbeatRequest(self.group, generation, self.member_id)
            code = (await self.peer.ask("Heartbeat", 4, request)).error_code
            self.heartbeats += 1
            if code == ErrorCode.REBALANCE_IN_PROGRESS:
                return
            assert code == ErrorCode.NONE, ErrorCode(code)

    async def _say_goodbye(self) -> None:
        await self.peer.ask("LeaveGroup", 5, LeaveGroupRequest(self.group, members=[MemberIdentity(self.member_id)]))


class ImpatientMember(ClassicMember):
    """The first to be missed."""

    session_timeout_ms = 6_000


class ConsumerMember(Member):
    async def _run(self) -> None:
        self.member_id = f"m{id(self)}"
        request = ConsumerGroupHeartbeatRequest(
            self.group,
            self.member_id,
            0,
            rebalance_timeout_ms=60_000,
            subscribed_topic_names=[self.topic],
            topic_partitions=[],
        )
        while True:
            said = await self.peer.ask("ConsumerGroupHeartbeat", 1, request)
            assert said.error_code == ErrorCode.NONE, said
            self.heartbeats += 1
            owned = None
            if said.assignment is not None:  # it gives up and takes over at once
                owned = said.assignment.topic_partitions
                self.owned = frozenset(index for row in owned for index in row.partitions)
            self.since = said.member_epoch
            request = ConsumerGroupHeartbeatRequest(
                self.group, self.member_id, said.member_epoch, topic_partitions=owned
            )
            if owned is None:
                await asyncio.sleep(said.heartbeat_interval_ms / 1000)

    async def _say_goodbye(self) -> None:
        await self.peer.ask(
            "ConsumerGroupHeartbeat", 1, ConsumerGroupHeartbeatRequest(self.group, self.member_id, _LEAVING)
        )


class Crowd:
    def __init__(self, address: tuple[str, int], topic: str, partitions: int) -> None:
        self._address = address
        self._topic = topic
        self._partitions = partitions
        self.members: list[Member] = []

    async def find_coordinator(self) -> None:
        """Whoever asks first makes the broker create its topic."""
        peer = Peer(*await asyncio.open_connection(*self._address))
        async with asyncio.timeout(AGREE_SECONDS):
            code = None
            while code != ErrorCode.NONE:
                found = await peer.ask("FindCoordinator", 4, FindCoordinatorRequest(coordinator_keys=["crowd"]))
                code = found.coordinators[0].error_code
        peer.close()

    async def join(self, kind: type[Member]) -> Member:
        peer = Peer(*await asyncio.open_connection(*self._address))
        member = kind(peer, "crowd", self._topic, self._partitions)
        self.members.append(member)
        return member

    def remove(self, member: Member) -> None:
        self.members.remove(member)

    def agrees(self) -> bool:
        """All are in one generation, and each partition has one owner."""
        owned = [index for member in self.members for index in member.owned]
        generations = {member.since for member in self.members}
        return len(generations) == 1 and None not in generations and sorted(owned) == list(range(self._partitions))

    async def until(self, condition: Callable[[], bool], what: str) -> None:
        async with asyncio.timeout(AGREE_SECONDS):
            while not condition():
                for member in self.members:
                    member.check()
                await asyncio.sleep(_LOOK_EVERY_SECONDS)
        assert condition(), what


@asynccontextmanager
async def crowd(address: tuple[str, int], topic: str, partitions: int) -> AsyncIterator[Crowd]:
    members = Crowd(address, topic, partitions)
    await members.find_coordinator()
    try:
        yield members
    finally:
        await asyncio.gather(*(member.die() for member in members.members))
