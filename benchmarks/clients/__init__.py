"""What `benchmarks.client` is made of: the same work done by several clients, each in a process of its own.

A module per client. Each function does one kind of work and returns the seconds that it took, from the first record to
the last acknowledgement or the last record: connecting, and learning where the partitions are, come before. Settings
are the client's defaults unless a comment says why not.
"""

from typing import Final

VALUE: Final = bytes(range(100))
SILENCE_SECONDS: Final = 60.0  # without a record: the broker, or the client, hangs
PARTITION: Final = 0  # all work is done in one partition


class WrongCountError(Exception):
    """Not every record was delivered, or not every one came: nothing that was measured counts."""


def check_size(size: int, count: int) -> None:
    """Raises WrongCountError if the values that came are not so many of VALUE's size."""
    if size != count * len(VALUE):
        raise WrongCountError(f"{size} bytes came, of {count} records of {len(VALUE)}")
