"""The examples show the whole language: by their plans, which need no Spark, and by what their programs call."""

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest

import headrace.streams
from headrace.streams import App, CogroupedStream, Context, GroupedStream, GroupedTable, Stream, Table, WindowedStream
from headrace.streams import plan as plans
from headrace.streams.aggregates import KINDS
from headrace.streams.errors import PlanError
from headrace.streams.loading import load_app
from headrace.streams.plan import Aggregate, Emit, Grouping, How, Node, Process, Sink, Source
from headrace.streams.queries import cut
from headrace.streams.rewrites import rewrite
from headrace.streams.serdes import SERDES
from headrace.streams.windows import Window

EXAMPLES = Path(__file__).parents[3] / "examples"
PIPELINES = sorted((EXAMPLES / "pipelines").glob("*.py"))
# Nobody writes these: the compiler does, or another method makes them.
MADE_BY_OTHERS = {"Node", "Grouping", "End", "DeadLetters", "LateLetters"}
# Of the app: what operations are made by, and how it is run as data.
NOT_THE_LANGUAGE = {"add_sink", "note", "leave_by", "deployment"}


def nodes() -> Iterator[Node]:
    """Of all examples that have an app at their top level."""
    for path in PIPELINES:
        try:
            app = load_app(str(path))
        except PlanError:
            continue
        yield from app.plan.nodes()


@pytest.fixture(scope="module")
def shown() -> list[Node]:
    return list(nodes())


def test_every_operator_has_an_example(shown: list[Node]) -> None:
    every = {
        name for name, it in vars(plans).items() if inspect.isclass(it) and issubclass(it, Node) and "_" not in name
    }
    assert every - MADE_BY_OTHERS - {type(node).__name__ for node in shown} == set()
    assert "StreamJoin" in every, "the list is not empty by chance"


def test_every_variant_of_an_operator_has_an_example(shown: list[Node]) -> None:
    windows = {type(node.window) for node in shown if isinstance(node, Grouping)}
    assert set(get_args(Window)) - windows == set()
    assert set(get_args(Emit)) - {node.emit for node in shown if isinstance(node, Grouping)} == set()
    aggregations = {it.kind for node in shown if isinstance(node, Aggregate) for _, it in node.aggregations}
    assert set(KINDS) - aggregations == set()
    assert set(get_args(How)) - {how for node in shown if (how := getattr(node, "how", None))} == set()
    states = {state.kind for node in shown if isinstance(node, Process) for _, state in node.states}
    assert states == {"value", "list", "map"}
    assert {node.timers for node in shown if isinstance(node, Process)} == {"event", "processing"}
    serdes = {type(it) for node in shown if isinstance(node, Source | Sink) for it in (node.key, node.value)}
    assert set(SERDES) - serdes == set()


def test_every_name_of_the_language_is_used_in_an_example() -> None:
    used = {name for path in PIPELINES + sorted(EXAMPLES.glob("*.py")) for name in _names(path)}
    functions = {name for name in headrace.streams.__all__ if inspect.isfunction(getattr(headrace.streams, name))}
    methods = {
        name
        for it in (App, Stream, Table, GroupedStream, GroupedTable, WindowedStream, CogroupedStream, Context)
        for name, member in inspect.getmembers(it)
        if not name.startswith("_") and callable(member)
    }
    # Those of tools, which are no part of a pipeline.
    tools = {"compatible", "plan_from_json", "plan_to_json"}
    assert functions - tools - used == set()
    assert methods - NOT_THE_LANGUAGE - used == set()


@pytest.mark.parametrize("path", PIPELINES, ids=lambda path: path.stem)
def test_each_is_a_page(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= 90


def test_plans_of_examples_can_be_cut(shown: list[Node]) -> None:
    assert shown
    for path in PIPELINES:
        try:
            app = load_app(str(path))
        except PlanError:
            continue
        assert cut(rewrite(app.plan))


def _names(path: Path) -> Iterator[str]:
    """What a program calls or decorates with, by the last part of its name."""
    for node in ast.walk(ast.parse(path.read_text())):
        functions: list[Any] = [node.func] if isinstance(node, ast.Call) else getattr(node, "decorator_list", [])
        for function in functions:
            yield function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
