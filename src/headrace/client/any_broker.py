"""Any broker will do: the one with least to do, then the others, then the bootstrap addresses.

When none of the known brokers answers, the client begins again at the bootstrap addresses (KIP-899), unless
metadata.recovery.strategy is `none`.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

from headrace.client.chance import random
from headrace.client.config import Settings
from headrace.client.connecting import canonical_addresses
from headrace.client.errors import ConnectionLostError, KafkaError, NoBrokersError, RequestTimedOutError
from headrace.client.metadata import Node
from headrace.client.pool import ConnectionPool


class AnyBroker:
    """`brokers` tells those that are known."""

    def __init__(self, settings: Settings, pool: ConnectionPool, brokers: Callable[[], Mapping[int, Node]]) -> None:
        self._settings = settings
        self._pool = pool
        self._brokers = brokers
        self._loop = asyncio.get_running_loop()
        self._bootstrap = [Node(-1 - index, *server) for index, server in enumerate(settings.servers)]
        self._is_bootstrap_canonical = settings.text("client.dns.lookup") == "use_all_dns_ips"
        self.may_rebootstrap = settings.text("metadata.recovery.strategy") == "rebootstrap"

    async def ask(
        self, request: Any, *, min_version: int = 0, max_version: int | None = None, timeout: float | None = None
    ) -> Any:
        """The response of the first one that answers.

        Only for requests without an effect: one whose answer is lost goes to the next broker. Raises NoBrokersError,
        or the error of the only one that could be asked.
        """
        started = self._loop.time()
        failures: list[KafkaError] = []
        async for node in self._candidates():
            try:
                connection = await self._pool.reach(node)
                return await connection.send(request, min_version=min_version, max_version=max_version, timeout=timeout)
            except (ConnectionLostError, RequestTimedOutError) as error:
                failures.append(error)
        raise _no_brokers(failures, self._loop.time() - started)

    async def find(self) -> Node:
        """One that can be reached. Raises like `ask`."""
        started = self._loop.time()
        failures: list[KafkaError] = []
        async for node in self._candidates():
            try:
                await self._pool.reach(node)
            except (ConnectionLostError, RequestTimedOutError) as error:
                failures.append(error)
            else:
                return node
        raise _no_brokers(failures, self._loop.time() - started)

    async def _candidates(self) -> AsyncIterator[Node]:
        """Brokers in the order in which to try them; no address comes twice."""
        known = sorted(self._brokers().values(), key=self._load)
        for node in known:
            yield node
        if not self._brokers() or self.may_rebootstrap:
            if not self._is_bootstrap_canonical:
                addresses = await canonical_addresses(self._settings.servers)
                self._bootstrap = [Node(-1 - index, *address) for index, address in enumerate(addresses)]
                self._is_bootstrap_canonical = True
            tried = {node.address for node in known}
            for node in sorted(self._bootstrap, key=self._load):
                if node.address not in tried:
                    yield node

    def _load(self, node: Node) -> tuple[float, int, float]:
        """Open connections first, the least busy before the others; then brokers whose pause ends first."""
        connection = self._pool.ready(node)
        if connection is not None:
            return -1.0, connection.in_flight, random()
        return self._pool.pause_left(node), 0, random()


def _no_brokers(failures: list[KafkaError], seconds: float) -> KafkaError:
    """All of them failed: the one error if there was one, else all of them in one."""
    if len(failures) == 1:
        return failures[0]
    told = dict.fromkeys(f"{each.message.rstrip('.')}{f' ({each.tried})' if each.tried else ''}" for each in failures)
    return NoBrokersError(f"None of {len(failures)} brokers answers.", tried=f"{'; '.join(told)}; {seconds:.1f} s")
