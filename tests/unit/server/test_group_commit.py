"""Syncs before acknowledgements with the real worker thread and real files."""

import asyncio
from pathlib import Path
from typing import Any

from headrace.log.config import LogConfig
from headrace.log.fs import RealFileSystem
from headrace.log.log import Log
from headrace.protocol.error_codes import ErrorCode
from headrace.server.clock import LoopClock
from headrace.server.group_commit import GroupCommit
from headrace.server.partition import Partition
from headrace.server.waiters import Acknowledgements
from headrace.server.worker import Worker
from tests.support.log_batches import NOW_MS, a_batch


def open_partition(path: Path, index: int, flushes: GroupCommit) -> Partition:
    log = Log.open(RealFileSystem(), f"{path}/t-{index}", LogConfig(flush_messages=1), clean=True, now_ms=NOW_MS)
    partition = Partition("t", bytes(16), index, log, flushes)
    partition.lead(leader_epoch=0, in_sync=1, replicas=1)
    return partition


def test_many_acknowledgements_of_many_logs_share_few_rounds(tmp_path: Path) -> None:
    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        worker = Worker(loop)
        rounds: list[Any] = []
        submit = worker.submit
        flushes = GroupCommit(worker)

        class Counting:
            is_closing = False

            def submit(self, chore: Any) -> None:
                rounds.append(chore)
                submit(chore)

        flushes._worker = Counting()  # type: ignore[assignment]
        partitions = [open_partition(tmp_path, index, flushes) for index in range(5)]
        codes: list[ErrorCode] = []
        for _ in range(20):
            for partition in partitions:
                result = partition.append(a_batch(), acks=-1, now_ms=NOW_MS)
                assert partition.log.high_watermark <= result.last_offset
                wait = Acknowledgements([(partition, result.last_offset)], clock=LoopClock(loop), timeout_ms=10_000)
                wait.codes.then(codes.extend)
        while len(codes) < 100:
            await asyncio.sleep(0)
        assert set(codes) == {ErrorCode.NONE}
        assert all(partition.log.flushed_offset == partition.log.high_watermark == 20 for partition in partitions)
        assert len(rounds) == 2  # the first append began one; all others were there before it ended
        worker.close()
        flushes.close()
        for partition in partitions:
            partition.log.close()

    asyncio.run(scenario())


def test_closing_in_the_middle_begins_no_new_round(tmp_path: Path) -> None:
    async def scenario() -> None:
        worker = Worker(asyncio.get_running_loop())
        flushes = GroupCommit(worker)
        partition = open_partition(tmp_path, 0, flushes)
        for _ in range(3):
            partition.append(a_batch(), acks=-1, now_ms=NOW_MS)
        worker.close()
        flushes.close()
        assert partition.log.flushed_offset in (1, 3)
        partition.log.close()

    asyncio.run(scenario())
