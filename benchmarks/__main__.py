"""`make bench [-- NAME...]`: run the benchmarks, print each figure beside its goal, and say which goals were missed."""

import importlib
import sys
from typing import Final

from rich.console import Console
from rich.table import Table

from benchmarks.figures import Figure

MODULES: Final = ("codec", "columns", "handlers", "log", "log_reopen")


def main(wanted: list[str]) -> int:
    unknown = sorted(set(wanted) - set(MODULES))
    if unknown:
        print(f"no benchmark called {', '.join(unknown)}; there are: {', '.join(MODULES)}", file=sys.stderr)
        return 2
    console = Console()
    missed = 0
    for name in wanted or MODULES:
        figures: list[Figure] = importlib.import_module(f"benchmarks.{name}").run()
        console.print(_table(name, figures))
        missed += sum(figure.met is False for figure in figures)
    console.print(f"[red]{missed} goals missed[/red]" if missed else "[green]every goal met[/green]")
    return 1 if missed else 0


def _table(name: str, figures: list[Figure]) -> Table:
    table = Table(title=name, title_justify="left")
    table.add_column("figure")
    table.add_column("measured", justify="right")
    table.add_column("goal", justify="right")
    table.add_column("")
    table.add_column("note")
    for figure in figures:
        goal = "" if figure.goal is None else f"{'≤' if figure.at_most else '≥'} {_number(figure.goal)} {figure.unit}"
        verdict = {None: "", True: "[green]met[/green]", False: "[red]missed[/red]"}[figure.met]
        table.add_row(figure.name, f"{_number(figure.value)} {figure.unit}", goal, verdict, figure.note)
    return table


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
