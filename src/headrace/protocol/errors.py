"""What can be wrong with bytes: one exception for messages, one for record batches. And one for values that have none.

The first two say where, and are not raised for a bug of ours: a caller turns them into an error code or closes the
connection.
"""


class ProtocolError(ValueError):
    """Bytes that cannot be what they claim to be."""


class DecodeError(ProtocolError):
    """A message that cannot be decoded; `field` names the field, `position` is its place in the buffer."""

    def __init__(self, reason: str, *, field: str, position: int) -> None:
        super().__init__(f"{reason} in field {field!r} at byte {position}")
        self.reason = reason
        self.field = field
        self.position = position


class TrailingBytesError(DecodeError):
    """A message that ends at `position`, before its bytes do."""


class EncodeError(ValueError):
    """A value that the wire, or this version of it, cannot carry; `field` is a path like `topics.partitions.index`."""

    def __init__(self, reason: str, *, field: str) -> None:
        super().__init__(f"{reason} in field {field!r}")
        self.reason = reason
        self.field = field


class CorruptBatchError(ProtocolError):
    """A record batch that breaks its own format: length, magic, CRC, counts, record framing, or compressed data."""
