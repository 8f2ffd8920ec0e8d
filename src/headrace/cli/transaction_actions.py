"""What `headrace transaction` does with the coordinators: list, describe, terminate."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

import click

from headrace.cli.connect import ask, ask_about_each, nearest
from headrace.cli.output import Column, Complaint, TableWriter, confirm, print_json, show_duration, show_number
from headrace.cli.values import parse_duration_ms
from headrace.client.errors import KafkaError
from headrace.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from headrace.client.admin import AsyncAdmin
    from headrace.client.admin_transactions import TransactionDescription, TransactionListing

_OVER: Final = ("Empty", "CompleteCommit", "CompleteAbort", "Dead")


def list_transactions(
    *,
    states: Sequence[str],
    producer_ids: Sequence[int],
    longer_than: str | None,
    pattern: str | None,
    as_json: bool,
    timeout: float,
    bootstrap: str,
) -> None:
    older_than_ms = None if longer_than is None else parse_duration_ms(longer_than)

    async def question(admin: AsyncAdmin) -> list[TransactionListing]:
        return await admin.list_transactions(
            states=states, producer_ids=producer_ids, older_than_ms=older_than_ms, pattern=pattern, timeout=timeout
        )

    listings = ask(bootstrap, question)
    if as_json:
        for each in listings:
            print_json(
                {
                    "transactional_id": each.id,
                    "state": each.state,
                    "producer_id": each.producer_id,
                    "coordinator": each.coordinator,
                }
            )
        return
    if not listings:
        such = " such" if states or producer_ids or longer_than or pattern else ""
        click.echo(f"There are no{such} transactions.", err=True)
        return
    table = TableWriter()
    table.start(
        [
            Column("transactional id"),
            Column("state"),
            Column("producer id", right=True),
            Column("coordinator", right=True),
        ]
    )
    for each in listings:
        table.row([each.id, each.state, str(each.producer_id), str(each.coordinator)])
    table.flush()


def describe_transactions(*, ids: Sequence[str], as_json: bool, timeout: float, bootstrap: str) -> None:
    async def question(admin: AsyncAdmin) -> dict[str, TransactionDescription]:
        try:
            return await admin.describe_transactions(ids, timeout=timeout)
        except KafkaError as error:
            raise await _explained(error, admin, ids) from None

    def show(described: Mapping[str, TransactionDescription]) -> None:
        now_ms = time.time_ns() // 1_000_000
        if not as_json:
            _show_descriptions(described.values(), now_ms)
            return
        for each in described.values():
            print_json(_fields(each, now_ms))

    ask_about_each(bootstrap, question, show)


def _show_descriptions(described: Collection[TransactionDescription], now_ms: int) -> None:
    if not described:
        return
    table = TableWriter()
    table.start(
        [
            Column("transactional id"),
            Column("state"),
            Column("producer id", right=True),
            Column("epoch", right=True),
            Column("time-out", right=True),
            Column("runs for", right=True),
            Column("partitions"),
        ]
    )
    for each in described:
        running = _running_ms(each, now_ms)
        table.row(
            [
                each.id,
                each.state,
                show_number(each.producer_id),
                show_number(each.producer_epoch),
                show_duration(each.timeout_ms),
                "-" if running is None else show_duration(running),
                " ".join(f"{topic}:{number}" for topic, number in each.partitions) or "-",
            ]
        )
    table.flush()


def terminate(*, ids: Sequence[str], yes: bool, as_json: bool, timeout: float, bootstrap: str) -> None:
    confirm(f"Abort what is open under {', '.join(ids)}, and shut out who uses it?", yes=yes)

    async def question(admin: AsyncAdmin) -> dict[str, tuple[int, int]]:
        try:
            await admin.describe_transactions(ids, timeout=timeout)  # fencing an unknown id would bring it into being
            return await admin.fence_producers(ids, timeout=timeout)
        except KafkaError as error:
            raise await _explained(error, admin, ids) from None

    for name, (producer_id, epoch) in ask(bootstrap, question).items():
        if as_json:
            print_json({"transactional_id": name, "producer_id": producer_id, "producer_epoch": epoch})
        else:
            click.echo(f"{name}: nothing is open, and whoever used it is shut out.")


async def _explained(error: KafkaError, admin: AsyncAdmin, ids: Sequence[str]) -> Exception:
    """With the nearest id, if it is about one that nobody knows."""
    if error.code is not ErrorCode.TRANSACTIONAL_ID_NOT_FOUND or len(set(ids)) > 1:
        return error
    known = [each.id for each in await admin.list_transactions()]
    return Complaint(error.message, hint=nearest(ids[0], known) or "`headrace transaction list` shows those there are.")


def _running_ms(each: TransactionDescription, now_ms: int) -> int | None:
    """None if it does not run: a coordinator goes on telling when the last one began."""
    return None if each.started_ms < 0 or each.state in _OVER else max(now_ms - each.started_ms, 0)


def _fields(each: TransactionDescription, now_ms: int) -> dict[str, Any]:
    fields = asdict(each)
    return {
        "transactional_id": fields.pop("id"),
        **fields,
        "started_ms": None if each.started_ms < 0 else each.started_ms,
        "running_ms": _running_ms(each, now_ms),
        "partitions": [partition._asdict() for partition in each.partitions],
    }
