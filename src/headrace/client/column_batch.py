"""A batch whose records were encoded as columns, on its way through the sender like any other.

The producer's numbers are not known when it is encoded, and change when it has to be numbered anew: they are written
into the header when it is sent, and the CRC with them, which costs microseconds even for a megabyte.
"""

from struct import Struct
from typing import Final

from headrace.client.pending_batch import PendingBatch
from headrace.protocol.batch import TRANSACTIONAL_FLAG, read_header, write_crc

_ATTRIBUTES: Final = Struct(">h")
_ATTRIBUTES_AT: Final = 21
_PRODUCER: Final = Struct(">qhi")  # producer id, epoch, sequence
_PRODUCER_AT: Final = 43


class ColumnBatch(PendingBatch):
    __slots__ = ("_data",)

    def __init__(self, topic: str, partition: int, created_at: float, data: bytearray) -> None:
        super().__init__(topic, partition, created_at)
        self._data = data
        self.count = read_header(data).record_count
        self.is_closed = True
        self.size_bytes = len(data)

    def encoded(self, codec: int, level: int | None, *, transactional: bool) -> bytearray:  # noqa: ARG002 see the class
        """The compression was chosen when the columns were encoded."""
        data = self._data
        (attributes,) = _ATTRIBUTES.unpack_from(data, _ATTRIBUTES_AT)
        flagged = attributes | TRANSACTIONAL_FLAG if transactional else attributes & ~TRANSACTIONAL_FLAG
        _ATTRIBUTES.pack_into(data, _ATTRIBUTES_AT, flagged)
        _PRODUCER.pack_into(data, _PRODUCER_AT, self.producer_id, self.epoch, self.sequence)
        write_crc(data, 0, len(data))
        return data

    def split(self) -> None:
        """What the broker finds too large was made too large: `batch_bytes` says how large."""
        return
