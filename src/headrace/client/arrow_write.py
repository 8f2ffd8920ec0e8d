"""Arrow tables into topics: partitioned, encoded and sent as columns, never row by row."""

import time
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.client import background
from headrace.client.arrow_partitions import partitions_of
from headrace.client.chance import random
from headrace.client.column_batch import ColumnBatch
from headrace.client.produce_wire import compression_of
from headrace.client.producer import Producer
from headrace.protocol.column_headers import HEADERS
from headrace.protocol.columns import encode_batches

ROWS_AT_ONCE: Final = 100_000  # encoded before the first of them is sent
BATCH_BYTES: Final = 512 * 1024  # far above a producer's batch.size: a table has no latency to keep
_TOO_SMALL_FOR_DEFAULT: Final = 64 * 1024

Partitions = npt.NDArray[np.int32]


def write(
    data: Any,
    topic: str,
    bootstrap: Any,
    *,
    key: str | None = None,
    value: str = "value",
    headers: str | None = None,
    timestamp: str | None = None,
    partition: str | None = None,
    batch_bytes: int = BATCH_BYTES,
    **configs: Any,
) -> int:
    """Write a table to a topic, and wait until it is delivered; how many records that were.

    `data` is a pyarrow Table or RecordBatch, or anything that Arrow makes a table of (pandas, Polars). `bootstrap` is
    an address, or a `headrace.Producer`: then its settings count, and inside `producer.transaction()` the records
    belong to the transaction. `key`, `value`, `headers`, `timestamp`, `partition` name columns; those called so are
    used if they are not named. Rows without a partition go to that of their key, as with every Kafka client; rows
    without a key are spread in pieces. Raises KafkaError.
    """
    rows = _selected(table_of(data), key=key, value=value, headers=headers, timestamp=timestamp, partition=partition)
    if isinstance(bootstrap, Producer):
        if configs:
            raise TypeError(f"the producer has its settings already; leave out {', '.join(configs)}")
        return _write(bootstrap, rows, topic, batch_bytes)
    with Producer(bootstrap, **configs) as producer:
        return _write(producer, rows, topic, batch_bytes)


def table_of(data: Any) -> Any:
    """Whatever has columns, as a pyarrow Table."""
    if isinstance(data, pa.Table):
        return data
    if isinstance(data, pa.RecordBatch):
        return pa.Table.from_batches([data])
    if hasattr(data, "to_arrow"):  # Polars
        return data.to_arrow()
    if hasattr(data, "__arrow_c_stream__"):
        return pa.table(data)
    if type(data).__module__.startswith("pandas"):
        return pa.Table.from_pandas(data, preserve_index=False)
    if isinstance(data, dict):
        return pa.table(data)
    raise TypeError(f"a {type(data).__name__} is no table: pass a pyarrow Table, or a pandas or Polars data frame")


def _selected(table: Any, *, value: str, **named: str | None) -> Any:
    """The columns under the names that the encoder knows."""
    columns = {}
    for role, name in {"value": value, **named}.items():
        chosen = name or role
        if chosen in table.column_names:
            columns[role] = table.column(chosen)
        elif name is not None:
            raise KeyError(f"there is no column {name!r}; the columns are {', '.join(table.column_names)}")
    return pa.table(columns)


def _write(producer: Producer, rows: Any, topic: str, batch_bytes: int) -> int:
    if "timestamp" in rows.column_names:
        _check_times(rows.column("timestamp"), topic)
    writer = TableWriter(producer, batch_bytes)
    writer.add(rows, topic)
    writer.finish()
    return int(rows.num_rows)


class TableWriter:
    """Tables to topics, one after the other, through one producer. What is delivered is forgotten at once."""

    def __init__(self, producer: Producer, batch_bytes: int = BATCH_BYTES) -> None:
        settings = producer._core.settings
        self._producer = producer
        self._codec, self._level = compression_of(settings)
        # Kafka's own limit of a batch is 1 MB; a topic with a lower one says so, and then the caller chooses.
        self._limit = min(batch_bytes, settings.number("max.request.size") - _TOO_SMALL_FOR_DEFAULT)
        self._counts: dict[str, int] = {}  # of partitions
        self._sent: list[ColumnBatch] = []

    def add(self, rows: Any, topic: str) -> None:
        """Send rows with the columns that the encoder knows. Raises KafkaError, of earlier rows, too."""
        if topic not in self._counts:
            self._counts[topic] = len(self._producer.partitions(topic))
        count = self._counts[topic]
        now_ms = time.time_ns() // 1_000_000
        rows = _checked(rows, topic, count)
        for part in _slices(rows):
            for number, piece in _by_partition(_without_views(part), count):
                for data in encode_batches(
                    piece, timestamp_ms=now_ms, batch_bytes=self._limit, codec=self._codec, level=self._level
                ):
                    batch = ColumnBatch(topic, number, time.monotonic(), data)
                    self._producer._send_batch(batch)
                    self._sent.append(batch)
            self._forget_delivered()

    def finish(self) -> None:
        """Wait until all of it is delivered. Raises KafkaError if something is not."""
        background.call(self._producer._core.sender.flush())
        self._forget_delivered()

    def _forget_delivered(self) -> None:
        waiting = []
        for batch in self._sent:
            if not batch.is_settled:  # asked once: the client's thread may settle it at any moment, also with an error
                waiting.append(batch)
            elif batch.error is not None:
                raise batch.error
        self._sent = waiting


def _checked(rows: Any, topic: str, count: int) -> Any:
    """Rows that name only partitions which are there: before any of them is sent. Raises ValueError."""
    if "partition" not in rows.column_names:
        return rows
    named = rows.column("partition").cast(pa.int64())
    edges = pc.min_max(named).as_py()
    for number in (edges["min"], edges["max"]):
        if number is not None and not 0 <= number < count:
            raise ValueError(f"{topic} has partitions 0 to {count - 1}; a row is for {number}")
    return rows.set_column(rows.column_names.index("partition"), "partition", named)


def _check_times(times: Any, topic: str) -> None:
    """As `Producer.send` does: Kafka has no time before 1970. Raises ValueError."""
    if pa.types.is_timestamp(times.type) or pa.types.is_integer(times.type):  # the encoder refuses all others
        first = pc.min(times)
        if first.is_valid and first.cast(pa.int64()).as_py() < 0:
            raise ValueError(f"a row for {topic} has the timestamp {first}, which is before 1970")


def _slices(rows: Any) -> Iterator[Any]:
    for first in range(0, rows.num_rows, ROWS_AT_ONCE):
        yield rows.slice(first, ROWS_AT_ONCE)


def _without_views(rows: Any) -> Any:
    """Views of text and bytes, such as Polars hands on, become text and bytes: Arrow cannot put views into an order."""
    for place, field in enumerate(rows.schema):
        if "_view" in str(field.type):
            kind = HEADERS if field.name == "headers" else pa.large_binary()
            rows = rows.set_column(place, field.name, rows.column(place).cast(kind))
    return rows


def _by_partition(rows: Any, count: int) -> Iterator[tuple[int, Any]]:
    """The rows of each partition, in their order."""
    if count == 1 and "partition" not in rows.column_names:
        yield 0, rows
        return
    partitions = _choose(rows, count)
    data = rows.drop_columns("partition") if "partition" in rows.column_names else rows
    order = np.argsort(partitions, kind="stable")
    placed = partitions[order]
    edges = np.flatnonzero(np.diff(placed)) + 1
    starts = [0, *edges.tolist(), len(placed)]
    sorted_rows = data.take(pa.array(order))
    for first, last in pairwise(starts):
        if last > first:
            yield int(placed[first]), sorted_rows.slice(first, last - first)


def _choose(rows: Any, count: int) -> Partitions:
    """What the column says; where it says nothing, the partition of the key."""
    if "partition" not in rows.column_names:
        return _by_key(rows, count)
    named = rows.column("partition")
    if not named.null_count:
        return named.to_numpy().astype(np.int32)  # type: ignore[no-any-return]
    missing = np.asarray(named.is_null())
    chosen: Partitions = named.fill_null(0).to_numpy().astype(np.int32)
    chosen[missing] = _by_key(rows, count)[missing]
    return chosen


def _by_key(rows: Any, count: int) -> Partitions:
    # From any partition on: tables of a few rows, one after the other, would leave most partitions without any.
    first = int(random() * count)
    pieces = np.arange(rows.num_rows) * count // max(rows.num_rows, 1)
    spread: Partitions = ((pieces + first) % count).astype(np.int32)
    if "key" not in rows.column_names or pa.types.is_null(rows.column("key").type):
        return spread
    partitions = partitions_of(rows.column("key"), count)
    partitions[partitions < 0] = spread[partitions < 0]
    return partitions
