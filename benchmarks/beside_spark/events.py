"""Records for windowed pipelines: JSON values, keys drawn at random, times in order; the same in each run."""

from collections.abc import Iterator
from typing import Final

import numpy as np
import pyarrow as pa

import headrace
import headrace.arrow

PARTITIONS: Final = 2
MINUTES: Final = 4  # that all records are spread over, however many there are
# Records have times of their own, and a broker goes by these: it would delete them before they are read.
BROKER_CONFIGS: Final = {"log.retention.ms": "-1"}
_ROWS_AT_ONCE: Final = 100_000
_START_MS: Final = 1_767_225_600_000


def events(records: int, keys: int) -> Iterator[pa.Table]:
    """Tables as `headrace.arrow.write` takes them, partition by partition in turns."""
    random = np.random.default_rng(1)
    for first in range(0, records, _ROWS_AT_ONCE):
        numbers = np.arange(first, min(first + _ROWS_AT_ONCE, records))
        users = random.integers(0, keys, len(numbers)).tolist()
        yield pa.table(
            {
                "key": [b"%d" % user for user in users],
                "value": [b'{"user":"u%07d","n":%d}' % (user, first + row) for row, user in enumerate(users)],
                "partition": pa.array(numbers % PARTITIONS, pa.int32()),
                "timestamp": pa.array(_START_MS + numbers * MINUTES * 60_000 // records, pa.timestamp("ms", "UTC")),
            }
        )


def fill(address: str, topic: str, tables: Iterator[pa.Table]) -> None:
    with headrace.Admin(address) as admin:
        admin.create_topic(topic, partitions=PARTITIONS)
    with headrace.Producer(address) as producer:
        for table in tables:
            headrace.arrow.write(table, topic, producer)
