"""What `headrace transaction` does with partitions: who writes there, what hangs, and how it is aborted.

A transaction hangs if a partition has it open, and its coordinator knows nothing of it or does not count the partition
to it: then no marker will ever come, and readers of committed records wait at its first record for ever. Lost
producers are no reason: their coordinator aborts them when their time is over.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from headrace.cli.connect import ask
from headrace.cli.output import (
    Column,
    Complaint,
    Finding,
    TableWriter,
    confirm,
    print_json,
    show_count,
    show_number,
    show_time,
)
from headrace.cli.topic_actions import expand_partitions
from headrace.cli.values import parse_duration_ms, parse_partition
from headrace.client.topic_partition import TopicPartition

if TYPE_CHECKING:
    from headrace.client.admin import AsyncAdmin
    from headrace.client.admin_partitions import ProducerState
    from headrace.client.admin_transactions import TransactionDescription

_WRITERS: Final = [
    Column("topic"),
    Column("partition", right=True),
    Column("producer id", right=True),
    Column("epoch", right=True),
    Column("coordinator epoch", right=True),
    Column("last sequence", right=True),
    Column("last record"),
    Column("open since offset", right=True),
]


class Writer(NamedTuple):
    """What a partition remembers of a producer."""

    partition: TopicPartition
    state: ProducerState

    @property
    def is_open(self) -> bool:
        return self.state.transaction_start_offset >= 0


def show_producers(*, names: Sequence[str], as_json: bool, timeout: float, bootstrap: str) -> None:
    async def question(admin: AsyncAdmin) -> list[Writer]:
        return await _writers(admin, await expand_partitions(admin, names, timeout), timeout)

    writers = ask(bootstrap, question)
    if not writers and not as_json:
        click.echo(f"Nobody has written to {', '.join(names)} with idempotence or in transactions.", err=True)
        return
    _show(writers, as_json=as_json)


def find_hanging(
    *, names: Sequence[str], broker: int | None, longer_than: str, as_json: bool, timeout: float, bootstrap: str
) -> None:
    longer_than_ms = parse_duration_ms(longer_than)

    async def question(admin: AsyncAdmin) -> list[Writer]:
        partitions = await expand_partitions(admin, names, timeout)
        if broker is not None:
            partitions = await _led_by(admin, broker, partitions, timeout)
        until_ms = time.time_ns() // 1_000_000 - longer_than_ms
        writers = await _writers(admin, partitions, timeout)
        old = [each for each in writers if each.is_open and each.state.last_timestamp_ms <= until_ms]
        lost = without_coordinator(old, await _known(admin, old, timeout))
        # What has ended since the partitions were asked does not hang.
        return [
            each for each in await _writers(admin, {lost_one.partition for lost_one in lost}, timeout) if each in lost
        ]

    found = ask(bootstrap, question)
    if found:
        _show(found, as_json=as_json)
        topic, number = found[0].partition
        raise Finding(
            f"{show_count(len(found), 'transaction')} will not end by {'itself' if len(found) == 1 else 'themselves'}.",
            hint=f"`headrace transaction abort {topic}:{number} --producer-id {found[0].state.producer_id}` ends "
            f"{'it' if len(found) == 1 else 'the first'}.",
        )
    if not as_json:
        click.echo("No transaction hangs.", err=True)


def abort(
    *,
    place: str,
    start_offset: int | None,
    producer_id: int | None,
    force: bool,
    yes: bool,
    as_json: bool,
    timeout: float,
    bootstrap: str,
) -> None:
    topic, number = parse_partition(place)
    if number is None:
        raise Complaint(f"Which partition of {topic}?", hint=f"Such as {topic}:0")
    partition = TopicPartition(topic, number)

    async def question(admin: AsyncAdmin) -> tuple[Writer, TransactionDescription | None]:
        writers = await _writers(admin, [partition], timeout)
        writer = choose(partition, writers, start_offset=start_offset, producer_id=producer_id)
        known = await _known(admin, [writer], timeout)
        return writer, None if without_coordinator([writer], known) else known[writer.state.producer_id]

    writer, known = ask(bootstrap, question)
    if known is not None and not force:
        raise Complaint(
            f"Its coordinator knows this transaction: it is {known.state} under the id {known.id}.",
            hint=f"`headrace transaction terminate {known.id}` aborts it in all partitions. --force ends it in this "
            "one alone, so that it may be committed in the others.",
        )
    state = writer.state
    confirm(f"Abort what producer {state.producer_id} wrote from {place} offset {_start(writer)} on?", yes=yes)

    async def act(admin: AsyncAdmin) -> None:
        await admin.abort_transaction(
            partition,
            producer_id=state.producer_id,
            producer_epoch=state.producer_epoch,
            coordinator_epoch=state.coordinator_epoch,
            timeout=timeout,
        )

    ask(bootstrap, act)
    if as_json:
        print_json(_fields(writer))
    else:
        click.echo(f"Aborted what producer {state.producer_id} wrote from {partition} offset {_start(writer)} on.")


# The core: which one


def without_coordinator(writers: Iterable[Writer], known: Mapping[int, TransactionDescription]) -> list[Writer]:
    """Those of which no coordinator says that their partition is part of what it will end; `known` by producer id."""
    return [
        each
        for each in writers
        if (told := known.get(each.state.producer_id)) is None or each.partition not in told.partitions
    ]


def choose(
    partition: TopicPartition, writers: Iterable[Writer], *, start_offset: int | None, producer_id: int | None
) -> Writer:
    """The open transaction that is meant; if only one is open, it needs no further words. Raises Complaint."""
    open_ones = [each for each in writers if each.is_open]
    if not open_ones:
        raise Complaint(f"No transaction is open in {partition}.")
    fitting = [
        each
        for each in open_ones
        if start_offset in (None, each.state.transaction_start_offset) and producer_id in (None, each.state.producer_id)
    ]
    if len(fitting) == 1:
        return fitting[0]
    told = "; ".join(f"--producer-id {each.state.producer_id} from offset {_start(each)} on" for each in open_ones)
    if not fitting:
        raise Complaint(f"No such transaction is open in {partition}.", hint=f"Open are: {told}.")
    raise Complaint(f"{len(fitting)} transactions are open in {partition}: which one?", hint=f"Open are: {told}.")


def _start(writer: Writer) -> int:
    return writer.state.transaction_start_offset


# Questions


async def _writers(admin: AsyncAdmin, partitions: Iterable[TopicPartition], timeout: float) -> list[Writer]:
    found = await admin.describe_producers(partitions, timeout=timeout)
    return [
        Writer(partition, state)
        for partition, states in sorted(found.items())
        for state in sorted(states, key=lambda state: state.producer_id)
    ]


async def _known(admin: AsyncAdmin, writers: Sequence[Writer], timeout: float) -> dict[int, TransactionDescription]:
    """What coordinators say of these producers, by producer id."""
    if not writers:
        return {}
    producer_ids = sorted({each.state.producer_id for each in writers})
    listed = await admin.list_transactions(producer_ids=producer_ids, timeout=timeout)
    described = await admin.describe_transactions([each.id for each in listed], timeout=timeout)
    return {each.producer_id: each for each in described.values()}


async def _led_by(
    admin: AsyncAdmin, broker: int, partitions: Sequence[TopicPartition], timeout: float
) -> list[TopicPartition]:
    topics = await admin.describe_topics({each.topic for each in partitions}, timeout=timeout)
    led = {
        TopicPartition(name, each.number)
        for name, topic in topics.items()
        for each in topic.partitions
        if each.leader == broker
    }
    return [each for each in partitions if each in led]


# Output


def _show(writers: Iterable[Writer], *, as_json: bool) -> None:
    if as_json:
        for each in writers:
            print_json(_fields(each))
        return
    table = TableWriter()
    table.start(_WRITERS)
    for each in writers:
        state = each.state
        table.row(
            [
                each.partition.topic,
                str(each.partition.partition),
                str(state.producer_id),
                str(state.producer_epoch),
                show_number(state.coordinator_epoch),
                show_number(state.last_sequence),
                show_time(state.last_timestamp_ms),
                show_number(state.transaction_start_offset),
            ]
        )
    table.flush()


def _fields(writer: Writer) -> dict[str, Any]:
    state = writer.state
    return {
        **writer.partition._asdict(),
        "producer_id": state.producer_id,
        "producer_epoch": state.producer_epoch,
        "coordinator_epoch": state.coordinator_epoch,
        "last_sequence": state.last_sequence,
        "last_timestamp_ms": state.last_timestamp_ms,
        "transaction_start_offset": state.transaction_start_offset if writer.is_open else None,
    }
