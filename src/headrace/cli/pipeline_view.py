"""What is seen of a pipeline that runs: a table that lives on a terminal, lines elsewhere, a bar for work that ends."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, Protocol, Self

import click

from headrace.cli.output import Column, TableWriter, print_json, show_duration, show_size
from headrace.streams.progress import AppProgress, QueryProgress

if TYPE_CHECKING:
    from rich.console import Console

LINE_SECONDS: Final = 5.0  # from one line of a query to the next, where nobody watches
COLUMNS: Final = (
    Column("query"),
    Column("rows/s", right=True),
    Column("rows", right=True),
    Column("lag", right=True),
    Column("watermark"),
    Column("state rows", right=True),
    Column("state size", right=True),
    Column("late", right=True),
)


class View(Protocol):
    def show(self, progress: AppProgress, *, at_once: bool = False) -> None: ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *error: object) -> None: ...


def cells(query: QueryProgress) -> list[str]:
    return [
        query.query,
        f"{query.rows_per_second:,.0f}",
        f"{query.rows:,}",
        "-" if query.lag is None else f"{query.lag:,}",
        (query.watermark or "-").replace(".000Z", "Z"),
        f"{query.state_rows:,}" if query.state_bytes or query.state_rows else "-",
        show_size(query.state_bytes) if query.state_bytes else "-",
        f"{query.late:,}",
    ]


class Screen:
    """A table that is drawn anew in its place."""

    def __init__(self, console: Console | None = None) -> None:
        from rich.console import Console
        from rich.live import Live

        self._live = Live(console=console or Console(highlight=False), auto_refresh=False)

    def show(self, progress: AppProgress, *, at_once: bool = False) -> None:  # noqa: ARG002 it always is
        from rich.table import Table

        running = show_duration(int((progress.at - progress.started) * 1000))
        table = Table(title=f"{progress.app}, for {running}", title_justify="left", box=None)
        for column in COLUMNS:
            table.add_column(column.name, justify="right" if column.right else "left", no_wrap=True)
        for query in progress.queries:
            table.add_row(*cells(query))
        self._live.update(table, refresh=True)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._live.stop()


class Lines:
    """A line for each query that has moved, or a JSON object."""

    def __init__(self, *, as_json: bool, clock: Callable[[], float] = time.monotonic) -> None:
        self._as_json = as_json
        self._clock = clock
        self._last: float | None = None
        self._shown: dict[str, QueryProgress] = {}

    def show(self, progress: AppProgress, *, at_once: bool = False) -> None:
        """`at_once`: whether it is long enough since the last one or not."""
        now = self._clock()
        if not at_once and self._last is not None and now - self._last < LINE_SECONDS:
            return
        for query in progress.queries:
            before = self._shown.get(query.query)
            if query.batch >= 0 and (before is None or before.reported != query.reported):
                self._last = now
                self._shown[query.query] = query
                self._print(progress.app, query)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def _print(self, app: str, query: QueryProgress) -> None:
        if self._as_json:
            print_json({"app": app, **query_json(query)})
            return
        named = [f"{column.name} {cell}" for column, cell in zip(COLUMNS, cells(query), strict=True) if cell != "-"]
        click.echo(f"{app}.{query.query}: micro-batch {query.batch}, {', '.join(named[1:])}")


def query_json(query: QueryProgress) -> dict[str, object]:
    return {
        "query": query.query,
        "batch": query.batch,
        "rows": query.rows,
        "rows_per_second": round(query.rows_per_second, 1),
        "lag": query.lag,
        "watermark": query.watermark,
        "state_rows": query.state_rows,
        "state_bytes": query.state_bytes,
        "late": query.late,
    }


def show_summary(progress: AppProgress, *, as_json: bool) -> None:
    """When all that was there is done."""
    if as_json:
        for query in progress.queries:
            print_json({"app": progress.app, **query_json(query)})
        return
    table = TableWriter()
    shown = [0, 2, 4, 5, 6, 7]  # a rate over all of it would have the start of Spark in it, and the lag is none
    table.start([COLUMNS[index] for index in shown])
    for query in progress.queries:
        row = cells(query)
        table.row([row[index] for index in shown])
    table.flush()


@contextmanager
def bar(total: int, what: str = "records") -> Iterator[Callable[[int], None]]:
    """On a terminal a progress bar on stderr; elsewhere nothing. The function takes how many are done."""
    if not sys.stderr.isatty():
        yield lambda done: None  # noqa: ARG005
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), BarColumn(), MofNCompleteColumn(), TextColumn(what), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task("", total=total)
        yield lambda done: progress.update(task, completed=done, total=max(total, done))
