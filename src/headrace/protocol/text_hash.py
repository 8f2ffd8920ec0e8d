"""Java's hash of a text, by which Kafka spreads groups and transactional ids over partitions."""

from typing import Final

_SIGN: Final = 1 << 31


def java_hash(text: str) -> int:
    """`String.hashCode()`: a signed number of 32 bits."""
    result = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for high, low in zip(units[::2], units[1::2], strict=True):
        result = 31 * result + (high << 8 | low) & 0xFFFF_FFFF
    return (result ^ _SIGN) - _SIGN


def spread(text: str, count: int) -> int:
    """Which of `count` places a text belongs to."""
    number = java_hash(text)
    return 0 if number == -_SIGN else abs(number) % count
