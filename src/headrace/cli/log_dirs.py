"""What `headrace log dirs` shows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from headrace.cli.connect import ask
from headrace.cli.output import Column, Finding, TableWriter, print_json, show_size
from headrace.cli.topic_actions import expand_partitions

if TYPE_CHECKING:
    from headrace.client.admin import AsyncAdmin
    from headrace.client.admin_cluster import LogDirectory


def show_log_dirs(
    *, names: Sequence[str], brokers: Sequence[int], as_json: bool, timeout: float, bootstrap: str
) -> None:
    """A heading for each directory, and its partitions; a directory that is offline is a finding."""

    async def question(admin: AsyncAdmin) -> dict[int, list[LogDirectory]]:
        partitions = await expand_partitions(admin, names, timeout) if names else None
        return await admin.describe_log_dirs(brokers or None, partitions=partitions, timeout=timeout)

    directories = [(broker, directory) for broker, found in ask(bootstrap, question).items() for directory in found]
    if as_json:
        for broker, directory in directories:
            _print_json(broker, directory)
    else:
        table = TableWriter()
        for number, (broker, directory) in enumerate(directories):
            if number:
                table.line("")
            _print_table(table, broker, directory)
        table.flush()
    offline = [directory.path for _, directory in directories if directory.error is not None]
    if offline:
        raise Finding(f"Offline: {', '.join(offline)}.", hint="The log of the broker says what the disk did.")


def _print_json(broker: int, directory: LogDirectory) -> None:
    print_json(
        {
            "broker": broker,
            "directory": directory.path,
            "error": None if directory.error is None else directory.error.code.name,
            "total_bytes": directory.total_bytes,
            "usable_bytes": directory.usable_bytes,
            "partitions": [
                {
                    "topic": partition.topic,
                    "partition": partition.partition,
                    "size_bytes": replica.size_bytes,
                    "lag": replica.lag,
                    "future": replica.is_future,
                }
                for partition, replica in sorted(directory.replicas.items())
            ],
        }
    )


def _print_table(table: TableWriter, broker: int, directory: LogDirectory) -> None:
    used = sum(replica.size_bytes for replica in directory.replicas.values())
    room = f", {show_size(directory.usable_bytes)} of {show_size(directory.total_bytes)} are free"
    state = f"OFFLINE: {directory.error.message}" if directory.error else f"{show_size(used)} in partitions"
    heading = f"broker {broker}  {directory.path}  {state}{room if directory.total_bytes >= 0 else ''}"
    table.line(heading, style="bold red" if directory.error else "bold cyan")
    if directory.replicas:
        table.start(
            [
                Column("topic"),
                Column("partition", right=True),
                Column("size", right=True),
                Column("lag", right=True),
                Column(""),
            ]
        )
    for partition, replica in sorted(directory.replicas.items()):
        note = "moving here" if replica.is_future else ""
        table.row([partition.topic, str(partition.partition), show_size(replica.size_bytes), str(replica.lag), note])
