"""What becomes of a record that was sent: a promise that threads wait for and coroutines await.

A record shares the fate of its batch, so a `Delivery` is its batch and its place in it, and costs next to nothing. The
batch is settled once, on the thread of the client's loop; callbacks run there, too, and must not block.
"""

import asyncio
from collections.abc import Callable, Generator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from headrace.client.background import Signal
from headrace.client.errors import KafkaError

if TYPE_CHECKING:
    from headrace.client.pending_batch import PendingBatch

UNKNOWN_OFFSET: Final = -1


class RecordMetadata(NamedTuple):
    """Where a record stands. The offset is -1 with acks=0, where nobody tells."""

    topic: str
    partition: int
    offset: int
    timestamp: int


class Delivery:
    """The fate of one record. One is made for every record: without an `__init__` that takes half the time."""

    __slots__ = ("batch", "place")

    batch: "PendingBatch"
    place: int  # in the batch

    def done(self) -> bool:
        return self.batch.is_settled

    def result(self, timeout: float | None = None) -> RecordMetadata:
        """Wait until it is delivered. Raises KafkaError if it is not, TimeoutError after `timeout` seconds."""
        outcome = self._await_outcome(timeout)
        if isinstance(outcome, KafkaError):
            raise outcome.with_traceback(None)  # all records of the batch have this one: it would grow with each
        return outcome

    def exception(self, timeout: float | None = None) -> KafkaError | None:
        """Wait until its fate is known: why it was not delivered, or None."""
        outcome = self._await_outcome(timeout)
        return outcome if isinstance(outcome, KafkaError) else None

    def _await_outcome(self, timeout: float | None) -> RecordMetadata | KafkaError:
        if not self.batch.is_settled:
            arrived = Signal()
            self.batch.when_settled(lambda _: arrived.send())
            if not arrived.wait(timeout):
                raise TimeoutError(f"the record to {self.batch.topic} has no answer after {timeout} s")
        return self.batch.outcome_of(self.place)

    def add_callback(self, callback: Callable[[RecordMetadata | None, KafkaError | None], object]) -> None:
        """Call it with the metadata or the error: on the client's thread, or at once if it is known already."""
        self.batch.when_settled(lambda batch: batch.tell(self.place, callback))

    def __await__(self) -> Generator[Any, None, RecordMetadata]:
        if not self.batch.is_settled:
            loop = asyncio.get_running_loop()
            future: asyncio.Future[None] = loop.create_future()

            def arrived() -> None:
                if not future.done():
                    future.set_result(None)

            def tell(_: object) -> None:
                with suppress(RuntimeError):  # the loop was closed: nobody waits there any more
                    loop.call_soon_threadsafe(arrived)

            self.batch.when_settled(tell)
            yield from future
        return self.result(0)
