"""A whole broker over real sockets and files: started, used, stopped, killed, started again."""

import asyncio
import shutil
import socket
import struct
from pathlib import Path

import pytest

from headrace.cluster.image import ConfigKind
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.header import write_request_header
from headrace.protocol.messages import alter_client_quotas as quotas
from headrace.protocol.messages import describe_quorum
from headrace.protocol.messages import incremental_alter_configs as alter_configs
from headrace.protocol.messages.api_versions import ApiVersionsRequest
from headrace.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from headrace.protocol.messages.headers import RequestHeader
from headrace.protocol.messages.metadata import MetadataRequest
from headrace.protocol.messages.unregister_broker import UnregisterBrokerRequest
from headrace.server.clock import MovableClock
from headrace.server.settings import SettingsError, load_settings
from tests.support.running_broker import Running, produce_request, settled

NOW_MS = 1_700_000_000_000


def test_a_topic_is_created_written_and_read(tmp_path: Path) -> None:
    async def story() -> None:
        running = await Running(tmp_path).start()
        await running.create("orders")
        assert await running.produce("orders", b"a", b"b") == 0
        assert await running.produce("orders", b"c") == 2
        assert await running.consume("orders") == [b"a", b"b", b"c"]
        await running.stop()

    asyncio.run(story())


@pytest.mark.parametrize("clean", [True, False])
def test_everything_is_there_after_a_restart(tmp_path: Path, clean: bool) -> None:
    async def story() -> None:
        first = await Running(tmp_path / "first").start()
        await first.create("orders")
        await first.produce("orders", b"a", b"b")
        cluster_id = first.broker.cluster_id
        if clean:
            await first.stop()
        shutil.copytree(tmp_path / "first", tmp_path / "second")  # what a killed process leaves behind
        second = await Running(tmp_path / "second").start()
        assert second.broker.cluster_id == cluster_id
        assert second.broker.logs.was_clean is clean
        assert await second.consume("orders") == [b"a", b"b"]
        assert await second.produce("orders", b"c") == 2
        await second.stop()
        if not clean:
            await first.stop()

    asyncio.run(story())


@pytest.mark.slow
def test_a_broker_that_is_only_ever_started_and_stopped_shortens_its_metadata(tmp_path: Path) -> None:
    async def story() -> None:
        node = await Running(tmp_path).start()
        many = CreateTopicsRequest(topics=[CreatableTopic("many", 8000, 1)])
        assert (await node.ask("CreateTopics", many)).topics[0].error_code == 0
        await node.stop()
        again = await Running(tmp_path).start()
        await settled(again.broker.idle())
        assert len(list((tmp_path / "__cluster_metadata-0").glob("*.checkpoint"))) == 1
        await again.stop()

    asyncio.run(story())


def test_a_broker_that_is_stopped_before_it_has_started_never_starts(tmp_path: Path) -> None:
    """A signal may come at any moment: here before, and after each of the commits of the start."""

    async def stopped_after(commits: int) -> bool:
        """False if it had started by then."""
        clock = MovableClock(NOW_MS)
        running = Running(tmp_path / str(commits), clock)
        left: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        story: list[str] = []

        def stop() -> None:
            story.append("told to stop")
            running.broker.stop().then(left.set_result)

        def committed(*_: object) -> None:
            story.append("commit")
            if len(story) == commits:
                asyncio.get_running_loop().call_soon(stop)

        running.broker.controller.subscribe(committed)
        running.broker.start().then(lambda _: story.append("ready"))
        if not commits:
            stop()
        await asyncio.wait_for(left, 120)
        running.broker.close()
        assert not running.failures
        if "ready" in story[: story.index("told to stop")]:
            return False
        assert "ready" not in story
        assert [call for *_, call in clock._calls if call._callback is not None] == []
        again = await Running(tmp_path / str(commits)).start()
        await again.stop()
        return True

    async def scenario() -> None:
        commits = 0
        while await stopped_after(commits):
            commits += 1
        assert commits > 2

    asyncio.run(scenario())


def test_clients_are_told_where_the_broker_is_reached(tmp_path: Path) -> None:
    async def story() -> None:
        running = await Running(tmp_path, advertised_listeners="PLAINTEXT://events.example:19092").start_unreached()
        listener = running.broker.listeners[0]
        assert (listener.host, listener.port) == ("events.example", 19092)
        metadata = running.broker.controller.image.brokers[1]
        assert [(each.host, each.port) for each in metadata.listeners] == [("events.example", 19092)]
        await settled(running.broker.stop())
        running.broker.close()

    asyncio.run(story())


@pytest.mark.parametrize("host", ["", "0.0.0.0", "[::]"])
def test_clients_are_not_told_the_address_of_every_interface(tmp_path: Path, host: str) -> None:
    async def story() -> None:
        running = await Running(tmp_path, listeners=f"PLAINTEXT://{host}:0").start_unreached()
        assert [each.host for each in running.broker.listeners] == [socket.gethostname()]
        metadata = running.broker.controller.image.brokers[1]
        assert [each.host for each in metadata.listeners] == [socket.gethostname()]
        await settled(running.broker.stop())
        running.broker.close()

    asyncio.run(story())


def test_the_quorum_is_told_where_it_is_reached(tmp_path: Path) -> None:
    async def story() -> None:
        for _ in range(2):  # another port at each start
            node = await Running(tmp_path).start()
            wanted = describe_quorum.TopicData("__cluster_metadata", [describe_quorum.PartitionData(0)])
            answer = await node.ask("DescribeQuorum", describe_quorum.DescribeQuorumRequest([wanted]))
            (voter,) = answer.nodes
            (listener,) = node.broker.listeners
            assert voter.listeners == [("CONTROLLER", listener.host, listener.port, ())]
            assert listener.port > 0
            await node.stop()

    asyncio.run(story())


def test_all_that_is_wrong_with_the_configs_is_told_at_once() -> None:
    with pytest.raises(SettingsError) as caught:
        load_settings({"listenrs": "PLAINTEXT://:9092", "log.retention.ms": "7d"})
    assert "did you mean listeners?" in str(caught.value)
    assert "log.retention.ms must be a whole number of milliseconds" in str(caught.value)


@pytest.mark.parametrize(
    ("name", "text"),
    [("process.roles", "broker"), ("authorizer.class.name", "org.apache.kafka.metadata.authorizer.StandardAuthorizer")],
)
def test_what_would_silently_be_missing_is_refused(name: str, text: str) -> None:
    with pytest.raises(SettingsError, match=f"{name}: .*leave it out"):
        load_settings({"listeners": "PLAINTEXT://127.0.0.1:0", name: text})


def test_a_request_for_more_metadata_than_fits_into_a_batch_is_refused_and_the_next_one_is_served(
    tmp_path: Path,
) -> None:
    async def story() -> None:
        node = await Running(tmp_path).start()
        configs = [
            alter_configs.AlterableConfig(name, 0, "50000")
            for name in ("consumer.session.timeout.ms", "share.session.timeout.ms", "streams.session.timeout.ms")
        ]
        groups = [
            alter_configs.AlterConfigsResource(ConfigKind.GROUP, f"{number:030000}", configs) for number in range(100)
        ]
        request = alter_configs.IncrementalAlterConfigsRequest(groups)
        response = await node.ask("IncrementalAlterConfigs", request)
        assert {row.error_code for row in response.responses} == {ErrorCode.RECORD_LIST_TOO_LARGE}
        assert "Ask for less at once" in response.responses[0].error_message
        await node.create("t")
        assert await node.produce("t", b"a") == 0
        await node.stop()

    asyncio.run(story())


def test_metadata_names_this_broker_as_leader_and_controller(tmp_path: Path) -> None:
    async def story() -> None:
        running = await Running(tmp_path).start()
        await running.create("orders")
        response = await running.ask("Metadata", MetadataRequest(topics=None))
        assert response.controller_id == 1
        assert [(topic.name, topic.partitions[0].leader_id) for topic in response.topics] == [("orders", 1)]
        await running.stop()

    asyncio.run(story())


def test_who_is_too_fast_is_not_listened_to_for_as_long_as_it_was_told(tmp_path: Path) -> None:
    clock = MovableClock(1_700_000_000_000)

    async def limit() -> None:
        running = await Running(tmp_path, clock).start()
        await running.create("orders")
        entity = [quotas.EntityData("client-id", "test")]
        entry = quotas.EntryData(entity, [quotas.OpData("producer_byte_rate", 50.0)])
        response = await running.ask("AlterClientQuotas", quotas.AlterClientQuotasRequest([entry]))
        assert response.entries[0].error_code == 0
        await running.stop()

    async def story() -> None:
        running = await Running(tmp_path, clock).start()
        response = await running.ask("Produce", produce_request("orders", bytes(1000)))
        throttle_ms = response.throttle_time_ms
        assert throttle_ms > 10_000
        await running.send("ApiVersions", ApiVersionsRequest("test", "1"))
        for _ in range(20):
            await asyncio.sleep(0)
        with pytest.raises(BlockingIOError):
            running.client.recv(1)
        clock.move(throttle_ms)
        assert (await running.answer("ApiVersions")).error_code == 0
        await running.stop()

    asyncio.run(limit())
    asyncio.run(story())  # the quota was not forgotten


def test_limits_on_connections_follow_configs_that_are_set_while_the_broker_runs(tmp_path: Path) -> None:
    async def limit(node: Running, text: str | None) -> None:
        config = alter_configs.AlterableConfig("max.connections", 0 if text else 1, text)
        resource = alter_configs.AlterConfigsResource(ConfigKind.BROKER, "", [config])
        request = alter_configs.IncrementalAlterConfigsRequest([resource])
        response = await node.ask("IncrementalAlterConfigs", request)
        assert response.responses[0].error_code == ErrorCode.NONE

    async def is_welcome(node: Running) -> bool:
        listener = node.broker.listeners[0]
        reader, writer = await asyncio.open_connection(listener.host, listener.port)
        content = write_request_header(RequestHeader(18, 0, 1, "test"))
        writer.write(struct.pack(">i", len(content)) + content)
        try:
            return bool(await asyncio.wait_for(reader.read(4), 120))
        except ConnectionResetError:  # it was closed with the request in it
            return False
        finally:
            writer.close()

    async def story() -> None:
        node = await Running(tmp_path).start()
        assert await is_welcome(node)
        await limit(node, "1")
        assert not await is_welcome(node)
        await node.stop()
        again = await Running(tmp_path).start()
        assert not await is_welcome(again)
        await limit(again, None)
        assert await is_welcome(again)
        await again.stop()

    asyncio.run(story())


def test_a_broker_that_was_unregistered_stays_out_until_it_is_started_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    clock = MovableClock(1_700_000_000_000)
    produce = produce_request("orders", b"1")

    async def leave() -> None:
        running = await Running(tmp_path, clock).start()
        await running.create("orders")
        await running.produce("orders", b"0")
        assert (await running.ask("UnregisterBroker", UnregisterBrokerRequest(1))).error_code == 0
        for _ in range(3):
            clock.move(2000)
        refused = await running.ask("Produce", produce)
        row = refused.responses[0].partition_responses[0]
        assert row.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert not (await running.ask("Metadata", MetadataRequest(topics=None))).brokers
        await running.stop()

    async def come_back() -> None:
        running = await Running(tmp_path, clock).start()
        assert await running.produce("orders", b"1") == 1
        await running.stop()

    asyncio.run(leave())
    warnings = [record.message for record in caplog.records if "is not registered any more" in record.message]
    assert warnings == [
        "[broker 1] is not registered any more (STALE_BROKER_EPOCH), and leads nothing; start it again to bring it back"
    ]
    asyncio.run(come_back())
