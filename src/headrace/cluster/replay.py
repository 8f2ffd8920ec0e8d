"""The metadata log as it is read: batch after batch, with its transactions, into an image.

A metadata transaction (KIP-868) is a run of records between a begin and an end, possibly over several batches. None
of them counts before the end, and none at all after an abort. Kafka writes its first records in one; we write no
transactions, but a log that Kafka began must be read.
"""

from collections.abc import Iterable
from typing import Final, TypeAlias

from headrace.cluster.delta import Delta, ReplayError
from headrace.cluster.image import EMPTY_IMAGE, Image
from headrace.cluster.metadata_records import MetadataRecord
from headrace.protocol.messages.metadata_records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
)

_Held: TypeAlias = list[tuple[int, MetadataRecord]]

_TRANSACTIONS: Final = frozenset({BeginTransactionRecord, EndTransactionRecord, AbortTransactionRecord})


class Replay:
    """The image at a place in the log; `apply` moves on."""

    def __init__(self, image: Image = EMPTY_IMAGE) -> None:
        self.image = image
        self._held: _Held | None = None  # the records of the open transaction, with offsets

    @property
    def in_transaction(self) -> bool:
        """Whether records were read that do not count yet: no snapshot can be taken here."""
        return self._held is not None

    def apply(self, records: Iterable[MetadataRecord], *, base_offset: int) -> None:
        """Read a batch. Raises ReplayError, with the offset, and then stays where it was before the batch."""
        delta = Delta(self.image)
        held = None if self._held is None else list(self._held)
        for offset, record in enumerate(records, base_offset):
            if type(record) in _TRANSACTIONS:
                held = _step(delta, held, offset, record)
            elif held is not None:
                held.append((offset, record))
            else:
                _replay(delta, offset, record)
        self.image = delta.finish()
        self._held = held


def _step(delta: Delta, held: _Held | None, offset: int, record: MetadataRecord) -> _Held | None:
    """A transaction begins or ends; what is held from now on."""
    if isinstance(record, BeginTransactionRecord):
        if held is not None:
            raise ReplayError(f"offset {offset}: a metadata transaction begins inside another")
        return []
    if held is None:
        raise ReplayError(f"offset {offset}: {type(record).__name__} without a metadata transaction")
    if isinstance(record, EndTransactionRecord):
        for held_offset, held_record in held:
            _replay(delta, held_offset, held_record)
    return None


def _replay(delta: Delta, offset: int, record: MetadataRecord) -> None:
    try:
        delta.replay(record)
    except ReplayError as fault:
        raise ReplayError(f"offset {offset}: {fault}") from fault
