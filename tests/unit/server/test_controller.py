"""The metadata road on real files: what was answered is there after a restart, and snapshots replace the log."""

import asyncio
import errno
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headrace.cluster.control_records import VoterEndpoint, VoterNode
from headrace.cluster.decision import ControllerSettings, Decision
from headrace.cluster.features import LATEST_METADATA_VERSION, METADATA_VERSION
from headrace.cluster.image import CLUSTER_DEFAULT, Image
from headrace.cluster.quorum import Quorum, SnapshotPolicy
from headrace.log.errors import RecordListTooLargeError, StorageError
from headrace.log.fs import FileSystem, RealFileSystem
from headrace.log.memory_fs import Fault, MemoryFileSystem
from headrace.protocol.messages.metadata_records import ConfigRecord
from headrace.server.clock import MovableClock
from headrace.server.controller import FLUSH_AGAIN_MS, Controller
from headrace.server.later import Later
from headrace.server.metadata_log import DIRECTORY, MetadataLog
from headrace.server.worker import Worker

ME = VoterNode(1, bytes(15) + b"\x64", (VoterEndpoint("CONTROLLER", "127.0.0.1", 9093),))
HOUR_MS = 3_600_000


class Node:
    """A controller on a directory, with its worker; `stop` closes it, `crash` forgets it as it is."""

    def __init__(
        self, data: Path, *, clean: bool = False, policy: SnapshotPolicy | None = None, fs: FileSystem | None = None
    ) -> None:
        self.clock = MovableClock(1_700_000_000_000)
        self.worker = Worker(asyncio.get_running_loop())
        self.failures: list[Exception] = []
        self.log = MetadataLog.open(
            fs or RealFileSystem(), str(data), clean=clean, kraft_version=1, now_ms=self.clock.now_ms()
        )
        found = self.log.read()
        quorum = Quorum(
            ME, found.on_disk, kraft_version=1, policy=policy or SnapshotPolicy(), now_ms=self.clock.now_ms()
        )
        self.controller = Controller(
            self.log,
            quorum,
            found.replay,
            settings=ControllerSettings(1, "cluster", {}),
            levels={METADATA_VERSION: LATEST_METADATA_VERSION},
            session_timeout_ms=9000,
            clock=self.clock,
            worker=self.worker,
            on_failure=self.failures.append,
        )

    async def start(self) -> "Node":
        await answer(self.controller.start())
        return self

    async def set(self, name: str, value: str) -> str:
        return str(await answer(self.controller.submit(setting(name, value))))

    def config(self, name: str) -> str | None:
        return self.controller.image.config(CLUSTER_DEFAULT).get(name)

    def stop(self) -> None:
        self.worker.close()
        self.log.log.close()


def setting(name: str, value: str) -> Callable[[Image], Decision[str]]:
    return lambda _: Decision((ConfigRecord(4, "", name, value),), f"{name}={value}")


async def answer(later: Later[Any]) -> Any:
    future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    later.then(future.set_result)
    return await asyncio.wait_for(future, 120)


def test_a_new_cluster_gets_its_features_before_it_answers(tmp_path: Path) -> None:
    async def story() -> None:
        node = await Node(tmp_path).start()
        assert node.controller.image.metadata_version == LATEST_METADATA_VERSION
        assert node.controller.quorum.epoch == 1
        node.stop()

    asyncio.run(story())


def test_readers_see_a_change_when_it_is_committed_and_not_before(tmp_path: Path) -> None:
    async def story() -> None:
        node = await Node(tmp_path).start()
        changes: list[tuple[str | None, str | None]] = []
        node.controller.subscribe(
            lambda old, new: changes.append(
                (old.config(CLUSTER_DEFAULT).get("a"), new.config(CLUSTER_DEFAULT).get("a"))
            )
        )
        later = node.controller.submit(setting("a", "1"))
        assert node.config("a") is None
        assert node.controller.office.image.config(CLUSTER_DEFAULT) == {"a": "1"}
        assert await answer(later) == "a=1"
        assert node.config("a") == "1"
        assert changes == [(None, "1")]
        node.stop()

    asyncio.run(story())


@pytest.mark.parametrize("clean", [True, False])
def test_what_was_answered_is_there_after_a_restart(tmp_path: Path, clean: bool) -> None:
    async def story() -> None:
        node = await Node(tmp_path / "first").start()
        for number in range(20):
            await node.set("a", str(number))
        if clean:
            node.stop()
        shutil.copytree(tmp_path / "first", tmp_path / "second")
        again = await Node(tmp_path / "second", clean=clean).start()
        assert again.config("a") == "19"
        assert again.controller.quorum.epoch == 2
        assert await again.set("a", "20") == "a=20"
        again.stop()
        if not clean:
            node.stop()

    asyncio.run(story())


def test_many_decisions_are_synced_together_and_answered_in_order(tmp_path: Path) -> None:
    async def story() -> None:
        node = await Node(tmp_path).start()
        answers: list[str] = []
        laters = [node.controller.submit(setting("a", str(number))) for number in range(50)]
        for later in laters[:-1]:
            later.then(answers.append)
        assert await answer(laters[-1]) == "a=49"
        assert answers == [f"a={number}" for number in range(49)]
        node.stop()

    asyncio.run(story())


def test_a_snapshot_replaces_the_log_and_a_broken_one_is_passed_over(tmp_path: Path) -> None:
    async def story() -> None:
        node = await Node(tmp_path, policy=SnapshotPolicy(max_bytes=2000)).start()
        for number in range(200):
            await node.set(f"key-{number % 10}", str(number))
        node.stop()
        snapshots = sorted((tmp_path / DIRECTORY).glob("*.checkpoint"))
        assert 1 <= len(snapshots) <= 3
        again = await Node(tmp_path, clean=True).start()
        expected = {f"key-{number % 10}": str(number) for number in range(190, 200)}
        assert dict(again.controller.image.config(CLUSTER_DEFAULT)) == expected
        again.stop()
        damaged = bytearray(snapshots[-1].read_bytes())
        damaged[len(damaged) // 2] ^= 0xFF
        snapshots[-1].write_bytes(damaged)
        third = await Node(tmp_path, clean=True).start()
        assert dict(third.controller.image.config(CLUSTER_DEFAULT)) == expected
        third.stop()

    asyncio.run(story())


def test_syncs_and_snapshots_that_end_while_it_stops_ask_for_no_more(tmp_path: Path) -> None:
    async def run() -> None:
        policy = SnapshotPolicy(max_bytes=1)
        for number in range(20):
            node = await Node(tmp_path, policy=policy).start()
            for value in range(number % 4):
                await node.set("a", str(value))
            for value in range(3):
                node.controller.submit(setting("b", str(value)))  # nobody waits for the answers
            node.stop()
            assert node.failures == []
        again = await Node(tmp_path, clean=True).start()
        assert again.config("b") == "2"
        again.stop()

    asyncio.run(run())


def test_a_snapshot_is_due_when_enough_time_has_passed(tmp_path: Path) -> None:
    async def story() -> None:
        node = await Node(tmp_path, policy=SnapshotPolicy(max_interval_ms=HOUR_MS)).start()
        await node.set("a", "1")
        node.clock.move(HOUR_MS)
        node.controller.tick()
        node.stop()
        assert len(list((tmp_path / DIRECTORY).glob("*.checkpoint"))) == 1

    asyncio.run(story())


def test_what_lies_behind_the_newest_snapshot_counts_over_restarts(tmp_path: Path) -> None:
    async def story() -> None:
        sizes: list[int] = []
        policy = SnapshotPolicy(worth_bytes=2000)
        for _ in range(30):
            node = Node(tmp_path, clean=bool(sizes), policy=policy)
            sizes.append(node.log.read().on_disk.bytes_since_snapshot)
            await node.start()
            await node.set("a", "1")
            node.controller.tick()
            node.stop()
        assert sizes[0] == 0
        assert sizes[1] < sizes[2] < max(sizes) < 2500
        assert len(list((tmp_path / DIRECTORY).glob("*.checkpoint"))) == 2

    asyncio.run(story())


def test_a_sync_that_fails_is_told_and_nothing_more_is_answered() -> None:
    async def story() -> None:
        fs = MemoryFileSystem()
        node = await Node(Path("/data"), fs=fs).start()
        fs.faults.append(Fault("sync", path_end=".log"))
        answers: list[str] = []
        node.controller.submit(setting("a", "1")).then(answers.append)
        node.worker.close()
        assert len(node.failures) == 1
        assert not answers
        assert node.config("a") is None

    asyncio.run(story())


@pytest.mark.parametrize(
    ("operation", "path_end", "skip"), [("sync_dir", DIRECTORY, 1), ("open", "leader-epoch-checkpoint.tmp", 0)]
)
def test_a_sync_without_a_descriptor_for_a_file_is_tried_again(operation: str, path_end: str, skip: int) -> None:
    async def story() -> None:
        fs = MemoryFileSystem()
        node = Node(Path("/data"), fs=fs)
        fs.faults.append(Fault(operation, errno.EMFILE, path_end, skip=skip, times=2))
        answers: list[str] = []
        node.controller.start().then(lambda _: answers.append("started"))
        for value in range(9):
            node.controller.submit(setting("a", str(value))).then(answers.append)
        for left in (1, 0):
            while fs.faults[0].times > left:
                assert not node.failures
                await asyncio.sleep(0)
            await answer(node.worker.idle())
            assert (answers, node.failures) == ([], [])
            node.clock.move(FLUSH_AGAIN_MS)
        await node.set("b", "1")
        assert answers == ["started", *(f"a={value}" for value in range(9))]
        node.stop()
        again = await Node(Path("/data"), fs=fs).start()
        assert (again.config("a"), again.config("b")) == ("8", "1")
        again.stop()

    asyncio.run(story())


class _UnlistedFileSystem(MemoryFileSystem):
    """A directory cannot be opened, `unlisted` times."""

    unlisted = 0

    def list_dir(self, path: str) -> list[str]:
        if self.unlisted:
            self.unlisted -= 1
            raise OSError(errno.EMFILE, "Too many open files", path)
        return super().list_dir(path)


def test_old_metadata_that_cannot_be_listed_for_lack_of_descriptors_is_removed_later() -> None:
    async def story() -> None:
        fs = _UnlistedFileSystem()
        node = await Node(Path("/data"), fs=fs, policy=SnapshotPolicy(max_bytes=1)).start()
        fs.unlisted = 1
        broken: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: broken.append(context))
        for value in range(5):
            await node.set("a", str(value))
            await answer(node.worker.idle())
        assert (fs.unlisted, broken, node.failures) == (0, [], [])
        assert sum(name.endswith(".checkpoint") for name in fs.list_dir(f"/data/{DIRECTORY}")) <= 2
        node.stop()

    asyncio.run(story())


def test_an_append_that_cannot_be_cut_off_again_is_told() -> None:
    async def story() -> None:
        fs = MemoryFileSystem()
        node = await Node(Path("/data"), fs=fs).start()
        fs.faults += [Fault("append", path_end=".log", written_bytes=9), Fault("truncate", path_end=".log")]
        with pytest.raises(StorageError, match="takes no more writes"):
            node.controller.submit(setting("a", "1"))
        assert len(node.failures) == 1
        node.worker.close()

    asyncio.run(story())


@pytest.mark.parametrize("written_bytes", [0, 1, 50])
def test_what_the_disk_has_no_room_for_was_never_decided(written_bytes: int) -> None:
    async def story() -> None:
        fs = MemoryFileSystem()
        node = await Node(Path("/data"), fs=fs).start()
        await node.set("a", "1")
        waiting = node.controller.submit(setting("b", "1"))
        fs.faults.append(Fault("append", errno.ENOSPC, ".log", times=2, written_bytes=written_bytes))
        for value in ("2", "3"):
            with pytest.raises(StorageError, match="No space left"):
                node.controller.submit(setting("a", value))
        assert await node.set("c", "1") == "c=1"
        assert await answer(waiting) == "b=1"
        assert (node.config("a"), node.config("b"), node.failures) == ("1", "1", [])
        node.stop()
        again = await Node(Path("/data"), fs=fs, clean=True).start()
        assert [again.config(name) for name in "abc"] == ["1", "1", "1"]
        again.stop()

    asyncio.run(story())


def test_what_is_more_than_one_batch_may_have_was_never_decided(tmp_path: Path) -> None:
    async def story() -> None:
        node = await Node(tmp_path).start()
        waiting = node.controller.submit(setting("b", "1"))
        too_much = tuple(ConfigRecord(4, "", f"a{number}", "x" * 30_000) for number in range(300))
        with pytest.raises(RecordListTooLargeError, match=r"9\d{6} bytes of metadata; one request may make 8388608"):
            node.controller.submit(lambda _: Decision(too_much, None))
        assert await node.set("c", "1") == "c=1"
        assert await answer(waiting) == "b=1"
        assert (node.config("a0"), node.failures) == (None, [])
        node.stop()
        again = await Node(tmp_path, clean=True).start()
        assert [again.config(name) for name in ("a0", "b", "c")] == [None, "1", "1"]
        again.stop()

    asyncio.run(story())


def test_a_snapshot_that_cannot_be_written_stops_nothing() -> None:
    async def story() -> None:
        fs = MemoryFileSystem()
        fs.faults.append(Fault("append", errno.ENOSPC, ".checkpoint.tmp"))
        node = await Node(Path("/data"), fs=fs, policy=SnapshotPolicy(max_bytes=1)).start()
        while fs.faults[0].times:
            await asyncio.sleep(0)
        await node.set("a", "3")
        assert node.failures == []
        node.stop()

    asyncio.run(story())
