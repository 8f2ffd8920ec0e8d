"""The metadata log as it is read: batch after batch, with its transactions, into an image.

A metadata transaction (KIP-868) is a run of records between a begin and an end, possibly over several batches. None
of them counts before the end, and none at all after an abort. Kafka writes its first records in one; we write no
transactions, but a log that Kafka began must be read.
"""

from collections.abc import Iterable

from headrace.cluster.delta import Delta, ReplayError
from headrace.cluster.image import EMPTY_IMAGE, Image
from headrace.cluster.metadata_records import MetadataRecord
from headrace.protocol.messages.metadata_records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
)


class Replay:
    """The image at a place in the log; `apply` moves on."""

    def __init__(self, image: Image = EMPTY_IMAGE) -> None:
        self.image = image
        self._held: list[tuple[int, MetadataRecord]] | None = None  # the records of the open transaction, with offsets

    @property
    def in_transaction(self) -> bool:
        """Whether records were read that do not count yet: no snapshot can be taken here."""
        return self._held is not None

    def apply(self, records: Iterable[MetadataRecord], *, base_offset: int) -> None:
        """Read a batch. Raises ReplayError, with the offset, and then stays where it was before the batch."""
        delta = Delta(self.image)
        held = None if self._held is None else list(self._held)
        for offset, record in enumerate(records, base_offset):
            if isinstance(record, BeginTransactionRecord):
                if held is not None:
                    raise ReplayError(f"offset {offset}: a metadata transaction begins inside another")
                held = []
            elif isinstance(record, EndTransactionRecord | AbortTransactionRecord):
                if held is None:
                    raise ReplayError(f"offset {offset}: {type(record).__name__} without a metadata transaction")
                if isinstance(record, EndTransactionRecord):
                    _replay(delta, held)
                held = None
            elif held is not None:
                held.append((offset, record))
            else:
                _replay(delta, ((offset, record),))
        self.image = delta.finish()
        self._held = held


def _replay(delta: Delta, records: Iterable[tuple[int, MetadataRecord]]) -> None:
    for offset, record in records:
        try:
            delta.replay(record)
        except ReplayError as fault:
            raise ReplayError(f"offset {offset}: {fault}") from fault
