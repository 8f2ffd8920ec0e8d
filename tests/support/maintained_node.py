"""A node in memory, and who keeps it in order by a clock that tests move."""

from headrace.log.memory_fs import MemoryFileSystem
from headrace.server.group_commit import GroupCommit
from headrace.server.maintenance import Maintenance
from tests.support.log_batches import a_batch
from tests.support.one_node import OneNode


class Site:
    """A node, and who keeps it in order."""

    def __init__(self, fs: MemoryFileSystem | None = None) -> None:
        self.fs = fs or MemoryFileSystem()
        self.node = OneNode(self.fs)
        self.cleaner = self.node.logs.cleaner
        worker: object = self.node.worker
        self.maintenance = Maintenance(
            self.node.partitions,
            self.fs,
            self.node.logs,
            worker,  # type: ignore[arg-type]
            GroupCommit(worker),  # type: ignore[arg-type]
            self.node.clock,
        )
        self.maintenance.start()

    def append(self, topic: str = "t", *, count: int = 1, key: bytes = b"k", **how: int) -> None:
        for _ in range(count):
            now_ms = self.node.clock.now_ms()
            batch = a_batch(b"v" * 400, keys=[key], timestamps=[now_ms], **how)  # type: ignore[arg-type]
            self.node.partition(topic).append(batch, acks=1, now_ms=now_ms)

    def pass_time(self, milliseconds: int) -> None:
        """And let the worker do what comes up."""
        self.node.clock.move(milliseconds)
        while self.node.worker.chores:
            self.node.worker.step()

    def files(self, topic: str = "t") -> list[str]:
        return sorted(name for name in self.fs.list_dir(f"/data/{topic}-0") if name.endswith((".log", ".deleted")))
