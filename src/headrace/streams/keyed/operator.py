"""What an operator with state of our own is to whoever runs it: a step over the rows of one bucket in one micro-batch.

Keys are hashed into buckets, so that Python is called once for thousands of keys, with Arrow tables. Between two steps
a bucket has nothing but its `StateTable`. A step is a function of the batch, the state and the clock and of nothing
else: a micro-batch that is run again, after a crash, changes the same state in the same way and gives the same rows.
"""

from dataclasses import dataclass
from typing import Final, Protocol

import pyarrow as pa

from headrace.streams.keyed.state_table import GROUP, SUB, UNTIL, StateTable

__all__ = ["DELETED", "GROUP", "SIDE", "SUB", "TIME", "UNTIL", "Clock", "KeyedOperator", "StateTable"]

# Columns of every batch, beside GROUP and those of the rows. Output has TIME and DELETED, too.
SIDE: Final = "_side"  # int8: from which input the row came, counted as the plan counts them
TIME: Final = "_time"  # timestamp(us, UTC)
DELETED: Final = "_deleted"  # bool: of a table the deletion of the key, of a stream a record without a value


@dataclass(frozen=True, slots=True)
class Clock:
    """`watermark_ms`: no row before it will come any more. None before the first one is known."""

    watermark_ms: int | None


class KeyedOperator(Protocol):
    """Pickled once and sent to workers; it keeps nothing itself."""

    @property
    def state_schema(self) -> pa.Schema:
        """Of the rows that it keeps, without GROUP."""

    @property
    def output_schema(self) -> pa.Schema: ...

    def step(self, batch: pa.Table, state: StateTable, clock: Clock) -> pa.Table:
        """What comes out. `batch` may be empty: then only time has passed."""

    def wakes_at(self, state: StateTable) -> int | None:
        """The watermark in milliseconds at which a step is needed even if no rows come; None: never."""
