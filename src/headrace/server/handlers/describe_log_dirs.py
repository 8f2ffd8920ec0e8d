"""DescribeLogDirs (key 35, versions 1-5): how much each partition takes on disk, and how much there is.

Behaviour   all partitions if the client names none; those that are not here are left out
            logs that sleep are opened for it, some at a time: with thousands the answer takes seconds, and nobody waits
Versions    2 is flexible; 4 tells the size of the disk and what is free; 5 tells whether new partitions may go there
Left out    there is one data directory, and no replica moves between directories
"""

import os
from typing import Final

from headrace.protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from headrace.server.context import RequestContext
from headrace.server.later import Later
from headrace.server.partition import Partition

_UNKNOWN_BYTES: Final = -1
_WAKES: Final = 20  # per turn: some milliseconds if they are there, some more if they are yet to be made
_TURN_MS: Final = 5  # between turns others have the loop


def handle(
    request: DescribeLogDirsRequest, ctx: RequestContext
) -> DescribeLogDirsResponse | Later[DescribeLogDirsResponse]:
    partitions, clock = ctx.broker.partitions, ctx.broker.clock
    if not partitions.wake(_WAKES):
        return _describe(request, ctx)
    answer: Later[DescribeLogDirsResponse] = Later()

    def go_on() -> None:
        if answer.is_settled:  # nobody waits for it any more
            return
        if partitions.wake(_WAKES):
            clock.call_later(_TURN_MS, go_on)
        else:
            answer.resolve(_describe(request, ctx))

    clock.call_later(_TURN_MS, go_on)
    return answer


def _describe(request: DescribeLogDirsRequest, ctx: RequestContext) -> DescribeLogDirsResponse:
    partitions = ctx.broker.partitions
    wanted = None
    if request.topics is not None:
        wanted = {(topic.topic, index) for topic in request.topics for index in topic.partitions}
    rows: dict[str, list[DescribeLogDirsPartition]] = {}
    for partition in partitions:
        if wanted is None or (partition.topic, partition.index) in wanted:
            rows.setdefault(partition.topic, []).append(_row(partition))
    total_bytes, usable_bytes = _disk(partitions.path)
    result = DescribeLogDirsResult(
        log_dir=partitions.path,
        topics=[DescribeLogDirsTopic(topic, found) for topic, found in rows.items()],
        total_bytes=total_bytes,
        usable_bytes=usable_bytes,
    )
    return DescribeLogDirsResponse(results=[result])


def _row(partition: Partition) -> DescribeLogDirsPartition:
    log = partition.log
    # The lag behind what is known to be safe: a leader has none.
    return DescribeLogDirsPartition(partition.index, log.size_bytes, max(log.high_watermark - log.log_end_offset, 0))


def _disk(path: str) -> tuple[int, int]:
    try:
        disk = os.statvfs(path)
    except OSError:
        return _UNKNOWN_BYTES, _UNKNOWN_BYTES
    return disk.f_frsize * disk.f_blocks, disk.f_frsize * disk.f_bavail
