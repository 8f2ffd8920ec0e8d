"""Where the randomness of decisions comes from: placement, and the ids of new topics."""

from random import Random

from headrace.cluster.topics import Chance


def chance(random: Random) -> Chance:
    return Chance(random, lambda: new_uuid(random))


def new_uuid(random: Random) -> bytes:
    """An id as Kafka makes them: a random UUID (version 4) whose text does not begin with a dash, like an option."""
    while True:
        number = random.getrandbits(128)
        number = number & ~(0xF << 76) | (4 << 76)
        number = number & ~(0x3 << 62) | (2 << 62)
        if number >> 122 != _DASH:
            return number.to_bytes(16, "big")


_DASH = 62  # in base64url
