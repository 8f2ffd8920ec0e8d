"""What `headrace group describe` shows: a group, its members, and how far it is behind in each partition."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from headrace.cli.connect import ask
from headrace.cli.output import Column, TableWriter, print_json, show_count, show_number
from headrace.client.errors import PartialError, UnknownGroupError, UnknownTopicError

if TYPE_CHECKING:
    from headrace.client.admin import AsyncAdmin
    from headrace.client.admin_groups import CommittedOffset, GroupDescription, MemberDescription
    from headrace.client.topic_partition import TopicPartition

# Share groups have no offsets, and streams groups calls of their own.
_WITH_OFFSETS: Final = ("", "classic", "consumer")
_PARTITIONS: Final = [
    Column("topic"),
    Column("partition", right=True),
    Column("committed", right=True),
    Column("end", right=True),
    Column("lag", right=True),
    Column("owner"),
]


class Place(NamedTuple):
    """How far a group is in one partition. `committed` and `end` are None if there is none."""

    partition: TopicPartition
    committed: CommittedOffset | None
    end: int | None
    owner: str | None

    @property
    def lag(self) -> int | None:
        return None if self.committed is None or self.end is None else self.end - self.committed.offset


def describe_groups(*, groups: Sequence[str], as_json: bool, timeout: float, bootstrap: str) -> None:
    async def question(admin: AsyncAdmin) -> list[tuple[GroupDescription, list[Place]]]:
        described = await _described(admin, groups, timeout)
        places = await asyncio.gather(*(_places(admin, group, timeout) for group in described))
        return list(zip(described, places, strict=True))

    found = ask(bootstrap, question)
    if as_json:
        for group, places in found:
            print_json(_group_fields(group, places))
        return
    if not found:
        click.echo("There are no groups. `headrace consume TOPIC --group NAME` begins one.", err=True)
    table = TableWriter()
    for number, (group, places) in enumerate(found):
        if number:
            table.line("")
        _show(table, group, places)
    table.flush()


async def _described(admin: AsyncAdmin, names: Sequence[str], timeout: float) -> list[GroupDescription]:
    if names:
        return list((await admin.describe_groups(names, timeout=timeout)).values())
    listed = await admin.list_groups(timeout=timeout)
    every = [group.id for group in listed if group.type in _WITH_OFFSETS]
    try:
        return list((await admin.describe_groups(every, timeout=timeout)).values())
    except UnknownGroupError:
        return []
    except PartialError as error:
        if all(isinstance(each, UnknownGroupError) for each in error.errors.values()):  # gone since they were listed
            return list(error.results.values())
        raise


async def _places(admin: AsyncAdmin, group: GroupDescription, timeout: float) -> list[Place]:
    """Of all partitions that the group has committed offsets for, or that a member owns."""
    committed = await admin.list_group_offsets(group.id, timeout=timeout)
    owners = {partition: label(member) for member in group.members for partition in member.assignment}
    partitions = sorted({*committed, *owners})
    ends = await end_offsets(admin, partitions, timeout)
    return [Place(each, committed.get(each), ends.get(each), owners.get(each)) for each in partitions]


async def end_offsets(
    admin: AsyncAdmin, partitions: Iterable[TopicPartition], timeout: float
) -> Mapping[TopicPartition, int]:
    """Where the logs end; partitions that are gone are left out."""
    wanted = dict.fromkeys(partitions, "latest")
    try:
        found = await admin.list_offsets(wanted, timeout=timeout)
    except UnknownTopicError:
        return {}
    except PartialError as error:
        if not all(isinstance(each, UnknownTopicError) for each in error.errors.values()):
            raise
        found = error.results
    return {partition: each.offset for partition, each in found.items()}


def label(member: MemberDescription) -> str:
    """The name by which people know it: the one that they gave it, if they did."""
    return member.instance_id or member.id


def _show(table: TableWriter, group: GroupDescription, places: Sequence[Place]) -> None:
    lags = [place.lag for place in places if place.lag is not None]
    facts = [
        group.id,
        group.state,
        f"type {group.type}",
        *([f"protocol {group.protocol_type}"] if group.protocol_type not in ("", "consumer") else []),
        *([f"assignor {group.assignor}"] if group.assignor else []),
        f"coordinator {group.coordinator}",
        *([f"epoch {group.epoch}"] if group.epoch is not None else []),
        show_count(len(group.members), "member"),
        *([f"lag {sum(lags)}"] if lags else []),
    ]
    table.line("  ".join(facts), style="bold cyan")
    if group.members:
        table.start([Column("member"), Column("client"), Column("host"), Column("epoch", right=True), Column("reads")])
        for member in group.members:
            table.row([label(member), member.client_id, member.host, show_number(member.epoch), _reads(member)])
    if places:
        if group.members:
            table.line("")
        table.start(_PARTITIONS)
        for place in places:
            (topic, number), committed, end, owner = place
            offset = None if committed is None else committed.offset
            lag = "-" if place.lag is None else str(place.lag)
            table.row([topic, str(number), show_number(offset), show_number(end), lag, owner or "-"])


def _reads(member: MemberDescription) -> str:
    """`orders:0,1 users:0`, and after an arrow what it is to have instead."""
    now = _by_topic(member.assignment)
    if member.target is None or set(member.target) == set(member.assignment):
        return now
    return f"{now} → {_by_topic(member.target)}"


def _by_topic(partitions: Iterable[TopicPartition]) -> str:
    numbers: dict[str, list[str]] = {}
    for topic, number in sorted(partitions):
        numbers.setdefault(topic, []).append(str(number))
    return " ".join(f"{topic}:{','.join(each)}" for topic, each in numbers.items()) or "-"


def _group_fields(group: GroupDescription, places: Iterable[Place]) -> dict[str, Any]:
    return {
        "group": group.id,
        "state": group.state,
        "type": group.type,
        "protocol_type": group.protocol_type,
        "assignor": group.assignor,
        "coordinator": group.coordinator,
        "epoch": group.epoch,
        "members": [_member_fields(member) for member in group.members],
        "partitions": [_place_fields(place) for place in places],
    }


def _member_fields(member: MemberDescription) -> dict[str, Any]:
    return {
        "member": member.id,
        "instance": member.instance_id,
        "client": member.client_id,
        "host": member.host,
        "epoch": member.epoch,
        "assignment": [each._asdict() for each in member.assignment],
        "target": None if member.target is None else [each._asdict() for each in member.target],
    }


def _place_fields(place: Place) -> dict[str, Any]:
    committed = place.committed
    return {
        **place.partition._asdict(),
        "committed": None if committed is None else committed.offset,
        "leader_epoch": None if committed is None or committed.leader_epoch < 0 else committed.leader_epoch,
        "metadata": None if committed is None else committed.metadata,
        "end": place.end,
        "lag": place.lag,
        "owner": place.owner,
    }
