"""What `headrace topic` does."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from headrace.cli.connect import ask, ask_about_each
from headrace.cli.output import Column, Complaint, TableWriter, confirm, print_json, show_count, show_number, show_time
from headrace.cli.values import parse_pairs, parse_partition, parse_time
from headrace.client.admin_changes import ConfigResource
from headrace.client.admin_topics import BROKER_DEFAULT, NewTopic
from headrace.client.errors import PartialError, TopicExistsError, UnknownTopicError
from headrace.client.topic_partition import TopicPartition

if TYPE_CHECKING:
    from headrace.client.admin import AsyncAdmin
    from headrace.client.admin_topics import CreatedTopic, PartitionDescription, TopicDescription, TopicListing

    Described = tuple[TopicDescription, dict[str, str | None]]  # with the configs of its own

_OFFSETS: Final = [
    Column("topic"),
    Column("partition", right=True),
    Column("first", right=True),
    Column("end", right=True),
    Column("offsets", right=True),
]


def list_topics(*, internal: bool, as_json: bool, timeout: float, bootstrap: str) -> None:
    async def question(admin: AsyncAdmin) -> list[TopicListing]:
        return await admin.list_topics(internal=internal, timeout=timeout)

    topics = ask(bootstrap, question)
    if as_json:
        for topic in topics:
            print_json(
                {
                    "topic": topic.name,
                    "partitions": topic.partitions,
                    "replication": topic.replication,
                    "internal": topic.is_internal,
                    "id": topic.id,
                }
            )
        return
    if not topics:
        click.echo("There are no topics. `headrace topic create NAME` creates one.", err=True)
        return
    table = TableWriter()
    table.start([Column("topic"), Column("partitions", right=True), Column("replication", right=True), Column("id")])
    for topic in topics:
        table.row([topic.name, str(topic.partitions), str(topic.replication), topic.id])
    table.flush()


def create_topics(
    *,
    names: Sequence[str],
    partitions: int | None,
    replication: int | None,
    configs: Sequence[str],
    if_not_exists: bool,
    dry_run: bool,
    as_json: bool,
    timeout: float,
    bootstrap: str,
) -> None:
    settings = parse_pairs(configs, option="--config", example="retention.ms=60000")
    wanted = [
        NewTopic(name, partitions or BROKER_DEFAULT, replication or BROKER_DEFAULT, settings)
        for name in dict.fromkeys(names)
    ]

    existing: list[str] = []

    async def question(admin: AsyncAdmin) -> dict[str, CreatedTopic]:
        try:
            return await admin.create_topics(wanted, validate_only=dry_run, timeout=timeout)
        except TopicExistsError:
            existing.append(wanted[0].name)
            raise
        except PartialError as error:
            existing.extend(name for name, each in error.errors.items() if isinstance(each, TopicExistsError))
            raise

    def show(created: Mapping[str, CreatedTopic]) -> None:
        for topic in created.values():
            if as_json:
                print_json(
                    {
                        "topic": topic.name,
                        "id": topic.id,
                        "partitions": topic.partitions,
                        "replication": topic.replication,
                        "created": not dry_run,
                    }
                )
            else:
                verb = "Would create" if dry_run else "Created"
                count = show_count(topic.partitions, "partition")
                click.echo(f"{verb} {topic.name}: {count}, replication {topic.replication}.")
        if if_not_exists and not as_json:
            for name in existing:
                click.echo(f"{name} exists.")

    ask_about_each(bootstrap, question, show, tolerated=TopicExistsError if if_not_exists else ())


def describe_topics(
    *,
    names: Sequence[str],
    under_replicated: bool,
    unavailable: bool,
    as_json: bool,
    timeout: float,
    bootstrap: str,
) -> None:
    async def question(admin: AsyncAdmin) -> dict[str, Described]:
        try:
            return await _with_configs(admin, await admin.describe_topics(names or None, timeout=timeout), timeout)
        except PartialError as error:
            found = await _with_configs(admin, error.results, timeout)
            raise PartialError(error.errors, found, "topics") from None

    def is_wanted(partition: PartitionDescription) -> bool:
        return (not under_replicated or len(partition.isr) < len(partition.replicas)) and (
            not unavailable or partition.leader < 0
        )

    def show(described: Mapping[str, Described]) -> None:
        if not as_json:
            _show_partitions(described, is_wanted)
            return
        for topic, configs in described.values():
            for partition in filter(is_wanted, topic.partitions):
                print_json(_partition_fields(topic, partition) | {"configs": configs})

    ask_about_each(bootstrap, question, show)


async def _with_configs(
    admin: AsyncAdmin, topics: Mapping[str, TopicDescription], timeout: float
) -> dict[str, Described]:
    resources = [ConfigResource("topic", name) for name in topics]
    configs = await admin.describe_configs(resources, timeout=timeout) if resources else {}
    overrides = {
        resource.name: {name: entry.value for name, entry in entries.items() if entry.source == "topic"}
        for resource, entries in configs.items()
    }
    return {name: (topic, overrides[name]) for name, topic in topics.items()}


def _show_partitions(described: Mapping[str, Described], is_wanted: Callable[[PartitionDescription], bool]) -> None:
    table = TableWriter()
    for number, (name, (topic, overrides)) in enumerate(described.items()):
        partitions = list(filter(is_wanted, topic.partitions))
        if not partitions:
            continue
        if number:
            table.line("")
        configs = "".join(f"  {key}={value}" for key, value in sorted(overrides.items()))
        table.line(f"{name}  {show_count(len(topic.partitions), 'partition')}  {topic.id}{configs}", style="bold cyan")
        table.start(
            [
                Column("partition", right=True),
                Column("leader", right=True),
                Column("epoch", right=True),
                Column("replicas"),
                Column("in sync"),
                Column("eligible"),
                Column("offline"),
            ]
        )
        for partition in partitions:
            table.row(_partition_cells(partition))
    table.flush()


def _partition_fields(topic: TopicDescription, partition: PartitionDescription) -> dict[str, Any]:
    return {
        "topic": topic.name,
        "id": topic.id,
        "partition": partition.number,
        "leader": partition.leader,
        "leader_epoch": partition.leader_epoch,
        "replicas": partition.replicas,
        "isr": partition.isr,
        "offline": partition.offline,
        "eligible_leaders": partition.eligible_leaders,
    }


def _partition_cells(partition: PartitionDescription) -> list[str]:
    return [
        str(partition.number),
        "none" if partition.leader < 0 else str(partition.leader),
        show_number(partition.leader_epoch),
        _ids(partition.replicas),
        _ids(partition.isr),
        _ids(partition.eligible_leaders or ()),
        _ids(partition.offline),
    ]


def alter_topic(*, name: str, partitions: int, dry_run: bool, as_json: bool, timeout: float, bootstrap: str) -> None:
    async def question(admin: AsyncAdmin) -> None:
        await admin.create_partitions({name: partitions}, validate_only=dry_run, timeout=timeout)

    ask(bootstrap, question)
    if as_json:
        print_json({"topic": name, "partitions": partitions, "altered": not dry_run})
    else:
        click.echo(f"{name} {'would have' if dry_run else 'has'} {show_count(partitions, 'partition')}.")


def delete_topics(
    *, names: Sequence[str], if_exists: bool, yes: bool, as_json: bool, timeout: float, bootstrap: str
) -> None:
    confirm(f"Delete {', '.join(names)} with all records?", yes=yes)

    async def question(admin: AsyncAdmin) -> dict[str, None]:
        await admin.delete_topics(names, timeout=timeout)
        return dict.fromkeys(names)

    def show(deleted: Iterable[str]) -> None:
        for name in deleted:
            if as_json:
                print_json({"topic": name, "deleted": True})
            else:
                click.echo(f"Deleted {name}.")

    ask_about_each(bootstrap, question, show, tolerated=UnknownTopicError if if_exists else ())


def show_offsets(
    *, names: Sequence[str], at: str | None, read_committed: bool, as_json: bool, timeout: float, bootstrap: str
) -> None:
    moment = None if at is None else parse_time(at)

    async def question(admin: AsyncAdmin) -> list[tuple[TopicPartition, tuple[int, ...]]]:
        partitions = await expand_partitions(admin, names, timeout)

        async def listed(spec: str | int) -> dict[TopicPartition, tuple[int, int]]:
            found = await admin.list_offsets(
                dict.fromkeys(partitions, spec), read_committed=read_committed, timeout=timeout
            )
            return {partition: (each.offset, each.timestamp_ms) for partition, each in found.items()}

        if moment is not None:
            return [(partition, found) for partition, found in (await listed(moment)).items()]
        first, end = await listed("earliest"), await listed("latest")
        return [(partition, (first[partition][0], end[partition][0])) for partition in partitions]

    rows = ask(bootstrap, question)
    if moment is not None:
        _print_offsets_at(rows, as_json=as_json)
        return
    table = TableWriter()
    table.start(_OFFSETS)
    for (topic, number), (first, end) in rows:
        if as_json:
            print_json({"topic": topic, "partition": number, "first": first, "end": end})
        else:
            table.row([topic, str(number), str(first), str(end), str(end - first)])
    if not as_json:
        table.flush()


def _print_offsets_at(rows: Iterable[tuple[TopicPartition, tuple[int, ...]]], *, as_json: bool) -> None:
    table = TableWriter()
    table.start([Column("topic"), Column("partition", right=True), Column("offset", right=True), Column("time")])
    for (topic, number), (offset, timestamp_ms) in rows:
        if as_json:
            print_json({"topic": topic, "partition": number, "offset": offset, "timestamp_ms": timestamp_ms})
        else:
            table.row([topic, str(number), show_number(offset), show_time(timestamp_ms)])
    if not as_json:
        table.flush()


def delete_records(
    *,
    name: str,
    before: int | None,
    everything: bool,
    yes: bool,
    as_json: bool,
    timeout: float,
    bootstrap: str,
) -> None:
    if (before is None) == (not everything):
        raise Complaint("Which records?", hint="Give --before OFFSET, or --all.")
    what = "all records" if before is None else f"records below offset {before}"
    confirm(f"Delete {what} of {name}?", yes=yes)

    async def question(admin: AsyncAdmin) -> dict[TopicPartition, int]:
        partitions = await expand_partitions(admin, [name], timeout)
        return await admin.delete_records(dict.fromkeys(partitions, -1 if before is None else before), timeout=timeout)

    def show(starts: Mapping[TopicPartition, int]) -> None:
        for partition, first in starts.items():
            if as_json:
                print_json({"topic": partition.topic, "partition": partition.partition, "first": first})
            else:
                click.echo(f"{partition} begins at offset {first} now.")

    ask_about_each(bootstrap, question, show)


def elect_leaders(*, names: Sequence[str], unclean: bool, as_json: bool, timeout: float, bootstrap: str) -> None:
    async def question(admin: AsyncAdmin) -> dict[TopicPartition, bool]:
        partitions = await expand_partitions(admin, names, timeout) if names else None
        return await admin.elect_leaders(partitions, unclean=unclean, timeout=timeout)

    def show(results: Mapping[TopicPartition, bool]) -> None:
        for partition, elected in results.items():
            if as_json:
                print_json({"topic": partition.topic, "partition": partition.partition, "elected": elected})
            else:
                click.echo(f"{partition} {'has a new leader' if elected else 'is led as it should be'}.")
        if not names and not results and not as_json:
            click.echo("All partitions are led as they should be.")

    ask_about_each(bootstrap, question, show)


async def expand_partitions(admin: AsyncAdmin, names: Sequence[str], timeout: float) -> list[TopicPartition]:
    """TOPIC or TOPIC:PARTITION as partitions; all of the cluster if none is named."""
    wanted = [parse_partition(name) for name in names]
    whole = [topic for topic, number in wanted if number is None]
    described = await admin.describe_topics(whole if names else None, timeout=timeout) if whole or not names else {}
    partitions: list[TopicPartition] = []
    for topic, number in wanted or [(name, None) for name in described]:
        if number is None:
            partitions += [TopicPartition(topic, each.number) for each in described[topic].partitions]
        else:
            partitions.append(TopicPartition(topic, number))
    return partitions


def _ids(ids: Iterable[int]) -> str:
    return " ".join(map(str, ids)) or "-"
