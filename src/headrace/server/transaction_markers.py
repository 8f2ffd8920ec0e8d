"""The markers that end a transaction, one in each partition that it wrote to, until all are there.

The coordinator has decided how the transaction ends before the first marker is written, so a marker that cannot be
written now is tried again, for ever. One that nobody needs any more counts as written: of a partition that was deleted,
and where a newer coordinator or producer has been.

Only the shard that ordered them goes on with its markers: one that takes its place finds the end in the log, and orders
them anew. If both did, the later one could end a transaction that the producer has begun since.
"""

from collections.abc import Callable
from functools import partial
from typing import Final

from headrace.coordinator.result import Marking, Producer
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.records import build_end_transaction_marker
from headrace.server.clock import Clock
from headrace.server.later import Later, as_later, gather
from headrace.server.log_errors import LOG_ERRORS, code_of
from headrace.server.partition import Partition
from headrace.server.partitions import Partitions

_OFFSETS_TOPIC: Final = "__consumer_offsets"
_RETRY_MS: Final = 500
_NEEDLESS: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.TRANSACTION_COORDINATOR_FENCED,
    }
)

# A marker was written to this partition of __consumer_offsets: pending offsets of the producer count, or never will.
OffsetsEnded = Callable[[int, Producer, bool], None]


class TransactionMarkers:
    """Writes markers to the partitions that this node leads."""

    __slots__ = ("_clock", "_offsets_ended", "_partitions")

    def __init__(self, partitions: Partitions, clock: Clock, offsets_ended: OffsetsEnded) -> None:
        self._partitions = partitions
        self._clock = clock
        self._offsets_ended = offsets_ended

    def write_all(
        self, marking: Marking, coordinator_epoch: int, is_wanted: Callable[[], bool] = lambda: True
    ) -> Later[None]:
        """Resolved when every marker is written and committed, or not needed any more.

        Never, if whoever ordered them does not want them any more.
        """
        done: Later[None] = Later()
        self._write_rest(marking, coordinator_epoch, sorted(marking.partitions), is_wanted, done)
        return done

    def _write_rest(
        self,
        marking: Marking,
        coordinator_epoch: int,
        places: list[tuple[str, int]],
        is_wanted: Callable[[], bool],
        done: Later[None],
    ) -> None:
        def finish(codes: list[ErrorCode]) -> None:
            rest = [place for place, code in zip(places, codes, strict=True) if code and code not in _NEEDLESS]
            if rest:
                again = partial(self._write_rest, marking, coordinator_epoch, rest, is_wanted, done)
                self._clock.call_later(_RETRY_MS, again)
            elif is_wanted():
                done.resolve(None)

        if not is_wanted():
            return
        outcomes = [self.write(topic, index, marking, coordinator_epoch) for topic, index in places]
        codes = [outcome for outcome in outcomes if not isinstance(outcome, Later)]
        if len(codes) == len(outcomes):  # as everywhere but where an append waits for the disk
            finish(codes)
        else:
            gather([as_later(outcome) for outcome in outcomes]).then(finish)

    def write(self, topic: str, index: int, marking: Marking, coordinator_epoch: int) -> ErrorCode | Later[ErrorCode]:
        """One marker; the code when it is committed."""
        partition = self._partitions.leader(topic, index)
        if not isinstance(partition, Partition):
            return partition
        producer_id, epoch = marking.producer
        now_ms = self._clock.now_ms()
        batch = build_end_transaction_marker(
            commit=marking.committed,
            coordinator_epoch=coordinator_epoch,
            producer_id=producer_id,
            producer_epoch=epoch,
            timestamp=now_ms,
        )
        try:
            appended = partition.append_as_coordinator(
                batch, now_ms=now_ms, transaction_version=marking.transaction_version
            )
        except LOG_ERRORS as error:
            return code_of(error)
        if topic == _OFFSETS_TOPIC:
            self._offsets_ended(index, marking.producer, marking.committed)
        if partition.log.high_watermark > appended.last_offset:
            return ErrorCode.NONE
        outcome: Later[ErrorCode] = Later()
        partition.wait(appended.last_offset, _Marker(outcome), 0)
        return outcome


class _Marker:
    """A marker that is written and not yet committed."""

    __slots__ = ("_outcome",)

    def __init__(self, outcome: Later[ErrorCode]) -> None:
        self._outcome = outcome

    def settle(self, _: int, code: ErrorCode) -> None:
        self._outcome.resolve(code)
