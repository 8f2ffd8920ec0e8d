"""What a transaction asks of its coordinators: again and again, as long as that helps and max.block.ms allows."""

import asyncio
from collections.abc import Callable
from typing import Any, Final

from headrace.client.backoff import retry_backoff
from headrace.client.cluster import Cluster
from headrace.client.coordinators import COORDINATOR_MOVED, CoordinatorKind
from headrace.client.errors import ConnectionLostError, KafkaError, RequestTimedOutError, error_for
from headrace.client.prompt_answer import PromptAnswer
from headrace.client.transaction_wire import FENCING, WAITING
from headrace.protocol.messages.end_txn import EndTxnRequest

_SILENCE: Final = (ConnectionLostError, RequestTimedOutError)


class TransactionRequests:
    """Of one transactional id."""

    def __init__(self, cluster: Cluster, transactional_id: str, max_block_seconds: float) -> None:
        self._cluster = cluster
        self._transactional_id = transactional_id
        self._max_block = max_block_seconds
        self._backoff = retry_backoff(cluster.settings)

    def ask_now(
        self, request: Any, answered: Callable[[PromptAnswer], object], *, max_version: int | None = None
    ) -> bool:
        """Ask the transaction's coordinator once, if it is known and connected; else nothing happens.

        `answered` gets what comes of it, without a turn of the loop in between.
        """
        connection = self._cluster.ready_coordinator(CoordinatorKind.TRANSACTION, self._transactional_id)
        if connection is None:
            return False
        answer = PromptAnswer(asyncio.get_running_loop(), answered)
        try:
            connection.send_for(answer, request, max_version=max_version, is_urgent=True)
        except KafkaError as error:  # the broker is too old
            answer.set_exception(error)
        return True

    async def ask(
        self,
        request: Any,
        *,
        kind: CoordinatorKind = CoordinatorKind.TRANSACTION,
        key: str | None = None,
        max_version: int | None = None,
        code: Callable[[Any], int] = lambda response: int(response.error_code),
        first: PromptAnswer | None = None,
    ) -> Any:
        """The coordinator's answer without an error. `first`: what came of a first attempt. Raises KafkaError."""
        loop = asyncio.get_running_loop()
        started = loop.time()
        key = self._transactional_id if key is None else key
        attempts = 0
        while True:
            attempts += 1
            try:
                if first is None:
                    response = await self._cluster.send_to_coordinator(kind, key, request, max_version=max_version)
                else:
                    answer, first = first, None
                    response = answer.result()
                error = error_for(code(response)) if code(response) else None
            except KafkaError as failure:
                error = failure
            if error is None:
                return response
            if error.code in FENCING:
                raise error
            if error.code in COORDINATOR_MOVED or isinstance(error, _SILENCE):
                self._cluster.forget_coordinator(kind, key)
            elapsed = loop.time() - started
            pause = self._backoff.seconds(min(attempts, 3))  # what waits for an end waits for milliseconds
            if not (error.code in WAITING or error.retriable) or elapsed + pause >= self._max_block:
                tried = f"{attempts} requests in {elapsed:.1f} s"
                if error.code in WAITING:
                    error = RequestTimedOutError(f"{type(request).__name__}: {error.message}", tried=tried)
                error.tried = error.tried or tried
                raise error
            await asyncio.sleep(pause)


class Ending:
    """The end of a transaction, on its way. Whoever waits for it may stop waiting, and it goes on.

    `request` is None if there is nothing that the coordinator must end; `is_renewed`: a new identity comes with it.
    """

    __slots__ = ("_error", "_is_known", "_waiting", "is_renewed", "request")

    def __init__(self, request: EndTxnRequest | None, *, is_renewed: bool) -> None:
        self.request = request
        self.is_renewed = is_renewed
        self._is_known = False
        self._error: BaseException | None = None
        self._waiting: list[asyncio.Future[None]] = []

    async def wait(self) -> None:
        """Raises why the transaction could not be ended."""
        if not self._is_known:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(waiter)
            await waiter
        if self._error is not None:
            raise self._error

    def settle(self, error: BaseException | None = None) -> None:
        self._is_known = True
        self._error = error
        for waiter in self._waiting:
            if not waiter.done():  # else whoever waited was interrupted
                waiter.set_result(None)
        self._waiting.clear()
