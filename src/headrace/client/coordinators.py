"""Which broker coordinates a group, a transactional id or a share partition: asked once, kept until it is wrong."""

import asyncio
from collections.abc import Awaitable, Callable
from enum import IntEnum
from typing import Any, Final

from headrace.client.backoff import Backoff
from headrace.client.errors import KafkaError, UnsupportedVersionError, raise_for
from headrace.client.metadata import Node
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse

# What a broker answers that does not coordinate what it was asked about: forget it, and look again.
COORDINATOR_MOVED: Final = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE})


class CoordinatorKind(IntEnum):
    """The numbers are those of FindCoordinator."""

    GROUP = 0
    TRANSACTION = 1
    SHARE = 2


class Coordinators:
    """`ask(request, min_version=, max_version=)` sends it to any broker and returns its response."""

    def __init__(self, ask: Callable[..., Awaitable[Any]], backoff: Backoff) -> None:
        self._ask = ask
        self._backoff = backoff
        self._known: dict[tuple[CoordinatorKind, str], Node] = {}

    def known(self, kind: CoordinatorKind, key: str) -> Node | None:
        return self._known.get((kind, key))

    def forget(self, kind: CoordinatorKind, key: str) -> None:
        self._known.pop((kind, key), None)

    def forget_node(self, node_id: int) -> None:
        """Whatever this broker coordinates: it is gone."""
        for place in [place for place, node in self._known.items() if node.id == node_id]:
            del self._known[place]

    async def find(self, kind: CoordinatorKind, key: str, *, timeout: float = 0.0) -> Node:
        """Looked up once, and again until `timeout` seconds passed if that helps.

        Raises KafkaError, often a retriable one: the coordinator may be moving, or loading its log.
        """
        if (node := self._known.get((kind, key))) is not None:
            return node
        loop = asyncio.get_running_loop()
        started = loop.time()
        attempts = 0
        while True:
            attempts += 1
            try:
                node = self._known[kind, key] = await self._find(kind, key)
                return node
            except KafkaError as error:
                pause = self._backoff.seconds(attempts)
                elapsed = loop.time() - started
                if not error.retriable or elapsed + pause >= timeout:
                    tried = f"{attempts} requests for the coordinator of {key!r} in {elapsed:.1f} s"
                    error.tried = error.tried or tried
                    raise
            await asyncio.sleep(pause)

    async def _find(self, kind: CoordinatorKind, key: str) -> Node:
        response: FindCoordinatorResponse
        try:
            response = await self._ask(FindCoordinatorRequest(key_type=kind, coordinator_keys=[key]), min_version=4)
        except UnsupportedVersionError:  # a broker before 3.0 takes one key at a time
            response = await self._ask(FindCoordinatorRequest(key=key, key_type=kind), max_version=3)
            raise_for(response.error_code, response.error_message)
            return Node(response.node_id, response.host, response.port)
        (row,) = response.coordinators
        raise_for(row.error_code, row.error_message)
        return Node(row.node_id, row.host, row.port)
