"""Topics as Arrow: a whole one as a table, or as record batches one after the other, in bounded memory."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from headrace.client import background
from headrace.client.admin import AsyncAdmin
from headrace.client.arrow_fetch import FetchSettings, Part, fetch_tables
from headrace.client.arrow_ranges import Bound, resolve
from headrace.protocol.columns import SCHEMA


def read(
    topic: str,
    bootstrap: str | Sequence[str],
    *,
    start: Bound = "earliest",
    end: Bound = "latest",
    partitions: Iterable[int] | None = None,
    columns: Sequence[str] | None = None,
    isolation: str = "read_uncommitted",
    **configs: Any,
) -> Any:
    """A topic, or a part of it, as a pyarrow Table.

    `start` and `end` are `"earliest"`, `"latest"`, an offset (negative: so many before the end), a datetime, a `Group`,
    or a dict of all but groups by partition, which does not bound those that it leaves out; `end` is not included, and
    `latest` is where the topic ends now. `columns` are
    some of key, value, headers, topic, partition, offset, timestamp, timestamp_type. Raises KafkaError.
    """
    batches = scan(
        topic, bootstrap, start=start, end=end, partitions=partitions, columns=columns, isolation=isolation, **configs
    )
    return pa.Table.from_batches(list(batches), _schema(columns))


def scan(
    topic: str,
    bootstrap: str | Sequence[str],
    *,
    start: Bound = "earliest",
    end: Bound = "latest",
    partitions: Iterable[int] | None = None,
    columns: Sequence[str] | None = None,
    isolation: str = "read_uncommitted",
    **configs: Any,
) -> Iterator[Any]:
    """The same as `read`, as record batches one after the other: for topics that are larger than memory."""
    if isolation not in ("read_uncommitted", "read_committed"):
        raise ValueError(f"isolation is read_uncommitted or read_committed, not {isolation!r}")
    _schema(columns)
    committed = isolation == "read_committed"
    admin = AsyncAdmin(bootstrap, **configs)
    try:
        ranges = background.call(
            resolve(admin, topic, start=start, end=end, partitions=partitions, read_committed=committed)
        )
        parts = [Part(topic, *each) for each in ranges]
        for table in fetch_tables(admin._cluster, parts, FetchSettings(read_committed=committed)):
            selected = table if columns is None else table.select(list(columns))
            yield from selected.to_batches()
    finally:
        background.call(admin.close())


def _schema(columns: Sequence[str] | None) -> Any:
    if columns is None:
        return SCHEMA
    if isinstance(columns, str):
        raise ValueError(f"columns is a list of names, such as [{columns!r}], not one")
    unknown = [name for name in columns if name not in SCHEMA.names]
    if unknown:
        raise ValueError(f"there is no column {unknown[0]!r}; the columns are {', '.join(SCHEMA.names)}")
    return pa.schema([SCHEMA.field(name) for name in columns])
