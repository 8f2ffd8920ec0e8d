"""What `headrace pipeline describe` and `list` show: plans, and how far those that run are."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from headrace.cli.connect import DEFAULT
from headrace.cli.output import Column, Complaint, TableWriter, Unreachable, print_json, show_duration
from headrace.cli.pipeline_apps import Chosen, ask_in_time, chosen
from headrace.cli.pipeline_view import COLUMNS, cells, query_json
from headrace.streams.explain import explain_mermaid, explain_text
from headrace.streams.known_apps import KnownApp, apps_of_cluster, apps_of_this_machine, lags, queries_of
from headrace.streams.plan_json import plan_to_json
from headrace.streams.progress import QueryProgress
from headrace.streams.queries import Query

if TYPE_CHECKING:
    from headrace.client.admin import AsyncAdmin


def describe(
    *, app: str, mermaid: bool, state: str | None, as_json: bool, timeout: float, bootstrap: str | None
) -> None:
    if mermaid and as_json:
        raise Complaint("--mermaid and --json exclude one another.")
    found = chosen(app, state=state, bootstrap=bootstrap)
    if mermaid:
        click.echo(explain_mermaid(found.plan), nl=False)
        return
    progress = _progress(found, timeout)
    if as_json:
        print_json(_json(found, progress))
        return
    click.echo(explain_text(found.plan))
    click.echo(_status(found.known))
    if progress:
        table = TableWriter()
        table.start(COLUMNS)
        for each in progress:
            table.row(cells(each))
        table.flush()


def _progress(found: Chosen, timeout: float) -> tuple[QueryProgress, ...]:
    """What the running app says, else what the cluster knows; nothing if neither is there."""
    known = found.known
    if known.is_running and known.progress is not None:
        return known.progress.queries
    queries = queries_of(found.plan)

    async def question(admin: AsyncAdmin) -> dict[str, int]:
        return await lags(admin, found.name, queries)

    try:
        waiting = ask_in_time(found.bootstrap, question, timeout)
    except Unreachable as error:
        click.echo(f"Lag is not known: {error.message}", err=True)
        return ()
    before = {each.query: each for each in known.progress.queries} if known.progress is not None else {}
    return tuple(_resting(before.get(query.name), query, waiting[query.name]) for query in queries)


def _resting(last: QueryProgress | None, query: Query, lag: int) -> QueryProgress:
    """Of a query that does not run: what it was when it ended, and the lag of now."""
    return replace(last or QueryProgress(query.name), rows_per_second=0.0, lag=lag)


def _status(known: KnownApp) -> str:
    progress = known.progress
    if known.is_running:
        if progress is None:
            return "It is starting."
        for_ = show_duration(max(int((time.time() - progress.started) * 1000), 0))
        return f"It runs for {for_}, in process {progress.pid} of {progress.host}."
    if progress is None:
        return f"It does not run. Its state is to be in {known.state}."
    ago = show_duration(max(int((time.time() - progress.at) * 1000), 0))
    return f"It does not run; it ended {ago} ago. Its state is in {known.state}."


def _json(found: Chosen, progress: Iterable[QueryProgress]) -> dict[str, Any]:
    by_name = {each.query: query_json(each) for each in progress}
    known = found.known
    return {
        "app": found.name,
        "running": known.is_running,
        "pid": known.progress.pid if known.progress is not None and known.is_running else None,
        "host": known.progress.host if known.progress is not None and known.is_running else None,
        "bootstrap": found.bootstrap,
        "state": found.state,
        "queries": [_query_json(query, by_name.get(query.name)) for query in queries_of(found.plan)],
        "plan": json.loads(plan_to_json(found.plan)),
    }


def _query_json(query: Query, progress: dict[str, object] | None) -> dict[str, Any]:
    return {
        "name": query.name,
        "mode": query.mode,
        "reads": [topic for source in query.sources for topic in source.topics or (f"/{source.pattern}/",)],
        "writes": [str(sink.topic) for sink in query.sinks],
        "state": [node.name for node in query.stateful],
        "progress": progress,
    }


def list_apps(*, as_json: bool, timeout: float, bootstrap: str | None) -> None:
    local = {app.name: app for app in apps_of_this_machine()}

    async def question(admin: AsyncAdmin) -> tuple[dict[str, tuple[str, ...]], dict[str, int]]:
        groups = await apps_of_cluster(admin, local)
        plans = {name: app.plan for name, app in local.items() if app.plan is not None and name in groups}
        waiting = {name: sum((await lags(admin, name, queries_of(plan))).values()) for name, plan in plans.items()}
        return groups, waiting

    try:
        groups, waiting = ask_in_time(bootstrap or DEFAULT, question, timeout)
    except Unreachable as error:
        if not local:
            raise
        click.echo(f"Only pipelines of this machine are known: {error.message}", err=True)
        groups, waiting = {}, {}
    names = sorted({*local, *groups})
    if as_json:
        for name in names:
            print_json(_listed_json(name, local.get(name), groups.get(name, ()), waiting.get(name)))
        return
    if not names:
        click.echo("There are no pipelines. `headrace pipeline run FILE` runs one.", err=True)
        return
    table = TableWriter()
    table.start(
        [Column("app"), Column("runs"), Column("groups", right=True), Column("lag", right=True), Column("state")]
    )
    for name in names:
        app, lag = local.get(name), waiting.get(name)
        runs = "?" if app is None else "yes" if app.is_running else "no"
        state = "elsewhere" if app is None else app.state or "-"
        table.row([name, runs, str(len(groups.get(name, ()))), "-" if lag is None else f"{lag:,}", state])
    table.flush()


def _listed_json(name: str, app: KnownApp | None, groups: tuple[str, ...], lag: int | None) -> dict[str, Any]:
    return {
        "app": name,
        "running": None if app is None else app.is_running,
        "groups": list(groups),
        "lag": lag,
        "state": None if app is None else app.state,
    }
