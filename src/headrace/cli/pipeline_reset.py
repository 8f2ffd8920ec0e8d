"""What `headrace pipeline reset` does: it shows a plan, asks, and carries it out; or undoes the last one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from headrace.cli.output import Column, Complaint, TableWriter, confirm, print_json
from headrace.cli.pipeline_apps import Chosen, ask_in_time, chosen, plan_errors
from headrace.cli.values import parse_partition, parse_time
from headrace.client.topic_partition import TopicPartition
from headrace.streams import resetting
from headrace.streams.ranges import Target
from headrace.streams.resetting import Reset

if TYPE_CHECKING:
    from headrace.client.admin import AsyncAdmin

_TARGETS: Final = "Give one of --to-earliest, --to-time and --to-offset, or --undo."


def reset(
    *,
    app: str,
    to_earliest: bool,
    to_time: str | None,
    to_offsets: Sequence[str],
    undo: bool,
    dry_run: bool,
    yes: bool,
    state: str | None,
    as_json: bool,
    timeout: float,
    bootstrap: str | None,
) -> None:
    if sum((to_earliest, to_time is not None, bool(to_offsets), undo)) != 1:
        raise Complaint("Where to?", hint=_TARGETS)
    if undo:
        _undo(app, state, bootstrap, timeout, dry_run=dry_run, yes=yes, as_json=as_json)
        return
    found = chosen(app, state=state, bootstrap=bootstrap)
    if found.known.is_running and not dry_run:
        raise Complaint(f"{found.name} runs: stop it first.", hint=f"Its state is in {found.state}.")

    async def question(admin: AsyncAdmin) -> Reset:
        target = await _target(admin, to_time, to_offsets)
        return await resetting.plan_reset(admin, _plans(found), found.state, target)

    planned = ask_in_time(found.bootstrap, question, timeout)
    if not as_json:
        _show(planned)
    if not dry_run:
        confirm(f"Reset {found.name}?", yes=yes)

        async def action(admin: AsyncAdmin) -> None:
            await resetting.carry_out(admin, planned)

        ask_in_time(found.bootstrap, action, timeout)
    if as_json:
        print_json({**_json(planned), "done": not dry_run})
    elif dry_run:
        click.echo("This was a dry run: nothing has changed.", err=True)
    else:
        click.echo(f"{found.name} begins there when it runs again. `headrace pipeline reset --undo` takes it back.")


def _plans(found: Chosen) -> list[Any]:
    """That of the file first; that of the last run knows of topics and groups that the file may not have any more."""
    saved = found.known.plan
    return [found.plan] if saved is None or found.app is None else [found.plan, saved]


async def _target(admin: AsyncAdmin, time: str | None, offsets: Sequence[str]) -> Target:
    if time is not None:
        moment = parse_time(time.removeprefix("@"))
        if moment == "earliest":
            return Target()
        if isinstance(moment, str):
            raise Complaint(f"--to-time {time} is no time.", hint="Such as 2024-05-01T12:00Z or '2h ago'.")
        return Target(time_ms=moment)
    if not offsets:
        return Target()
    everywhere, by_partition = await read_offsets(admin, offsets, option="--to-offset")
    return Target(offset=everywhere, offsets=by_partition)


async def read_offsets(
    admin: AsyncAdmin, texts: Sequence[str], *, option: str
) -> tuple[int | None, dict[TopicPartition, int]]:
    """Of N, TOPIC=N and TOPIC:PARTITION=N: the one for all partitions, and those of some. Raises Complaint."""
    everywhere: int | None = None
    found: dict[TopicPartition, int] = {}
    for text in texts:
        place, equals, number = text.rpartition("=")
        if not (number.isascii() and number.isdigit()):
            raise Complaint(f"{option} {text}: an offset is expected.", hint=f"Such as {option} orders:0=1200")
        if not equals:
            everywhere = int(number)
            continue
        topic, partition = parse_partition(place)
        described = await admin.describe_topic(topic)
        every = [each.number for each in described.partitions]
        found |= {TopicPartition(topic, each): int(number) for each in (every if partition is None else [partition])}
    return everywhere, found


def _show(planned: Reset) -> None:
    aside = ", ".join(planned.checkpoints) or "none"
    click.echo(f"Checkpoints that are moved aside, in {planned.state}: {aside}")
    click.echo(f"Groups that are deleted, with their markers: {', '.join(planned.groups) or 'none'}")
    click.echo(f"Topics of its own that the next run empties: {', '.join(planned.internal_topics) or 'none'}")
    table = TableWriter()
    table.start([Column("query"), Column("topic"), *(Column(name, right=True) for name in _NUMBERS), Column("")])
    for query, starts in planned.starts.items():
        for each in starts:
            topic, number = each.partition
            waits = max(each.end - each.offset, 0)
            table.row([query, topic, str(number), str(each.offset), str(each.end), str(waits), each.note])
    table.flush()


_NUMBERS: Final = ("partition", "begins at", "end", "to read")


def _json(planned: Reset) -> dict[str, Any]:
    return {
        "app": planned.app,
        "state": planned.state,
        "checkpoints": list(planned.checkpoints),
        "groups": list(planned.groups),
        "internal_topics": list(planned.internal_topics),
        "starts": [
            {
                "query": query,
                "topic": each.partition.topic,
                "partition": each.partition.partition,
                "offset": each.offset,
                "end": each.end,
                "note": each.note,
            }
            for query, starts in planned.starts.items()
            for each in starts
        ],
    }


def _undo(
    app: str, state: str | None, bootstrap: str | None, timeout: float, *, dry_run: bool, yes: bool, as_json: bool
) -> None:
    found = _of_undo(app, state, bootstrap)
    if dry_run:
        raise Complaint("--undo has no dry run: it brings back what the last reset has moved aside.")
    confirm(f"Undo the last reset of {found[0]}? State of runs since is dropped.", yes=yes)

    async def action(admin: AsyncAdmin) -> tuple[str, ...]:
        return await resetting.undo(admin, found[0], found[1])

    back = ask_in_time(found[2], action, timeout)
    if as_json:
        print_json({"app": found[0], "state": found[1], "checkpoints": list(back), "done": True})
    else:
        click.echo(f"{found[0]} goes on where it was before the reset: {', '.join(back) or 'without any checkpoint'}.")


def _of_undo(app: str, state: str | None, bootstrap: str | None) -> tuple[str, str, str]:
    """Name, state and cluster; the plan of the last run was moved aside, too, so that it is not there to be asked."""
    import os

    from headrace.cli.connect import DEFAULT
    from headrace.streams.app import default_state
    from headrace.streams.known_apps import last_progress
    from headrace.streams.loading import is_file, load_app
    from headrace.streams.naming import checked_name
    from headrace.streams.state_directory import state_path

    with plan_errors():
        if is_file(app) or os.path.isfile(app):
            loaded = load_app(app)
            return loaded.name, state_path(state or loaded.state), bootstrap or loaded.bootstrap
        where = state_path(state or default_state(checked_name(app, what="the name of the app")))
    progress = last_progress(where)
    return app, where, bootstrap or (DEFAULT if progress is None else progress.bootstrap)
