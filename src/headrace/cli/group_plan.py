"""The plan of `headrace group reset`, computed: where to a group moves in each partition; and its file formats.

Nothing here talks to a broker. A plan is written and read as JSON lines, or as the CSV of kafka-consumer-groups:
`topic,partition,offset`, with the group in front where a file is about several.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

from headrace.cli.output import Complaint
from headrace.cli.values import parse_time
from headrace.client.topic_partition import TopicPartition

CURRENT: Final = "current"
_NAMES: Final = {"beginning": "earliest", "end": "latest"}
_EXPECTED: Final = 'Expected is topic,partition,offset or {"topic": …, "partition": …, "offset": …} on each line.'

Offsets = Mapping[TopicPartition, int]


class Target(NamedTuple):
    """Where to: exactly one of them is set."""

    spec: str | int | None = None  # what brokers are asked for: earliest, latest, …, or a time in milliseconds
    offset: int | None = None
    shift: int | None = None
    is_current: bool = False
    by_partition: Offsets | None = None


class Move(NamedTuple):
    """`committed` is None if the group has no offset there; `end` is where the log ends."""

    partition: TopicPartition
    committed: int | None
    offset: int
    end: int
    note: str = ""


def parse_target(to: str | None, shift: int | None, read_file: Callable[[], Offsets] | None) -> Target:
    """Of --to, --shift and --from-file, one of which must be given. Raises Complaint."""
    if sum(each is not None for each in (to, shift, read_file)) != 1:
        raise Complaint(
            "Where to? Give one of --to, --shift and --from-file.",
            hint="Such as --to earliest, --to 1200, --to '2h ago', --shift -10.",
        )
    if read_file is not None:
        return Target(by_partition=read_file())
    if to is None:
        return Target(shift=shift)
    if to == CURRENT:
        return Target(is_current=True)
    if to.isascii() and to.isdigit():
        return Target(offset=int(to))
    return Target(spec=parse_time(_NAMES.get(to, to.removeprefix("@"))))


def moves(
    target: Target,
    partitions: Iterable[TopicPartition],
    *,
    committed: Offsets,
    firsts: Offsets,
    ends: Offsets,
    found: Offsets,
) -> list[Move]:
    """A move for each partition; `found` is what brokers answered to `target.spec`. Raises Complaint."""
    plan = []
    for each in partitions:
        before = committed.get(each)
        offset, note = _destination(target, each, before, ends[each], found)
        if offset > ends[each]:
            offset, note = ends[each], f"the log ends before {offset}"
        elif offset < firsts[each]:
            offset, note = firsts[each], f"the log begins after {offset}"
        plan.append(Move(each, before, offset, ends[each], note))
    return plan


def _destination(
    target: Target, partition: TopicPartition, committed: int | None, end: int, found: Offsets
) -> tuple[int, str]:
    """As it is wanted, wherever the log begins and ends; and a remark."""
    if target.by_partition is not None:
        return target.by_partition[partition], ""
    if target.offset is not None:
        return target.offset, ""
    if target.shift is not None:
        if committed is None:
            raise Complaint(
                f"The group has no offset for {partition} that could be shifted.",
                hint="Give it one with --to, or leave the partition out.",
            )
        return max(committed + target.shift, 0), ""
    if target.is_current:
        return (end, "none was committed") if committed is None else (committed, "")
    return (end, "no record is so late") if found[partition] < 0 else (found[partition], "")


# Files


def read_offsets(text: str, *, group: str, source: str) -> dict[TopicPartition, int]:
    """What a file has for this group; rows without a group are for any. Raises Complaint."""
    offsets = {}
    others = set()
    for number, line in enumerate(text.removeprefix("\ufeff").splitlines(), 1):
        if not line.strip():
            continue
        try:
            owner, partition, offset = _read_json(line) if line.lstrip().startswith("{") else _read_csv(line)
        except ValueError as error:
            raise Complaint(f"{source}, line {number}: {error}.", hint=_EXPECTED) from None
        if owner in (None, group):
            offsets[partition] = offset
        else:
            others.add(owner)
    if not offsets:
        rest = f"; it is about {', '.join(sorted(map(str, others)))}" if others else ""
        raise Complaint(f"{source} has no offsets for {group}{rest}.", hint=_EXPECTED)
    return offsets


def _read_json(line: str) -> tuple[str | None, TopicPartition, int]:
    fields: dict[str, Any] = json.loads(line)
    missing = [name for name in ("topic", "partition", "offset") if name not in fields]
    if missing:
        raise ValueError(f"{' and '.join(missing)} is missing")
    partition, offset = fields["partition"], fields["offset"]
    if not all(type(each) is int and each >= 0 for each in (partition, offset)):
        raise ValueError("partition and offset are numbers from 0 on")
    return fields.get("group"), TopicPartition(str(fields["topic"]), partition), offset


def _read_csv(line: str) -> tuple[str | None, TopicPartition, int]:
    cells = [cell.strip() for cell in next(csv.reader([line]))]
    if len(cells) not in (3, 4):
        raise ValueError(f"it has {len(cells)} columns")
    *owner, topic, partition, offset = cells
    if not all(each.isascii() and each.isdigit() for each in (partition, offset)):
        raise ValueError("partition and offset are numbers from 0 on")
    return owner[0] if owner else None, TopicPartition(topic, int(partition)), int(offset)


def as_csv(plan: Iterable[Move]) -> str:
    """As kafka-consumer-groups --export writes it for one group."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows((*move.partition, move.offset) for move in plan)
    return out.getvalue()
