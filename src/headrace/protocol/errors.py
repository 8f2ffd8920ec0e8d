"""What can be wrong with bytes: one exception for messages, one for record batches.

Both say where. Neither is raised for a bug of ours: a caller turns them into an error code or closes the connection.
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


class CorruptBatchError(ProtocolError):
    """A record batch that breaks its own format: length, magic, CRC, counts, record framing, or compressed data."""
