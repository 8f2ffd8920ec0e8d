"""What `headrace pipeline query` does: rows of a table, by key, by a range of keys, or by windows."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime
from itertools import islice
from typing import Any

from headrace.cli.connect import ask, complaints
from headrace.cli.output import Column, Complaint, TableWriter, escape, print_json, show_bytes
from headrace.cli.pipeline_apps import chosen, plan_errors
from headrace.cli.values import parse_time
from headrace.streams.schema import names, type_of
from headrace.streams.table_topics import Row, TableTopic, from_text, table_topic
from headrace.streams.table_view import TableView


def query(
    *,
    app: str,
    table: str,
    keys: Sequence[str],
    start: str | None,
    end: str | None,
    limit: int | None,
    state: str | None,
    as_json: bool,
    bootstrap: str | None,
) -> None:
    found = chosen(app, state=state, bootstrap=bootstrap)
    with plan_errors():
        wanted = table_topic(found.plan, table)
    key = read_key(wanted, keys)
    bounds = [read_bound(wanted, bound) for bound in (start, end)]
    if key and not wanted.is_windowed and any(bound is not None for bound in bounds):
        raise Complaint(f"--key and --from/--to exclude one another: {wanted.name} has one row of each key.")

    async def answers(admin: Any) -> None:
        await admin.ping()

    ask(found.bootstrap, answers)
    with complaints(found.bootstrap), TableView(wanted, found.bootstrap) as view:
        rows = list(islice(_rows(view, key, bounds), limit))
    if as_json:
        for row in rows:
            print_json({name: _json_value(value) for name, value in row.items()})
    elif rows:
        _show(wanted, rows)
    if not rows:
        raise NothingThere(f"{wanted.name} has no such row.")


class NothingThere(Complaint):
    """The answer is that there is nothing."""

    exit_code = 1


def read_key(table: TableTopic, given: Sequence[str]) -> tuple[Any, ...]:
    """Of --key VALUE, or --key COLUMN=VALUE for each column. Raises Complaint."""
    if not given:
        return ()
    columns = table.group
    if len(columns) == 1 and len(given) == 1:
        return (_typed(table, columns[0], given[0].removeprefix(f"{columns[0]}=")),)
    pairs = dict(text.partition("=")[::2] for text in given)
    if pairs.keys() != set(columns):
        form = " ".join(f"--key {name}=…" for name in columns)
        raise Complaint(f"The key of {table.name} is {', '.join(columns)}.", hint=f"Write {form}")
    return tuple(_typed(table, name, pairs[name]) for name in columns)


def read_bound(table: TableTopic, text: str | None) -> Any:
    """A time if the table has windows, else a value of the key's first column."""
    if text is None:
        return None
    if not table.is_windowed:
        return _typed(table, table.shape.key[0], text)
    moment = parse_time(text.removeprefix("@"))
    if isinstance(moment, str):
        raise Complaint(f"{text} is no time that windows have.", hint="Such as 2024-05-01T12:00Z or '1h ago'.")
    return datetime.fromtimestamp(moment / 1000, UTC)


def _typed(table: TableTopic, column: str, text: str) -> Any:
    kind = type_of(table.shape.columns, column)
    try:
        return from_text(text, kind)
    except ValueError:
        raise Complaint(f"{column} of {table.name} is a {kind}, and {text!r} is none.") from None


def _rows(view: TableView, key: tuple[Any, ...], bounds: Sequence[Any]) -> Any:
    if view.table.is_windowed:
        return iter(view.windows(*key, since=bounds[0], until=bounds[1]))
    if key:
        row = view.get(*key)
        return iter([] if row is None else [row])
    return iter(view.range(*bounds))


def _show(table: TableTopic, rows: Sequence[Row]) -> None:
    columns = names(table.shape.columns)
    writer = TableWriter()
    writer.start([Column(name, right=isinstance(rows[0][name], int | float)) for name in columns])
    for row in rows:
        writer.row([_text(row[name]) for name in columns])
    writer.flush()


def _text(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bytes):
        return show_bytes(value)
    return escape(str(_json_value(value)))


def _json_value(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    return value.isoformat() if isinstance(value, date) else value
