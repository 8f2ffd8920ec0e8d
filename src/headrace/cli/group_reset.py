"""What `headrace group reset` does: it makes a plan, shows it, asks, and commits it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import IO, TYPE_CHECKING, Final

import click

from headrace.cli.connect import ask, nearest
from headrace.cli.group_describe import label
from headrace.cli.group_plan import Move, Target, as_csv, moves, parse_target, read_offsets
from headrace.cli.output import Column, Complaint, Finding, TableWriter, confirm, print_json, show_count, show_number
from headrace.cli.topic_actions import expand_partitions
from headrace.cli.values import parse_partition
from headrace.client.errors import UnknownGroupError
from headrace.client.topic_partition import TopicPartition

if TYPE_CHECKING:
    from headrace.client.admin import AsyncAdmin
    from headrace.client.admin_groups import CommittedOffset, MemberDescription

_TOLD_MEMBERS: Final = 3
_PLAN: Final = [
    Column("topic"),
    Column("partition", right=True),
    Column("committed", right=True),
    Column("new", right=True),
    Column("change", right=True),
    Column("lag", right=True),
    Column(""),
]


def reset(
    *,
    group: str,
    names: Sequence[str],
    all_topics: bool,
    to: str | None,
    shift: int | None,
    file: IO[str] | None,
    dry_run: bool,
    export: bool,
    yes: bool,
    as_json: bool,
    timeout: float,
    bootstrap: str,
) -> None:
    if export and as_json:
        raise Complaint("--export and --json exclude one another.")
    target = parse_target(to, shift, None if file is None else lambda: _read(file, group))
    _check_selection(group, names, target, all_topics=all_topics)

    async def question(admin: AsyncAdmin) -> tuple[list[Move], tuple[MemberDescription, ...]]:
        members = await _members(admin, group, timeout)
        committed = await admin.list_group_offsets(group, timeout=timeout)
        partitions = await _partitions(admin, group, names, target, committed, timeout)
        return await _plan(admin, target, partitions, committed, timeout), members

    plan, members = ask(bootstrap, question)
    if members and not dry_run:
        raise Complaint(_busy(group, members), hint="Stop them first, and wait until the group is Empty.")
    is_for_people = not export and not as_json
    if is_for_people:
        _show(plan)
    if not dry_run:
        confirm(f"Set {show_count(len(plan), 'offset')} of {group}?", yes=yes)
        _commit(group, plan, timeout, bootstrap)
    if export:
        click.echo(as_csv(plan), nl=False)
    elif as_json:
        _print_plan(group, plan, is_done=not dry_run)
    elif dry_run:
        click.echo("This was a dry run: nothing has changed.", err=True)
    else:
        click.echo(f"{group} goes on there.")
    if members:
        raise Finding(_busy(group, members), hint="They must be stopped before it can be reset.")


def _check_selection(group: str, names: Sequence[str], target: Target, *, all_topics: bool) -> None:
    if all_topics and names:
        raise Complaint("--all-topics needs no names of topics.")
    if all_topics and target.by_partition is not None:
        raise Complaint("--from-file says itself which partitions are meant; leave --all-topics out.")
    if not names and not all_topics and target.by_partition is None:
        raise Complaint(
            "Which topics?", hint=f"Such as `headrace group reset {group} TOPIC …`, TOPIC:PARTITION, or --all-topics."
        )


def _read(file: IO[str], group: str) -> dict[TopicPartition, int]:
    return read_offsets(file.read(), group=group, source=file.name)


async def _members(admin: AsyncAdmin, group: str, timeout: float) -> tuple[MemberDescription, ...]:
    """None if there is no such group, too: it comes into being when offsets are committed for it."""
    try:
        return (await admin.describe_group(group, timeout=timeout)).members
    except UnknownGroupError:
        known = [each.id for each in await admin.list_groups(timeout=timeout)]
        click.echo(f"There is no group {group!r} so far. {nearest(group, known)}".rstrip(), err=True)
        return ()


async def _partitions(
    admin: AsyncAdmin,
    group: str,
    names: Sequence[str],
    target: Target,
    committed: dict[TopicPartition, CommittedOffset],
    timeout: float,
) -> list[TopicPartition]:
    if target.by_partition is not None:
        return _chosen_of_file(target.by_partition, names)
    if names:
        return list(dict.fromkeys(await expand_partitions(admin, names, timeout)))
    if not committed:
        raise Complaint(f"{group} has committed nothing.", hint="Name the topics that it is to read.")
    return sorted(committed)


def _chosen_of_file(offsets: Iterable[TopicPartition], names: Sequence[str]) -> list[TopicPartition]:
    """What the file has, or what it has of TOPIC or TOPIC:PARTITION."""
    wanted = [parse_partition(name) for name in names]
    fitting = [
        each
        for each in sorted(offsets)
        if not wanted or any(each.topic == topic and number in (None, each.partition) for topic, number in wanted)
    ]
    if not fitting:
        raise Complaint(f"The file has nothing for {', '.join(names)}.")
    return fitting


async def _plan(
    admin: AsyncAdmin,
    target: Target,
    partitions: Sequence[TopicPartition],
    committed: dict[TopicPartition, CommittedOffset],
    timeout: float,
) -> list[Move]:
    async def listed(spec: str | int) -> dict[TopicPartition, int]:
        found = await admin.list_offsets(dict.fromkeys(partitions, spec), timeout=timeout)
        return {partition: each.offset for partition, each in found.items()}

    return moves(
        target,
        partitions,
        committed={partition: each.offset for partition, each in committed.items()},
        firsts=await listed("earliest"),
        ends=await listed("latest"),
        found={} if target.spec is None else await listed(target.spec),
    )


def _commit(group: str, plan: Sequence[Move], timeout: float, bootstrap: str) -> None:
    async def question(admin: AsyncAdmin) -> None:
        await admin.alter_group_offsets(group, {move.partition: move.offset for move in plan}, timeout=timeout)

    ask(bootstrap, question)


def _busy(group: str, members: Sequence[MemberDescription]) -> str:
    told = ", ".join(f"{label(member)} at {member.host}" for member in members[:_TOLD_MEMBERS])
    more = f" and {len(members) - _TOLD_MEMBERS} more" if len(members) > _TOLD_MEMBERS else ""
    return f"{group} has {show_count(len(members), 'member')}, which would go on where they are: {told}{more}."


def _show(plan: Iterable[Move]) -> None:
    table = TableWriter()
    table.start(_PLAN)
    for move in plan:
        change = "-" if move.committed is None else f"{move.offset - move.committed:+d}"
        table.row(
            [
                move.partition.topic,
                str(move.partition.partition),
                show_number(move.committed),
                str(move.offset),
                change,
                str(move.end - move.offset),
                move.note,
            ]
        )
    table.flush()


def _print_plan(group: str, plan: Iterable[Move], *, is_done: bool) -> None:
    for move in plan:
        print_json(
            {
                "group": group,
                **move.partition._asdict(),
                "committed": move.committed,
                "offset": move.offset,
                "end": move.end,
                "note": move.note,
                "done": is_done,
            }
        )
