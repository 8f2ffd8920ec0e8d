"""Producer ids for idempotent producers: taken from blocks that the controller gives out, a thousand at a time.

An id is given once, ever: a block belongs to this broker before its first id goes out, and what is left of it when the
broker stops is lost. While a block is on its way, those who ask wait for it.
"""

from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING

from headrace.cluster.decision import Decision
from headrace.cluster.image import Image
from headrace.cluster.producer_ids import allocate_producer_ids
from headrace.log.errors import StorageError
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from headrace.server.later import Later

if TYPE_CHECKING:
    from headrace.server.controller import Controller


class ProducerIds:
    __slots__ = ("_controller", "_free", "_is_asking", "_node_id", "_waiting")

    def __init__(self, controller: "Controller", node_id: int) -> None:
        self._controller = controller
        self._node_id = node_id
        self._free: Iterator[int] = iter(())
        self._waiting: deque[Later[int | None]] = deque()  # bounded by the requests in flight
        self._is_asking = False

    def take(self) -> Later[int | None]:
        """A new id; None if the controller gives none now, and the producer should try again."""
        later: Later[int | None] = Later()
        producer_id = next(self._free, None)
        if producer_id is not None:
            later.resolve(producer_id)
            return later
        self._waiting.append(later)
        if not self._is_asking:
            self._ask()
        return later

    def _ask(self) -> None:
        self._is_asking = True
        try:
            block = self._controller.submit(self._decide)
        except StorageError:
            self._got(AllocateProducerIdsResponse(error_code=ErrorCode.KAFKA_STORAGE_ERROR))
        else:
            block.then(self._got)

    def _decide(self, image: Image) -> Decision[AllocateProducerIdsResponse]:
        broker = image.brokers.get(self._node_id)
        broker_epoch = -1 if broker is None else broker.epoch
        return allocate_producer_ids(image, AllocateProducerIdsRequest(self._node_id, broker_epoch))

    def _got(self, block: AllocateProducerIdsResponse) -> None:
        self._is_asking = False
        start = block.producer_id_start
        self._free = iter(range(start, start + block.producer_id_len))
        waiting, self._waiting = self._waiting, deque()
        while waiting:
            producer_id = None if block.error_code != ErrorCode.NONE else next(self._free, None)
            if producer_id is None and block.error_code == ErrorCode.NONE:
                self._waiting.extend(waiting)  # more of them than the block has ids
                self._ask()
                return
            later = waiting.popleft()
            if not later.is_settled:
                later.resolve(producer_id)
