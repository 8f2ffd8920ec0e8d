"""What `headrace pipeline run` does: it starts an app, shows how far it is, and stops it when it is asked to."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import click

from headrace.cli.connect import ask
from headrace.cli.output import Finding
from headrace.cli.pipeline_apps import need_spark, plan_errors
from headrace.cli.pipeline_view import Lines, Screen, View, bar, show_summary
from headrace.streams.durations import duration_ms
from headrace.streams.errors import QueryFailedError
from headrace.streams.known_apps import lags, queries_of
from headrace.streams.loading import load_app
from headrace.streams.runnable import check_runnable, left_out
from headrace.streams.state_directory import state_path

if TYPE_CHECKING:
    from headrace.client.admin import AsyncAdmin
    from headrace.streams.compiler.running import Deployment
    from headrace.streams.progress import AppProgress

_REFRESH_SECONDS: Final = 1.0


class Stopped(Exception):  # noqa: N818 it is no error
    """Somebody has asked for the end while there was still work to do."""


def run(
    *,
    file: str,
    trigger: str | None,
    max_per_trigger: int | None,
    until_caught_up: bool,
    master: str | None,
    state: str | None,
    as_json: bool,
    bootstrap: str | None,
) -> None:
    deployment = deployed(
        file, master=master, state=state, trigger=trigger, max_per_trigger=max_per_trigger, bootstrap=bootstrap
    )
    plan = deployment.plan

    async def backlog(admin: AsyncAdmin) -> int:
        return sum((await lags(admin, plan.app, queries_of(plan))).values())

    waiting = ask(deployment.bootstrap, backlog)  # and whether a broker answers, before Spark is started
    _announce(deployment)
    if until_caught_up:
        _catch_up(deployment, waiting, as_json=as_json)
    else:
        _run(deployment, as_json=as_json)


def deployed(
    file: str,
    *,
    master: str | None,
    bootstrap: str | None,
    state: str | None = None,
    trigger: str | None = None,
    max_per_trigger: int | None = None,
    runs_itself: bool = True,
) -> Deployment:
    """The app of a file as it says, but for what the options say; Spark can be started then.

    With `runs_itself` its plan must be one that can be run. Raises Complaint.
    """
    with plan_errors():
        app = load_app(file)
        plan = app.plan
        if runs_itself and plan.loose:
            click.echo(f"Note: {left_out(plan)}.", err=True)
        plan = replace(plan, loose=())  # this was said
        if runs_itself:
            check_runnable(plan)
    need_spark(master or app.master)
    from headrace.streams.compiler.shipping import ship

    ship(os.path.dirname(os.path.abspath(file.rpartition(":")[0] or file)))
    with plan_errors():
        said = app.deployment()
        return replace(
            said,
            plan=plan,
            master=master or said.master,
            state=os.path.abspath(state_path(state or said.state)),
            bootstrap=bootstrap or said.bootstrap,
            trigger_ms=said.trigger_ms if trigger is None else duration_ms(trigger, what="--trigger"),
            max_per_trigger=max_per_trigger or said.max_per_trigger,
        )


def _announce(deployment: Deployment) -> None:
    queries = queries_of(deployment.plan)
    count = "1 query" if len(queries) == 1 else f"{len(queries)} queries"
    click.echo(
        f"{deployment.plan.app}: {count} on {deployment.master}, topics at {deployment.bootstrap}, "
        f"state in {deployment.state}. Ctrl-C stops it.",
        err=True,
    )


def _run(deployment: Deployment, *, as_json: bool) -> None:
    from headrace.streams.compiler.running import start

    stopping = threading.Event()

    def look(_: AppProgress) -> None:
        _take_signals(stopping)  # PySpark has put its own in their place, which would cancel what runs
        if stopping.is_set():
            raise Stopped

    with failures(stopping), asked_to_stop(stopping), suppress(Stopped), start(deployment, None, look) as running:
        _take_signals(stopping)
        is_watched = sys.stdout.isatty() and not as_json
        view: View = Screen() if is_watched else Lines(as_json=as_json)
        with view:
            while not stopping.is_set() and not running.wait(timeout=_REFRESH_SECONDS):
                view.show(running.progress())
            view.show(running.progress(), at_once=True)
    click.echo(f"{deployment.plan.app} has stopped. The next run goes on from here.", err=True)


def _catch_up(deployment: Deployment, waiting: int, *, as_json: bool) -> None:
    from headrace.streams.compiler.running import catch_up

    stopping = threading.Event()
    with failures(stopping), asked_to_stop(stopping), bar(waiting) as advance:

        def show(progress: AppProgress) -> None:
            _take_signals(stopping)
            advance(sum(query.rows for query in progress.queries))
            if stopping.is_set():
                raise Stopped

        try:
            done = catch_up(deployment, on_progress=show)
        except Stopped:
            click.echo("Stopped. The next run goes on from here.", err=True)
            return
    show_summary(done, as_json=as_json)


@contextmanager
def asked_to_stop(stopping: threading.Event) -> Iterator[None]:
    """Ctrl-C and SIGTERM set the event; both are as they were afterwards."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    _take_signals(stopping)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _take_signals(stopping: threading.Event) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopping.set())


@contextmanager
def failures(stopping: threading.Event | None = None) -> Iterator[None]:
    """A query that failed, as a finding. One that fails because everything was told to end has not failed."""
    from headrace.streams.compiler.failures import told_shortly

    try:
        with plan_errors(), told_shortly():
            yield
    except QueryFailedError as error:
        if stopping is None or not stopping.is_set():
            raise Finding(str(error), hint="The next run does again what was not written.") from None
