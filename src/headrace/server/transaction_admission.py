"""May this batch be written in a transaction? Asked of the coordinator, before the first batch of each partition.

A batch that belongs to no ongoing transaction would never be committed nor aborted, and hold up every reader of
committed data. So a partition's first batch is verified with the coordinator (KIP-890). Clients that speak transaction
version 2 leave even the adding to the broker: their first batch adds the partition. As long as the log knows the
transaction, nobody is asked again.

transaction.partition.verification.enable=false spares older clients the question, and the log its safety.
"""

from enum import Enum
from typing import TYPE_CHECKING, Final, TypeAlias

from headrace.coordinator.result import Producer
from headrace.protocol.error_codes import ErrorCode
from headrace.server.later import Later, as_later
from headrace.server.partition import Partition

if TYPE_CHECKING:
    from headrace.coordinator.transactions import TransactionShard
    from headrace.server.clock import Clock
    from headrace.server.coordinator_runtime import CoordinatorRuntime
    from headrace.server.partitions import Partitions

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


class Asking(Enum):
    """What a client expects of the broker that gets its first write, by how new it is."""

    VERIFY_FOR_OLD = 0  # it added the partition; it does not know TRANSACTION_ABORTABLE yet
    VERIFY = 1
    ADD = 2


Places: TypeAlias = frozenset[tuple[str, int]]
Verdicts: TypeAlias = dict[tuple[str, int], ErrorCode]


class TransactionAdmission:
    """Knows by the logs of the partitions which transactions were admitted before."""

    __slots__ = ("_clock", "_partitions", "_transactions", "verifies")

    def __init__(
        self, transactions: "CoordinatorRuntime[TransactionShard]", partitions: "Partitions", clock: "Clock"
    ) -> None:
        self._transactions = transactions
        self._partitions = partitions
        self._clock = clock
        self.verifies = True  # transaction.partition.verification.enable, as it holds now

    def is_admitted(self, place: tuple[str, int], producer: Producer) -> bool:
        """Is a transaction of this producer open in the partition?"""
        partition = self._partitions.leader(*place)
        return isinstance(partition, Partition) and partition.log.producers.has_open_transaction(*producer)

    def admit(
        self, transactional_id: str, producer: Producer, places: Places, *, asking: Asking
    ) -> Verdicts | Later[Verdicts]:
        """What to tell the client about each place that is not admitted yet; NONE: write."""
        new = frozenset([place for place in places if not self.is_admitted(place, producer)])
        if not new or (asking is not Asking.ADD and not self.verifies):
            return {}
        if asking is Asking.ADD:
            added = self.add(transactional_id, producer, new, client_version=_TRANSACTION_VERSION)
            if isinstance(added, Later):
                return added.map(lambda code: dict.fromkeys(new, _told(code)))
            return dict.fromkeys(new, _told(added))
        verified = self.verify(transactional_id, producer, new)
        is_old = asking is Asking.VERIFY_FOR_OLD
        return verified.map(lambda verdicts: {place: _told(code, is_old=is_old) for place, code in verdicts.items()})

    def admit_one(
        self, transactional_id: str, producer: Producer, place: tuple[str, int], *, asking: Asking
    ) -> Later[ErrorCode]:
        admitted = self.admit(transactional_id, producer, frozenset({place}), asking=asking)
        return as_later(admitted).map(lambda verdicts: verdicts.get(place, ErrorCode.NONE))

    def add(
        self, transactional_id: str, producer: Producer, places: Places, *, client_version: int
    ) -> ErrorCode | Later[ErrorCode]:
        """Make them part of the producer's transaction; the code holds for all of them."""
        return self._transactions.submit(
            transactional_id,
            lambda shard, ticket: shard.add_partitions(
                transactional_id,
                producer,
                places,
                ticket=ticket,
                client_version=client_version,
                now_ms=self._clock.now_ms(),
            ),
            _same,
            is_light=True,
        )

    def verify(self, transactional_id: str, producer: Producer, places: Places) -> Later[Verdicts]:
        """Are they part of it?"""
        return self._transactions.look(
            transactional_id,
            lambda shard: shard.verify_partitions(transactional_id, producer, places),
            lambda code: dict.fromkeys(places, code),
        )


def _same(code: ErrorCode) -> ErrorCode:
    return code


def _told(code: ErrorCode, *, is_old: bool = False) -> ErrorCode:
    """As those who write are used to hear it."""
    if code is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if code is ErrorCode.TRANSACTION_ABORTABLE and is_old:
        return ErrorCode.INVALID_TXN_STATE
    return _TRY_AGAIN if code in _PASSING else code
