"""`make bench`, or `python -m benchmarks [NAME...] [--quick] [--json]`: every figure beside its goal.

Says which goals were missed, and ends with 1 if one was. `--quick` measures less where there is a lot to measure, and
`--json` is for programs.
"""

import argparse
import importlib
import json
import os
import platform
import sys
from dataclasses import asdict
from importlib.util import find_spec
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from benchmarks.figures import Figure

MODULES: Final = (
    "codec",
    "columns",
    "handlers",
    "log",
    "log_reopen",
    "client",
    "broker",
    "groups",
    "sizes",
    "spark_source",
    "spark_sink",
    "streams_windows",
    "streams_joins",
    "streams_growth",
)
WIDTH: Final = 160  # where nobody knows how wide the screen is
_VERDICTS: Final = {None: "", True: "[green]met[/green]", False: "[red]missed[/red]"}


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measure, beside the goals.")
    parser.add_argument("names", nargs="*", metavar="NAME", choices=[[], *MODULES], help=", ".join(MODULES))
    parser.add_argument("--quick", action="store_true", help="measure less where there is a lot to measure")
    parser.add_argument("--json", action="store_true", help="for programs")
    options = parser.parse_args(arguments)
    console = Console(width=None if sys.stdout.isatty() else WIDTH)
    reports = []
    missed = 0
    for name in options.names or MODULES:
        load_before = os.getloadavg()[0]
        figures = _run(name, is_quick=options.quick)
        missed += sum(figure.met is False for figure in figures)
        conditions = _conditions(load_before)
        reports.append(_report(name, figures, conditions))
        if not options.json:
            console.print(_table(name, figures, conditions))
    if options.json:
        print(json.dumps(reports, indent=2))
    else:
        console.print(f"[red]{missed} goals missed[/red]" if missed else "[green]every goal met[/green]")
    return 1 if missed else 0


def _run(name: str, *, is_quick: bool) -> list[Figure]:
    module = importlib.import_module(f"benchmarks.{name}")
    run = getattr(module, "run_quick", module.run) if is_quick else module.run
    figures: list[Figure] = run()
    return figures


def _conditions(load_before: float) -> str:
    """What else was going on: on a machine that others use, only ratios and CPU times mean much."""
    return (
        f"{os.cpu_count()} cores, {platform.system()} {platform.release()}, Python {platform.python_version()}, "
        f"{'uvloop' if find_spec('uvloop') else 'asyncio'}, "
        f"load {load_before:.1f} before and {os.getloadavg()[0]:.1f} after"
    )


def _report(name: str, figures: list[Figure], conditions: str) -> dict[str, Any]:
    return {
        "benchmark": name,
        "conditions": conditions,
        "figures": [{**asdict(figure), "met": figure.met} for figure in figures],
    }


def _table(name: str, figures: list[Figure], conditions: str) -> Table:
    table = Table(title=name, title_justify="left", caption=conditions, caption_justify="left")
    table.add_column("figure")
    table.add_column("measured", justify="right")
    who, peers = peer_column(figures)
    if who:
        table.add_column(who, justify="right")
        table.add_column("ratio", justify="right")
    table.add_column("goal", justify="right")
    table.add_column("")
    table.add_column("note")
    for figure, peer in zip(figures, peers, strict=True):
        measured = [f"{_number(figure.value)} {figure.unit}"]
        if who:
            measured += [peer, "" if figure.ratio is None else f"{_number(figure.ratio)} x"]
        table.add_row(figure.name, *measured, _goal(figure), _VERDICTS[figure.met], figure.note)
    return table


def peer_column(figures: list[Figure]) -> tuple[str, list[str]]:
    """Its head, empty if nobody is there to compare with, and its cells; they say who it is if there are several."""
    names = sorted({figure.peer_name for figure in figures if figure.peer is not None})
    prefixes = {figure.peer_name: f"{figure.peer_name} " if len(names) > 1 else "" for figure in figures}
    cells = ["" if each.peer is None else f"{prefixes[each.peer_name]}{_number(each.peer)}" for each in figures]
    return "peer" if len(names) > 1 else "".join(names), cells


def _goal(figure: Figure) -> str:
    if figure.goal is None:
        return ""
    unit = "x" if figure.is_ratio_goal else figure.unit
    return f"{'≤' if figure.at_most else '≥'} {_number(figure.goal)} {unit}"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
