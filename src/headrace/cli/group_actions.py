"""What `headrace group` does to list groups and to delete them, or parts of what they have committed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import click

from headrace.cli.connect import ask, ask_about_each
from headrace.cli.output import Column, Complaint, TableWriter, confirm, print_json
from headrace.cli.values import parse_partition
from headrace.client.errors import UnknownGroupError

if TYPE_CHECKING:
    from headrace.client.admin import AsyncAdmin
    from headrace.client.admin_groups import GroupListing
    from headrace.client.topic_partition import TopicPartition


def list_groups(*, states: Sequence[str], types: Sequence[str], as_json: bool, timeout: float, bootstrap: str) -> None:
    async def question(admin: AsyncAdmin) -> list[GroupListing]:
        return await admin.list_groups(states=states, types=types, timeout=timeout)

    groups = ask(bootstrap, question)
    if as_json:
        for group in groups:
            print_json(
                {"group": group.id, "type": group.type, "state": group.state, "protocol_type": group.protocol_type}
            )
        return
    if not groups:
        such = " such" if states or types else ""
        click.echo(f"There are no{such} groups. `headrace consume TOPIC --group NAME` begins one.", err=True)
        return
    table = TableWriter()
    table.start([Column("group"), Column("type"), Column("state"), Column("protocol")])
    for group in groups:
        table.row([group.id, group.type or "-", group.state or "-", group.protocol_type or "-"])
    table.flush()


def delete_groups(
    *, groups: Sequence[str], if_exists: bool, yes: bool, as_json: bool, timeout: float, bootstrap: str
) -> None:
    confirm(f"Delete {', '.join(groups)} with all that is committed?", yes=yes)

    async def question(admin: AsyncAdmin) -> dict[str, None]:
        await admin.delete_groups(groups, timeout=timeout)
        return dict.fromkeys(groups)

    def show(deleted: Iterable[str]) -> None:
        for group in deleted:
            if as_json:
                print_json({"group": group, "deleted": True})
            else:
                click.echo(f"Deleted {group}.")

    ask_about_each(bootstrap, question, show, tolerated=UnknownGroupError if if_exists else ())


def delete_offsets(
    *, group: str, names: Sequence[str], yes: bool, as_json: bool, timeout: float, bootstrap: str
) -> None:
    confirm(f"Forget what {group} has committed for {', '.join(names)}?", yes=yes)

    async def question(admin: AsyncAdmin) -> list[TopicPartition]:
        committed = await admin.list_group_offsets(group, timeout=timeout)
        if not committed:
            await admin.describe_group(group, timeout=timeout)  # perhaps there is none: that is the better complaint
        partitions = _chosen(group, committed, names)
        await admin.delete_group_offsets(group, partitions, timeout=timeout)
        return partitions

    for partition in ask(bootstrap, question):
        if as_json:
            print_json({"group": group, "topic": partition.topic, "partition": partition.partition})
        else:
            click.echo(f"{group} has no offset for {partition} now.")


def _chosen(group: str, committed: Iterable[TopicPartition], names: Sequence[str]) -> list[TopicPartition]:
    """The partitions that have committed offsets, of TOPIC or TOPIC:PARTITION; the topic itself may be gone."""
    found: dict[TopicPartition, None] = {}
    for name in names:
        topic, number = parse_partition(name)
        fitting = [each for each in committed if each.topic == topic and number in (None, each.partition)]
        if not fitting:
            raise Complaint(
                f"{group} has committed nothing for {name}.",
                hint=f"`headrace group describe {group}` shows what it has.",
            )
        found |= dict.fromkeys(sorted(fitting))
    return list(found)
