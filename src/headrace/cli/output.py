"""How commands speak: tables that stream, values as people read them, JSON lines, and errors that say what to do."""

import json
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import IO, Any, Final, NamedTuple

import click
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

CHUNK_ROWS: Final = 100  # rows that are laid out together: more would wait for the screen and take memory
MAX_SHOWN_CHARACTERS: Final = 120
MAX_KEPT_WIDTH: Final = 40  # one long value must not push the columns behind it out of sight for good


class Complaint(click.ClickException):
    """What happened, where, and what to do. Exit code 2: the command was asked for something that it cannot do."""

    exit_code = 2

    def __init__(self, what: str, *, hint: str = "") -> None:
        super().__init__(what)
        self.hint = hint

    def show(self, file: IO[Any] | None = None) -> None:
        click.echo(f"headrace: {self.message}", file=file, err=file is None)
        if self.hint:
            click.echo(f"  {self.hint}", file=file, err=file is None)


class Unreachable(Complaint):
    """No broker answers."""

    exit_code = 3


class Finding(Complaint):
    """The command did what it was asked for, and found something wrong."""

    exit_code = 1


def confirm(question: str, *, yes: bool) -> None:
    """Ask somebody who sits there; a program has said what it wants."""
    if not yes and sys.stdin.isatty():
        click.confirm(question, abort=True, err=True)


class Column(NamedTuple):
    name: str
    right: bool = False


class TableWriter:
    """A table of any length on a terminal or in a pipe, laid out in chunks. Columns only ever grow, so chunks line up.

    Lines are never wrapped here: a terminal wraps long ones itself, and what is piped keeps one row on one line.
    """

    def __init__(self) -> None:
        self._console = Console(highlight=False, markup=False, emoji=False, soft_wrap=True)
        self._columns: Sequence[Column] = ()
        self._widths: list[int] = []
        self._pending: list[Sequence[str] | Text] = []

    def start(self, columns: Sequence[Column]) -> None:
        """End the table before, if there is one, and begin a table with these columns."""
        self.flush()
        self._columns = columns
        self._widths = [0 for _ in columns]
        self._pending.append([column.name for column in columns])

    def row(self, cells: Sequence[str]) -> None:
        assert len(cells) == len(self._columns), (cells, self._columns)
        self._pending.append(cells)
        if len(self._pending) >= CHUNK_ROWS:
            self.flush()

    def line(self, text: str, style: str = "") -> None:
        """A line between the rows, as long as it is."""
        self._pending.append(Text(text, style=style))

    def flush(self) -> None:
        """Print what was not printed yet."""
        rows = [item for item in self._pending if not isinstance(item, Text)]
        for row in rows:
            for index, cell in enumerate(row):
                self._widths[index] = max(self._widths[index], min(cell_len(cell), MAX_KEPT_WIDTH))
        lines = [item if isinstance(item, Text) else self._lay_out(item) for item in self._pending]
        self._pending.clear()
        if lines:
            self._console.print(Text("\n").join(lines))

    def _lay_out(self, cells: Sequence[str]) -> Text:
        padded = []
        for cell, column, width in zip(cells, self._columns, self._widths, strict=True):
            padding = " " * (width - cell_len(cell))
            padded.append(padding + cell if column.right else cell + padding)
        is_header = all(cell == column.name for cell, column in zip(cells, self._columns, strict=True))
        return Text("  ".join(padded).rstrip(), style="bold" if is_header else "")


def print_json(fields: Mapping[str, Any]) -> None:
    """One object on one line. Bytes are text where they are UTF-8, else {"hex": ...}."""
    click.echo(json.dumps(fields, default=_json_value, separators=(",", ":")))


def jsonable(value: Any) -> Any:
    """The value with its bytes as text or as {"hex": ...}; tuples with names become objects."""
    if isinstance(value, bytes):
        return _json_value(value)
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return {name: jsonable(content) for name, content in value._asdict().items()}
    if isinstance(value, Mapping):
        return {name: jsonable(content) for name, content in value.items()}
    if isinstance(value, list | tuple):
        return [jsonable(content) for content in value]
    return value


def _json_value(value: bytes) -> Any:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"hex": value.hex()}


def show_bytes(value: bytes | None, *, limit: int = MAX_SHOWN_CHARACTERS) -> str:
    """Text if it is text, else hexadecimal; bounded."""
    if value is None:
        return "<null>"
    if not value:
        return "<empty>"
    # UTF-8 has at most four bytes per character: so much must be looked at to show `limit` of them, and no more.
    head = value[: limit * 4]
    try:
        text = escape(head.decode())
    except UnicodeDecodeError as error:
        if len(head) == len(value) or error.start < len(head) - 3:
            text = f"0x{value[: limit // 2].hex()}"
            return text if len(value) <= limit // 2 else f"{text}… ({len(value):,} bytes)"
        text = escape(head[: error.start].decode())
    if len(text) > limit or len(head) < len(value):
        return f"{text[:limit]}… ({len(value):,} bytes)"
    return text


def escape(text: str) -> str:
    """One line, nothing that moves the cursor: what is not printable is shown as Python would write it."""
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode() for character in text
    )


def show_fields(value: Any) -> str:
    """A decoded value on one line: `name=orders partitions=[0 1]`."""
    if isinstance(value, Mapping):
        return " ".join(f"{name}={_show_inner(content)}" for name, content in value.items())
    return _show_inner(value)


def _show_inner(value: Any) -> str:
    if value is None:
        return "<null>"
    if isinstance(value, bytes):
        return show_bytes(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping):
        return f"{{{show_fields(value)}}}"
    if isinstance(value, list | tuple):
        return f"[{' '.join(_show_inner(item) for item in value)}]"
    return escape(str(value))


def show_time(timestamp_ms: int) -> str:
    """A point in time in UTC; `-` for none, the number itself where no calendar goes."""
    if timestamp_ms == -1:
        return "-"
    try:
        moment = datetime.fromtimestamp(timestamp_ms // 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return str(timestamp_ms)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{timestamp_ms % 1000:03d}Z"


def show_size(size_bytes: int) -> str:
    """1,234 bytes are 1.2 KiB."""
    size = float(size_bytes)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024 or unit == "GiB":
            break
        size /= 1024
    return f"{size_bytes} B" if unit == "B" else f"{size:,.1f} {unit}"


def show_number(value: int | None) -> str:
    """`-` for none and for Kafka's -1."""
    return "-" if value is None or value == -1 else str(value)


def show_count(number: int, word: str) -> str:
    """`1 partition`, `2 partitions`."""
    return f"{number} {word}{'' if number == 1 else 's'}"


def show_duration(duration_ms: int) -> str:
    """The two largest units of it: 2h 5m."""
    left = duration_ms
    parts: list[str] = []
    for unit, unit_ms in (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)):
        number, left = divmod(left, unit_ms)
        if number or parts:
            parts.append(f"{number}{unit}" if number else "")
    return " ".join(filter(None, parts[:2])) or "0s"
