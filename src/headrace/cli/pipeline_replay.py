"""What `headrace pipeline replay` and `replay-dead` do: the same plan as a batch, over a part of what there is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from headrace.cli.connect import ask
from headrace.cli.output import Complaint, Finding, print_json, show_bytes, show_count
from headrace.cli.pipeline_apps import plan_errors
from headrace.cli.pipeline_reset import read_offsets
from headrace.cli.pipeline_run import deployed, failures
from headrace.cli.pipeline_view import bar
from headrace.cli.values import parse_time
from headrace.streams.ranges import Target

if TYPE_CHECKING:
    from headrace.client.admin import AsyncAdmin
    from headrace.client.topic_partition import TopicPartition
    from headrace.streams.compiler.replaying import Range
    from headrace.streams.feeding import Record


def replay(
    *,
    file: str,
    start: Sequence[str],
    end: Sequence[str],
    topic: str | None,
    master: str | None,
    as_json: bool,
    bootstrap: str | None,
) -> None:
    deployment = deployed(file, master=master, bootstrap=bootstrap)
    plan, where = deployment.plan, deployment.bootstrap
    from headrace.streams.compiler import replaying

    async def question(admin: AsyncAdmin) -> dict[TopicPartition, Range]:
        first = await _target(admin, start, option="--from")
        return await replaying.ranges_of(admin, plan, first, await _target(admin, end, option="--to"))

    with plan_errors(where):
        ranges = ask(where, question)
    total = sum(each.end - each.start for each in ranges.values())
    click.echo(f"{plan.app}: {show_count(total, 'record')} on {deployment.master}, from {where}", err=True)

    def show(records: Any, _: str) -> None:
        for name, record in replaying.collected(records):
            _print(name, record, as_json=as_json)

    written = show if topic is None else replaying.written_to(topic, where)
    with failures(), bar(total) as advance:
        replaying.replay(plan, where, ranges, written, master=deployment.master)
        advance(total)
    if topic is not None:
        click.echo(f"The results are in {topic}.", err=True)


async def _target(admin: AsyncAdmin, texts: Sequence[str], *, option: str) -> Target:
    """Of times and offsets: one time, or offsets. Raises Complaint."""
    if not texts:
        return Target()
    if all(text.rpartition("=")[2].isdigit() for text in texts):
        everywhere, by_partition = await read_offsets(admin, texts, option=option)
        return Target(offset=everywhere, offsets=by_partition)
    if len(texts) > 1:
        raise Complaint(f"{option} takes one time, or offsets of partitions.", hint=f"Such as {option} orders:0=1200")
    moment = parse_time(texts[0].removeprefix("@"))
    if isinstance(moment, str):
        if moment in ("earliest", "latest"):
            return Target()
        raise Complaint(f"{option} {texts[0]} is no time.", hint="Such as 2024-05-01T12:00Z or '2h ago'.")
    return Target(time_ms=moment)


def _print(topic: str, record: Record, *, as_json: bool) -> None:
    if as_json:
        headers = [[name, value] for name, value in record.headers]
        moment = int(record.timestamp.timestamp() * 1000)
        print_json(
            {"topic": topic, "key": record.key, "value": record.value, "headers": headers, "timestamp_ms": moment}
        )
    else:
        click.echo(f"{topic}  {show_bytes(record.key)}  {show_bytes(record.value)}")


def replay_dead(
    *,
    file: str,
    resend: bool,
    dry_run: bool,
    master: str | None,
    as_json: bool,
    bootstrap: str | None,
) -> None:
    deployment = deployed(file, master=master, bootstrap=bootstrap, runs_itself=False)
    plan, where = deployment.plan, deployment.bootstrap
    from headrace.streams.compiler import replaying_dead as dead

    ask(where, _ping)
    with plan_errors(where), failures():
        if not resend:
            dead.check_replayable(plan)
        if dry_run:
            waiting = dead.letters(plan, where, dead.waiting_letters(plan, where))
            done = dead.Replayed(sum(1 for _ in waiting), 0, 0)
        elif resend:
            done = dead.resend(plan, where)
        else:
            done = dead.replay_dead(plan, where, master=deployment.master)
    if as_json:
        print_json({"app": plan.app, **done._asdict(), "done": not dry_run})
    elif dry_run:
        click.echo(f"{show_count(done.letters, 'dead letter')} of {plan.dead_letters} would be replayed.")
    elif resend:
        click.echo(f"{show_count(done.letters, 'dead letter')}: {show_count(done.records, 'record')} sent again.")
    else:
        click.echo(f"{show_count(done.letters, 'dead letter')}: {show_count(done.records, 'record')} written.")
    if done.still_dead:
        where_to = f"The headers of the new ones in {plan.dead_letters} say why."
        raise Finding(f"{done.still_dead} of them are still dead.", hint=where_to)


async def _ping(admin: AsyncAdmin) -> None:
    await admin.ping()
