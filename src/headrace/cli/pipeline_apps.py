"""Which pipeline a command means, and what can go wrong with pipelines, in the words of somebody before a shell."""

from __future__ import annotations

import os
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from headrace.cli.connect import DEFAULT, ask, complaints, nearest
from headrace.cli.output import Complaint, Unreachable
from headrace.streams.app import App, default_state
from headrace.streams.known_apps import KnownApp, app_in, apps_of_this_machine
from headrace.streams.loading import is_file, load_app
from headrace.streams.naming import checked_name
from headrace.streams.plan import Plan
from headrace.streams.saved_plan import saved_plan
from headrace.streams.state_directory import state_path

if TYPE_CHECKING:
    from headrace.client.admin import AsyncAdmin

Result = TypeVar("Result")


class Chosen(NamedTuple):
    """`app` is there if a file was named; `known` is what its state directory says. `plan` is that of the file, or of
    the last run."""

    name: str
    plan: Plan
    bootstrap: str
    state: str
    known: KnownApp
    app: App | None


def chosen(text: str, *, state: str | None = None, bootstrap: str | None = None) -> Chosen:
    """Of APP or FILE. Raises Complaint."""
    with plan_errors():
        if is_file(text) or os.path.isfile(text):
            app = load_app(text)
            where = os.path.abspath(state_path(state or app.state))
            return Chosen(app.name, app.plan, bootstrap or app.bootstrap, where, app_in(where, app.name), app)
        where = os.path.abspath(state_path(state or default_state(checked_name(text, what="the name of the app"))))
        known = app_in(where, text)
        plan = saved_plan(where)
    if plan is None:
        names = [app.name for app in apps_of_this_machine()]
        hint = nearest(text, names) or "`headrace pipeline list` shows those that have; else name its FILE, or --state."
        raise Complaint(f"No pipeline {text} has run on this machine, with its state in {where}.", hint=hint)
    said = known.progress.bootstrap if known.progress is not None else DEFAULT
    return Chosen(text, plan, bootstrap or said, where, known, None)


@contextmanager
def plan_errors(bootstrap: str = "") -> Iterator[None]:
    """What is wrong with a plan, a file or a master as a complaint."""
    from headrace.spark.java import NoJavaError

    try:
        with complaints(bootstrap):
            yield
    except (NoJavaError, ConnectionError) as error:
        raise Complaint(str(error)) from None


def ask_in_time(
    bootstrap: str, question: Callable[[AsyncAdmin], Coroutine[Any, Any, Result]], timeout: float
) -> Result:
    """All calls of a question together. Raises Complaint."""

    async def bounded(admin: AsyncAdmin) -> Result:
        import asyncio

        try:
            async with asyncio.timeout(timeout):
                return await question(admin)
        except TimeoutError:
            raise Unreachable(f"The cluster has not answered everything within {timeout:g} s.") from None

    with plan_errors(bootstrap):
        return ask(bootstrap, bounded)


def need_spark(master: str) -> None:
    """What Spark needs, before it is started: its own page of Java comes ten seconds later. Raises Complaint."""
    from headrace.spark.java import find_java
    from headrace.spark.master import check_master

    for module in ("pyspark", "pyarrow", "pandas"):
        if find_spec(module) is None:
            raise Complaint(f"pipelines need {module}, which is not installed.", hint="pip install 'headrace[spark]'")
    with plan_errors():
        check_master(master)
        find_java(os.environ)
