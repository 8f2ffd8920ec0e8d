"""What a producer promises about its batches: nothing, or that each is stored once and in order.

The third promise, transactions, is in transactions.py.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, Protocol

from headrace.client.accumulator import Place
from headrace.client.backoff import retry_backoff
from headrace.client.cluster import Cluster
from headrace.client.errors import KafkaError, error_for
from headrace.client.numbering import Identity, Numbering
from headrace.client.pending_batch import PendingBatch
from headrace.protocol.batch import NO_SEQUENCE
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

# The broker does not agree with the sequences.
MISNUMBERED: Final = frozenset(
    {
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    }
)
_NO_TRANSACTION_TIMEOUT: Final = 2_147_483_647


class Fate(NamedTuple):
    """Send it again, or fail with this error."""

    retry: bool
    error: KafkaError


class Gate(Protocol):
    """What a producer promises about its batches: nothing, idempotence, or transactions."""

    @property
    def transactional_id(self) -> str | None: ...

    def is_open(self) -> bool:
        """May anything be sent now? If not, `wake` is called when it may."""

    def admits(self, place: Place, /) -> bool:
        """May this partition be sent to now?"""

    def prepare(self, batch: PendingBatch) -> None:
        """It is sent for the first time."""

    def failure(self, batch: PendingBatch, error: KafkaError, /) -> Fate:
        """What to do after an error that the sender cannot judge."""

    def settled(self, batch: PendingBatch, error: KafkaError | None) -> None: ...

    def split(self, batch: PendingBatch, parts: Sequence[PendingBatch]) -> None:
        """It was too large, and is settled by its parts, which wait in its place."""

    @property
    def max_version(self) -> int | None:
        """Of Produce."""

    def wired(self, wake: Callable[[], None], fail_unsent: Callable[[KafkaError], None]) -> None:
        """The sender is there: `wake` when something may be sent that could not be before."""

    async def close(self) -> None: ...


class OpenGate:
    """Everything may be sent, and nothing is promised: a retry may be stored twice, or overtake."""

    transactional_id: Final = None
    max_version: Final = None

    def is_open(self) -> bool:
        return True

    def admits(self, _: Place) -> bool:
        return True

    def prepare(self, batch: PendingBatch) -> None: ...

    def failure(self, _: PendingBatch, error: KafkaError) -> Fate:
        return Fate(error.retriable, error)

    def settled(self, batch: PendingBatch, error: KafkaError | None) -> None: ...

    def split(self, batch: PendingBatch, parts: Sequence[PendingBatch]) -> None: ...

    def wired(self, wake: Callable[[], None], fail_unsent: Callable[[KafkaError], None]) -> None: ...

    async def close(self) -> None: ...


class IdempotentGate:
    """Batches are numbered, under an id that a broker gives."""

    transactional_id: Final = None
    max_version: Final = None

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._backoff = retry_backoff(cluster.settings)
        self._numbering = Numbering()
        self._asking: asyncio.Task[None] | None = None
        self._wake: Callable[[], None] = lambda: None

    def wired(self, wake: Callable[[], None], _: Callable[[KafkaError], None]) -> None:
        self._wake = wake

    def is_open(self) -> bool:
        if self._numbering.identity is not None:
            return True
        if self._asking is None:
            self._asking = asyncio.get_running_loop().create_task(self._ask_for_identity())
        return False

    async def _ask_for_identity(self) -> None:
        """Until a broker gives one; records wait meanwhile, as long as their delivery may take."""
        failures = 0
        while True:
            try:
                response: InitProducerIdResponse = await self._cluster.ask(
                    InitProducerIdRequest(None, _NO_TRANSACTION_TIMEOUT)
                )
                if not response.error_code:
                    break
                error = error_for(response.error_code)
            except KafkaError as failure:
                error = failure
            failures += 1
            if not error.retriable:
                self._cluster.request_update()
            await asyncio.sleep(self._backoff.seconds(failures))
        self._numbering.take(Identity(response.producer_id, response.producer_epoch))
        self._asking = None
        self._wake()

    def admits(self, place: Place) -> bool:
        return self._numbering.find(place)

    def prepare(self, batch: PendingBatch) -> None:
        self._numbering.number(batch)

    def failure(self, batch: PendingBatch, error: KafkaError) -> Fate:
        if error.code not in MISNUMBERED:
            return Fate(error.retriable, error)
        if self._numbering.is_oldest(batch):
            self._numbering.lose(batch.place)
        return Fate(True, error)  # with new numbers, or because one before it is missing

    def settled(self, batch: PendingBatch, error: KafkaError | None) -> None:
        was_numbered = batch.sequence != NO_SEQUENCE
        self._numbering.settled(batch, is_stored=error is None)
        if error is not None and was_numbered:
            self._numbering.give_up(batch.place)

    def split(self, batch: PendingBatch, parts: Sequence[PendingBatch]) -> None:
        self._numbering.split(batch, parts)

    async def close(self) -> None:
        if self._asking is not None:
            self._asking.cancel()
            await asyncio.wait([self._asking])
