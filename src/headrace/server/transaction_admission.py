"""May this batch be written in a transaction? Asked of the coordinator, before the first batch of each partition.

A batch that belongs to no ongoing transaction would never be committed nor aborted, and hold up every reader of
committed data. So a partition's first batch is verified with the coordinator (KIP-890). Clients that speak transaction
version 2 leave even the adding to the broker: their first batch adds the partition. As long as the log knows the
transaction, nobody is asked again.
"""

from typing import TYPE_CHECKING, Final

from headrace.coordinator.result import Producer
from headrace.protocol.error_codes import ErrorCode
from headrace.server.later import Later

if TYPE_CHECKING:
    from headrace.coordinator.transactions import TransactionShard
    from headrace.server.clock import Clock
    from headrace.server.coordinator_runtime import CoordinatorRuntime

_TRANSACTION_VERSION: Final = 2
# What passes by itself: older clients know this one as a reason to try again, and the others as the end.
_TRY_AGAIN: Final = ErrorCode.NOT_ENOUGH_REPLICAS
_PASSING: Final = frozenset(
    {
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)

Verdicts = dict[tuple[str, int], ErrorCode]


class TransactionAdmission:
    __slots__ = ("_clock", "_transactions")

    def __init__(self, transactions: "CoordinatorRuntime[TransactionShard]", clock: "Clock") -> None:
        self._transactions = transactions
        self._clock = clock

    def add(self, transactional_id: str, producer: Producer, partitions: frozenset[tuple[str, int]]) -> Later[Verdicts]:
        """Make them part of the producer's transaction."""
        added: Later[ErrorCode] = self._transactions.submit(
            transactional_id,
            lambda shard, ticket: shard.add_partitions(
                transactional_id,
                producer,
                partitions,
                ticket=ticket,
                client_version=_TRANSACTION_VERSION,
                now_ms=self._clock.now_ms(),
            ),
            _same,
            is_light=True,
        )
        return added.map(lambda code: dict.fromkeys(partitions, _told(code)))

    def verify(
        self, transactional_id: str, producer: Producer, partitions: frozenset[tuple[str, int]]
    ) -> Later[Verdicts]:
        """Are they part of it?"""
        verified: Later[Verdicts] = self._transactions.look(
            transactional_id,
            lambda shard: shard.verify_partitions(transactional_id, producer, partitions),
            lambda code: dict.fromkeys(partitions, code),
        )
        return verified.map(lambda verdicts: {place: _told(code) for place, code in verdicts.items()})


def _same(code: ErrorCode) -> ErrorCode:
    return code


def _told(code: ErrorCode) -> ErrorCode:
    return _TRY_AGAIN if code in _PASSING else code
