"""A table of an app, to be asked while the app runs: by key, by a range of keys, by windows.

    with app.query("sales") as sales:
        sales.get("DE")                                  # {"country": "DE", "n": 3, "total": 220.0}, or None
        sales.range("A", "F")                            # rows in the order of their keys
        minutes.windows("DE", since=noon, until=one)     # of a windowed table: those that begin in between

It is a replay of the table's topic, and goes on from where it was each time it is asked: so it has what the last
micro-batches have committed, and nothing that might be taken back. It needs no Spark, and works from anywhere, whether
the app runs or not. All records are in memory, and are decoded when somebody asks for them.
"""

import threading
from collections.abc import Iterator
from datetime import datetime
from types import TracebackType
from typing import Any, Final, Self

from headrace.client import background
from headrace.client.admin import AsyncAdmin
from headrace.client.errors import UnknownTopicError
from headrace.streams.errors import PlanError
from headrace.streams.plan import Plan
from headrace.streams.table_topics import Row, TableTopic, key_of, refuse_bound, row_of, table_topic

_START: Final = "window_start"


def table_view(plan: Plan, name: str, bootstrap: str) -> "TableView":
    """Raises PlanError if the app has no such table, or not in a topic."""
    return TableView(table_topic(plan, name), bootstrap)


class TableView:
    """May be used by several threads. `close` ends its connections."""

    def __init__(self, table: TableTopic, bootstrap: str) -> None:
        self.table: Final = table
        self._admin = AsyncAdmin(bootstrap)
        self._lock = threading.Lock()
        self._records: dict[bytes | None, bytes | None] = {}  # the last value of each key
        self._undecoded: set[bytes | None] = set()
        self._rows: dict[bytes | None, Row] = {}
        self._groups: dict[tuple[Any, ...], dict[bytes | None, Row]] = {}
        self._positions: dict[int, int] = {}
        self._topic_id: str | None = None

    def get(self, *key: Any, window: datetime | None = None) -> Row | None:
        """The row of a key, column by column if it has several; of a windowed table that of the window which begins
        at `window`, or the latest of the key."""
        if window is not None:
            self._refuse_times(window)
        rows = self._of_key(key)
        if window is not None:
            rows = [row for row in rows if row[_START] == window]
        return rows[-1] if rows else None

    def windows(self, *key: Any, since: datetime | None = None, until: datetime | None = None) -> list[Row]:
        """The windows of a key, or of all keys, that begin from `since` on and before `until`, earliest first."""
        self._refuse_times(since, until)
        rows = self._of_key(key) if key else self.range()
        return [
            row for row in rows if (since is None or row[_START] >= since) and (until is None or row[_START] < until)
        ]

    def range(self, first: Any = None, last: Any = None) -> list[Row]:
        """Rows in the order of their keys, from `first` on and before `last`, which are of the key's first column."""
        column = self.table.group[0] if self.table.group else self.table.shape.key[0]
        for bound in (first, last):
            refuse_bound(self.table, column, bound)
        with self._lock:
            self._refresh()
            self._decode_all()
            try:
                rows = [
                    row
                    for row in self._rows.values()
                    if row[column] is not None
                    and (first is None or row[column] >= first)
                    and (last is None or row[column] < last)
                ]
            except TypeError as error:  # of a column whose type nobody has declared
                raise PlanError(f"the values of {column} cannot be compared with these bounds: {error}") from error
        return sorted(rows, key=self._order)

    def refresh(self) -> int:
        """Read what is new in the topic; how many rows there are now. Every question does it by itself."""
        with self._lock:
            self._refresh()
            return len(self._records)

    def __iter__(self) -> Iterator[Row]:
        return iter(self.range())

    def __len__(self) -> int:
        return self.refresh()

    def close(self) -> None:
        background.call(self._admin.close())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _refuse_times(self, *times: datetime | None) -> None:
        if not self.table.is_windowed:
            raise PlanError(f"the table {self.table.name!r} has no windows: ask for a key, or for a range of keys")
        for time in times:
            refuse_bound(self.table, _START, time)

    def _of_key(self, key: tuple[Any, ...]) -> list[Row]:
        group = self.table.group
        if len(key) != len(group):
            raise PlanError(f"the key of table {self.table.name!r} is ({', '.join(group)}), and was given {key!r}")
        with self._lock:
            self._refresh()
            known = key_of(self.table, key)
            if known is not None:
                value = self._records.get(known)
                row = None if value is None else row_of(self.table, known, value)
                return [] if row is None else [row]
            self._decode_all()
            return sorted(self._groups.get(key, {}).values(), key=self._order)

    def _order(self, row: Row) -> tuple[tuple[bool, Any], ...]:
        columns = [*self.table.group, *(name for name in self.table.shape.key if name not in self.table.group)]
        return tuple((row[name] is not None, row[name]) for name in columns)

    def _refresh(self) -> None:
        from headrace.client.arrow_fetch import FetchSettings, Part, fetch_tables  # pyarrow, which is an extra

        parts = [Part(self.table.topic, *each) for each in background.call(self._new_parts())]
        for records in fetch_tables(self._admin._cluster, parts, FetchSettings(read_committed=True)):
            self._keep(records.column("key").to_pylist(), records.column("value").to_pylist())
        self._positions.update({part.partition: part.end for part in parts})

    def _keep(self, keys: list[bytes | None], values: list[bytes | None]) -> None:
        self._records.update(zip(keys, values, strict=True))
        self._undecoded.update(keys)
        if None in values:
            for key in keys:
                if self._records.get(key, b"") is None:  # its last record here is a tombstone
                    del self._records[key]

    async def _new_parts(self) -> list[Any]:
        from headrace.client.arrow_ranges import resolve

        topic = self.table.topic
        try:
            described = await self._admin.describe_topic(topic)
        except UnknownTopicError:  # nothing was written yet, or all of it is gone
            self._forget(None)
            return []
        if described.id != self._topic_id:
            self._forget(described.id)
        ranges = await resolve(
            self._admin, topic, start=self._positions, end="latest", partitions=None, read_committed=True
        )
        return [each for each in ranges if each.start < each.end]

    def _forget(self, topic_id: str | None) -> None:
        """It is another topic of the same name."""
        self._topic_id = topic_id
        self._positions.clear()
        self._records.clear()
        self._undecoded.clear()
        self._rows.clear()
        self._groups.clear()

    def _decode_all(self) -> None:
        """Those that have changed since it was last done."""
        while self._undecoded:
            key = self._undecoded.pop()
            before = self._rows.pop(key, None)
            if before is not None:
                group = self._group(before)
                self._groups[group].pop(key)
                if not self._groups[group]:
                    del self._groups[group]
            value = self._records.get(key)
            row = None if value is None else row_of(self.table, key, value)
            if row is not None:
                self._rows[key] = row
                self._groups.setdefault(self._group(row), {})[key] = row

    def _group(self, row: Row) -> tuple[Any, ...]:
        return tuple(row[name] for name in self.table.group)
