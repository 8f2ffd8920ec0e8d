"""What `headrace consume` does: where to begin, when to stop, and how a record is printed."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from headrace.cli.connect import ask, complaints
from headrace.cli.formats import Render, compile_format, render_json
from headrace.cli.output import Complaint
from headrace.cli.record_client import MAX_RECORDS, GroupReader, RecordReader
from headrace.cli.topic_actions import expand_partitions
from headrace.cli.values import parse_pairs, parse_partition, parse_time
from headrace.client.topic_partition import TopicPartition

if TYPE_CHECKING:
    from headrace.client.admin import AsyncAdmin

TIMEOUT_SECONDS: Final = 60.0
INTERRUPTED_EXIT_CODE: Final = 130
_RESET_POLICIES: Final = {"beginning": "earliest", "earliest": "earliest", "end": "latest", "latest": "latest"}


def consume(
    *,
    topics: Sequence[str],
    start: str,
    group: str | None,
    last: int | None,
    partitions: Sequence[int],
    count: int | None,
    at_end: bool,
    key_separator: str | None,
    template: str | None,
    as_json: bool,
    null: str,
    read_committed: bool,
    configs: Sequence[str],
    bootstrap: str,
) -> None:
    render = _renderer(key_separator, template, as_json=as_json, null=null.encode())
    settings: dict[str, Any] = {"bootstrap.servers": bootstrap, "client.id": "headrace-cli"}
    if read_committed:
        settings["isolation.level"] = "read_committed"
    settings |= parse_pairs(configs, option="--config", example="check.crcs=false")
    names = [
        name if parse_partition(name)[1] is not None else f"{name}:{number}" for name in topics for number in partitions
    ] or list(topics)
    if group is not None:
        settings["group.id"] = group
        settings.setdefault("auto.offset.reset", _reset_policy(names, start, last))

    async def question(admin: AsyncAdmin) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
        wanted = await expand_partitions(admin, names, TIMEOUT_SECONDS)
        ends = await _offsets(admin, wanted, "latest", read_committed=read_committed)
        return {} if group is not None else await _starts(admin, start, last, ends), ends

    starts, ends = ask(bootstrap, question)
    if not at_end and sys.stderr.isatty():
        click.echo(_announcement(names, start, last, group), err=True)
    limits = ends if at_end else None
    try:
        with complaints(bootstrap):
            reader = (
                RecordReader(starts, settings, ends=limits)
                if group is None
                else GroupReader(names, settings, ends=limits)
            )
            with reader:
                _print_records(reader, count, render)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED_EXIT_CODE)


def _reset_policy(names: Sequence[str], start: str, last: int | None) -> str:
    """Where a group begins that has committed nothing; and whether the other options go with a group at all."""
    if any(parse_partition(name)[1] is not None for name in names):
        raise Complaint(
            "A group says itself which member reads which partition.",
            hint="Name only topics, or leave --group out.",
        )
    if last is not None or start not in _RESET_POLICIES:
        raise Complaint(
            "A group goes on where it was; only a new one has --from beginning or --from end.",
            hint="`headrace group reset` moves a group to an offset or a time.",
        )
    return _RESET_POLICIES[start]


def _announcement(names: Sequence[str], start: str, last: int | None, group: str | None) -> str:
    """For somebody who waits before a screen on which nothing happens."""
    what = ", ".join(names)
    if group is not None:
        first = f"Reading {what} as a member of {group}; what is printed is committed."
    elif last is not None:
        first = f"Reading the last {last} of each partition of {what}, and then what comes."
    elif start in ("end", "latest"):
        first = f"Waiting for new records of {what}."
    else:
        first = f"Reading {what} from {'the beginning' if start == 'beginning' else start} on, and then what comes."
    return f"{first} Ctrl-C ends it; with --exit it stops at the end."


def _print_records(reader: RecordReader | GroupReader, count: int | None, render: Render) -> None:
    """Until `count` records are printed, or the reader is at its end."""
    out = sys.stdout.buffer
    left = count
    while left != 0 and not reader.is_at_end:
        records = reader.poll(MAX_RECORDS if left is None else min(left, MAX_RECORDS))
        out.write(b"".join([render(record) for record in records]))
        out.flush()
        left = None if left is None else left - len(records)


def _renderer(key_separator: str | None, template: str | None, *, as_json: bool, null: bytes) -> Render:
    if sum((key_separator is not None, template is not None, as_json)) > 1:
        raise Complaint("--key-separator, --format and --json exclude one another.")
    if as_json:
        return render_json
    if template is None:
        separator = "" if key_separator is None else key_separator.replace("%", "%%")
        template = "%s\\n" if key_separator is None else f"%k{separator}%s\\n"
    return compile_format(template, null=null)


async def _starts(
    admin: AsyncAdmin, start: str, last: int | None, ends: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """The first offset of each partition that is to be read."""
    firsts = await _offsets(admin, ends, "earliest")
    if last is not None:
        if start != "beginning":
            raise Complaint("--from and --last exclude one another.")
        return {partition: max(firsts[partition], end - last) for partition, end in ends.items()}
    if start in ("beginning", "earliest"):
        return firsts
    if start in ("end", "latest"):
        return dict(ends)
    if start.isascii() and start.isdigit():
        return _checked(int(start), firsts, ends)
    moment = parse_time(start.removeprefix("@"))
    found = await _offsets(admin, ends, moment)
    return {partition: ends[partition] if offset < 0 else offset for partition, offset in found.items()}


def _checked(
    offset: int, firsts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """The same offset in all partitions, where there is one: a gap at the beginning is skipped."""
    if all(offset > end for end in ends.values()):
        raise Complaint(
            f"No partition reaches offset {offset}; the highest end is {max(ends.values())}.",
            hint="`headrace topic offsets` shows what there is.",
        )
    return {partition: min(max(offset, firsts[partition]), end) for partition, end in ends.items()}


async def _offsets(
    admin: AsyncAdmin,
    partitions: Mapping[TopicPartition, int] | Sequence[TopicPartition],
    spec: str | int,
    *,
    read_committed: bool = False,
) -> dict[TopicPartition, int]:
    found = await admin.list_offsets(
        dict.fromkeys(partitions, spec), read_committed=read_committed, timeout=TIMEOUT_SECONDS
    )
    return {partition: each.offset for partition, each in found.items()}
