"""The zigzag varints inside a record batch: small numbers of either sign in few bytes, seven bits in each.

Kafka's messages use varints without zigzag; those are in the generated code. Reading is strict about size: a number
that does not fit its type is refused, where a Java reader would cut it off. A number may be longer than it needs to be.
"""

from typing import Final

from headrace.protocol.errors import CorruptBatchError


def read_varint(payload: bytes, place: int) -> tuple[int, int]:
    """A zigzag varint of at most 32 bits in at most 5 bytes, and where it ends."""
    raw = payload[place]
    if raw < 0x80:
        return (raw >> 1) ^ -(raw & 1), place + 1
    high = payload[place + 1]
    if high < 0x80:
        raw = raw & 0x7F | high << 7
        return (raw >> 1) ^ -(raw & 1), place + 2
    return _read_long(payload, place, bits=32)


def read_varlong(payload: bytes, place: int) -> tuple[int, int]:
    """A zigzag varint of at most 64 bits in at most 10 bytes, and where it ends."""
    raw = payload[place]
    if raw < 0x80:
        return (raw >> 1) ^ -(raw & 1), place + 1
    high = payload[place + 1]
    if high < 0x80:
        raw = raw & 0x7F | high << 7
        return (raw >> 1) ^ -(raw & 1), place + 2
    return _read_long(payload, place, bits=64)


def _read_long(payload: bytes, place: int, *, bits: int) -> tuple[int, int]:
    raw = shift = 0
    while (byte := payload[place]) >= 0x80:
        raw |= (byte & 0x7F) << shift
        shift += 7
        place += 1
        if shift >= bits:
            raise CorruptBatchError(f"a varint of more than {shift // 7} bytes")
    raw |= byte << shift
    if raw >> bits:
        raise CorruptBatchError(f"a varint of more than {bits} bits")
    return (raw >> 1) ^ -(raw & 1), place + 1


def varint(number: int) -> bytes:
    """`number` as a zigzag varint."""
    raw = (number << 1) if number >= 0 else ~(number << 1)
    if raw < 0x80:
        return _ONE_BYTE[raw]
    if raw >> 64:
        raise ValueError(f"{number} does not fit 64 bits")
    encoded = bytearray()
    while raw >= 0x80:
        encoded.append(raw & 0x7F | 0x80)
        raw >>= 7
    encoded.append(raw)
    return bytes(encoded)


_ONE_BYTE: Final = [bytes([raw]) for raw in range(0x80)]
NULL: Final = varint(-1)
