"""What the demo shows: a picture that changes in a terminal, lines that do not anywhere else; then the table."""

import contextlib
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from headrace.demo.comparison import Line, is_right

_BAR_WIDTH: Final = 40
_LINE_EVERY_SECONDS: Final = 5.0


@dataclass
class Progress:
    """How far the demo is: orders of `total` that were sent, and that are through; `lag` is that of all queries."""

    total: int
    sent: int = 0
    checked: int = 0
    lag: int = 0
    cents: Mapping[str, int] = field(default_factory=dict)


class View:
    """`say` is for what happens once, `show` for what changes all the time."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live: Live | None = None
        self._began = time.monotonic()
        self._last_line = float("-inf")

    @contextlib.contextmanager
    def live(self) -> Iterator[None]:
        """Where `show` draws; without a terminal it prints a line now and then."""
        if not self._console.is_terminal:
            yield
            return
        with Live(console=self._console, refresh_per_second=4, transient=True) as self._live:
            try:
                yield
            finally:
                self._live = None

    def restart_clock(self) -> None:
        self._began = time.monotonic()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._began

    def say(self, text: str, style: str = "") -> None:
        self._print(f"{self.seconds:5.1f} s  {text}", style)

    def show(self, progress: Progress) -> None:
        if self._live is not None:
            self._live.update(picture(progress))
        elif self.seconds - self._last_line >= _LINE_EVERY_SECONDS:
            self._last_line = self.seconds
            self.say(progress_line(progress))

    def result(self, lines: list[Line]) -> None:
        self._console.print(result_table(lines))
        right = is_right(lines)
        verdict = "Equal: nothing lost, nothing doubled." if right else "Not equal: look at the lines that are marked."
        self._print(verdict, "bold green" if right else "bold red")

    def note(self, lines: Iterable[str]) -> None:
        for line in lines:
            self._print(line)

    def _print(self, text: str, style: str = "") -> None:
        self._console.print(Text(text, style=style), soft_wrap=True)


def progress_line(progress: Progress) -> str:
    return (
        f"{progress.sent:,} of {progress.total:,} orders sent, {progress.checked:,} through the pipeline, "
        f"lag {progress.lag:,}"
    )


def picture(progress: Progress) -> RenderableType:
    bars = Table.grid(padding=(0, 2))
    for name, done in (("orders sent", progress.sent), ("through the pipeline", progress.checked)):
        bar = ProgressBar(total=progress.total, completed=done, width=_BAR_WIDTH)
        bars.add_row(name, bar, Text(f"{done:,}", justify="right"))
    bars.add_row("lag", "", Text(f"{progress.lag:,}", justify="right"))
    sums = Table(title="revenue", title_justify="left", box=None, padding=(0, 2, 0, 0))
    sums.add_column("country")
    sums.add_column("so far", justify="right")
    for country, cents in sorted(progress.cents.items()):
        sums.add_row(country, money(cents))
    return Group(bars, Text(), sums)


def result_table(lines: list[Line]) -> Table:
    table = Table(title="Results beside the truth", title_justify="left")
    for name in ("", "truth", "pipeline", ""):
        table.add_column(name, justify="right" if name else "left")
    for line in lines:
        show = money if line.is_money else "{:,}".format
        mark = Text("equal", style="green") if line.is_equal else Text("DIFFERENT", style="bold red")
        table.add_row(line.name, show(line.wanted), show(line.found), mark)
    return table


def money(cents: int) -> str:
    return f"{cents / 100:,.2f}"
