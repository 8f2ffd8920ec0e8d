"""Data directories that a broker does not start on, and leaves as they were."""

import asyncio
import shutil
import threading
from pathlib import Path

import pytest

from headrace.log.errors import LockedError
from headrace.protocol.batch import write_crc
from headrace.protocol.records import iter_batches
from headrace.server.start_error import StartError
from tests.support.running_broker import Running


def test_a_second_broker_on_the_same_data_is_refused(tmp_path: Path) -> None:
    async def story() -> None:
        running = await Running(tmp_path).start()
        with pytest.raises(LockedError, match="another process"):
            Running(tmp_path)
        await running.stop()

    asyncio.run(story())


def test_data_of_another_node_is_refused_with_what_to_do(tmp_path: Path) -> None:
    async def story() -> None:
        await (await Running(tmp_path).start()).stop()
        with pytest.raises(StartError, match=r"belongs to node 1, and node.id is 2[^$]*--set node.id=1"):
            Running(tmp_path, node_id="2")

    asyncio.run(story())


def test_data_of_no_node_is_refused_and_not_taken_for_an_empty_directory(tmp_path: Path) -> None:
    async def story() -> None:
        (tmp_path / "meta.properties").write_text("not what it was\n")
        with pytest.raises(
            StartError, match=r"its meta.properties does not say to which node it belongs[^$]*Bring back"
        ):
            Running(tmp_path)

    asyncio.run(story())


def test_a_directory_that_is_refused_keeps_what_it_says_of_itself(tmp_path: Path) -> None:
    async def story() -> None:
        meta = "version=0\nbroker.id=1\ncluster.id=abc\n"  # from the days of ZooKeeper
        (tmp_path / "meta.properties").write_text(meta)
        (tmp_path / "orders-0").mkdir()
        (tmp_path / "orders-0" / "00000000000000000000.log").touch()
        with pytest.raises(StartError, match="no metadata"):
            Running(tmp_path)
        assert (tmp_path / "meta.properties").read_text() == meta

    asyncio.run(story())


def test_a_broker_that_cannot_read_its_metadata_leaves_the_directory_as_it_was(tmp_path: Path) -> None:
    async def story() -> None:
        node = await Running(tmp_path).start()
        await node.create("t")
        await node.stop()
        path = tmp_path / "__cluster_metadata-0" / "00000000000000000000.log"
        good = path.read_bytes()
        frame = b"\x01\x0c\x00"  # of a FeatureLevelRecord
        assert frame in good
        unknown = bytearray(good.replace(frame, b"\x07\x0c\x00"))
        for position, header in list(iter_batches(unknown)):
            write_crc(unknown, position, position + header.size_bytes)
        path.write_bytes(unknown)
        threads = threading.active_count()
        with pytest.raises(StartError, match=r"cannot start on .*: its metadata cannot be read: frame version 7"):
            Running(tmp_path)
        assert threading.active_count() == threads
        path.write_bytes(good)
        again = await Running(tmp_path).start()
        assert again.broker.logs.was_clean
        await again.stop()

    asyncio.run(story())


def test_logs_whose_metadata_is_elsewhere_are_not_taken_for_those_of_deleted_topics(tmp_path: Path) -> None:
    async def story() -> None:
        data = tmp_path / "data"
        node = await Running(data).start()
        await node.create("t")
        await node.produce("t", b"precious")
        await node.stop()
        shutil.move(data / "__cluster_metadata-0", tmp_path)
        for _ in range(2):  # the first leaves nothing behind that the second could take for metadata
            with pytest.raises(
                StartError, match=r"it has logs, such as t-0, and no metadata.*\n  Bring __cluster_meta"
            ):
                await Running(data).start()
        assert (data / "t-0").is_dir()
        shutil.rmtree(data / "__cluster_metadata-0")
        shutil.move(tmp_path / "__cluster_metadata-0", data)
        again = await Running(data).start()
        assert await again.consume("t") == [b"precious"]
        await again.stop()

    asyncio.run(story())
