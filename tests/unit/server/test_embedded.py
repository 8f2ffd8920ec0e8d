"""A broker inside the process, as users write it."""

import asyncio
import os
import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import headrace
from headrace.log.errors import LockedError
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from headrace.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from headrace.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from headrace.server.broker import Broker
from headrace.server.broker_thread import StoppedError
from headrace.server.embedded import TopicRefusedError
from headrace.server.later import Later
from headrace.server.settings import SettingsError
from headrace.server.start_error import StartError
from headrace.testing import MovableClock
from tests.support.one_topic import FETCH_VERSION, client_of, fetch_request, produce, values
from tests.support.wire_client import Closed


def test_a_broker_starts_has_an_address_and_leaves_nothing_behind() -> None:
    threads = threading.active_count()
    with headrace.Broker() as broker:
        host, _, port = broker.address.rpartition(":")
        assert host == "127.0.0.1"
        assert int(port) > 0
        assert repr(broker) == f"<headrace.Broker: {broker.address}>"
        path = broker._path
        assert os.path.isdir(path)
    assert not os.path.exists(path)
    assert threading.active_count() == threads
    with socket.create_server((host, int(port))):
        pass  # the port is free
    broker.close()
    assert repr(broker) == "<headrace.Broker: closed>"


def test_data_with_a_path_stays_and_belongs_to_one_broker_at_a_time(tmp_path: Path) -> None:
    with headrace.Broker(str(tmp_path)) as first:
        cluster_id = first.cluster_id
        with pytest.raises(LockedError):
            headrace.Broker(tmp_path)
    with headrace.Broker(tmp_path) as second:
        assert second.cluster_id == cluster_id


def test_configs_are_given_by_keyword_and_checked() -> None:
    with headrace.Broker(num_partitions=3, auto_create_topics_enable=False) as broker:
        with client_of(broker.address) as client:
            resource = DescribeConfigsResource(4, "1", ["num.partitions", "auto.create.topics.enable"])
            rows = client.ask("DescribeConfigs", 4, DescribeConfigsRequest([resource])).results[0].configs
        assert {row.name: row.value for row in rows} == {"num.partitions": "3", "auto.create.topics.enable": "false"}
    with pytest.raises(SettingsError, match=r"num.partitons is not a broker config; did you mean num.partitions\?"):
        headrace.Broker(num_partitons=3)


def test_several_brokers_live_side_by_side() -> None:
    with headrace.Broker() as one, headrace.Broker() as other:
        assert one.address != other.address
        assert one.cluster_id != other.cluster_id


def test_a_broker_that_cannot_start_leaves_nothing_behind(tmp_path: Path) -> None:
    threads = threading.active_count()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        listeners = f"PLAINTEXT://127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(OSError, match="Use another address"):
            headrace.Broker(tmp_path, listeners=listeners)
    assert threading.active_count() == threads
    headrace.Broker(tmp_path).close()


# Topics


def test_a_topic_that_was_created_is_there_for_clients() -> None:
    with headrace.Broker() as broker:
        broker.create_topic("orders", 3, cleanup_policy="compact", **{"retention.ms": 5000})
        with client_of(broker.address) as client:
            row = client.ask("Metadata", 12, MetadataRequest([MetadataRequestTopic(name="orders")])).topics[0]
            assert [partition.leader_id for partition in row.partitions] == [1, 1, 1]
            resource = DescribeConfigsResource(2, "orders", ["cleanup.policy", "retention.ms"])
            configs = client.ask("DescribeConfigs", 4, DescribeConfigsRequest([resource])).results[0].configs
            assert {row.name: row.value for row in configs} == {"cleanup.policy": "compact", "retention.ms": "5000"}


def test_a_topic_that_is_refused_says_why_and_what_to_do() -> None:
    with headrace.Broker() as broker:
        broker.create_topic("orders")
        with pytest.raises(
            TopicRefusedError, match=r"cannot create topic 'orders': .*Use another name, or delete it"
        ) as e:
            broker.create_topic("orders")
        assert e.value.code is ErrorCode.TOPIC_ALREADY_EXISTS
        with pytest.raises(TopicRefusedError, match=r"cannot create topic 'a b': .*other characters"):
            broker.create_topic("a b")
        with pytest.raises(TopicRefusedError, match=r"'more': .*3.*1"):
            broker.create_topic("more", replication_factor=3)
        with pytest.raises(TopicRefusedError, match=r"'more': .*retention\.mss.*did you mean retention\.ms\?"):
            broker.create_topic("more", retention_mss=5)


def test_topics_are_created_from_many_threads() -> None:
    with headrace.Broker() as broker:
        names = [f"topic-{number}" for number in range(20)]
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(broker.create_topic, names))
        with client_of(broker.address) as client:
            response = client.ask("Metadata", 12, MetadataRequest(topics=None))
        assert sorted(row.name for row in response.topics) == sorted(names)


# Restarts and crashes


@pytest.mark.parametrize("is_kept", [False, True])
def test_a_restart_keeps_address_and_data(is_kept: bool, tmp_path: Path) -> None:
    with headrace.Broker(tmp_path if is_kept else None) as broker:
        broker.create_topic("orders")
        address, cluster_id = broker.address, broker.cluster_id
        with client_of(address) as client:
            assert produce(client, "orders", b"1") == 0
            broker.restart()
            with pytest.raises(Closed):
                client.receive_frame()
        assert (broker.address, broker.cluster_id) == (address, cluster_id)
        with client_of(address) as client:
            assert values(client, "orders") == [b"1"]


@pytest.mark.parametrize("is_kept", [False, True])
def test_a_killed_broker_recovers_what_was_acknowledged(is_kept: bool, tmp_path: Path) -> None:
    with headrace.Broker(tmp_path if is_kept else None) as broker:
        broker.create_topic("orders")
        with client_of(broker.address) as client:
            assert produce(client, "orders", b"1") == 0
            broker.kill()
            with pytest.raises(Closed):
                client.receive_frame()
        assert repr(broker) == "<headrace.Broker: killed>"
        assert ".kafka_cleanshutdown" not in os.listdir(broker._path)
        assert "recovery-point-offset-checkpoint" not in os.listdir(broker._path)
        with pytest.raises(ConnectionRefusedError):
            client_of(broker.address)
        with pytest.raises(RuntimeError, match=r"was killed; restart\(\) starts it again"):
            broker.create_topic("users")
        broker.restart()
        with client_of(broker.address) as client:
            assert values(client, "orders") == [b"1"]
            assert produce(client, "orders", b"2") == 0


def test_what_recovery_cuts_off_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with headrace.Broker(tmp_path) as broker:
        broker.create_topic("orders")
        with client_of(broker.address) as client:
            assert produce(client, "orders", b"1") == 0
        broker.kill()
        for name in ("orders-0", "__cluster_metadata-0"):
            with (tmp_path / name / f"{0:020d}.log").open("ab") as segment:
                segment.write(b"torn")
        (tmp_path / "log-start-offset-checkpoint").write_text("nonsense")
        broker.restart()
        with client_of(broker.address) as client:
            assert values(client, "orders") == [b"1"]
    told = [record.message for record in caplog.records if record.levelname == "WARNING"]
    assert len(told) == 3, told
    assert "log-start-offset-checkpoint" in told[0]
    assert told[1].startswith("[__cluster_metadata-0] was not closed well: 4 bytes were not whole, and are cut off")
    assert told[2] == (
        "[orders-0] was not closed well: 4 bytes were not whole, and are cut off; the log ends at offset 1"
    )


def test_metadata_that_has_changed_on_disk_is_not_believed(tmp_path: Path) -> None:
    with headrace.Broker(tmp_path) as broker:
        broker.create_topic("orders")
    segment = tmp_path / "__cluster_metadata-0" / f"{0:020d}.log"
    segment.write_bytes(segment.read_bytes().replace(b"orders", b"owners"))
    with pytest.raises(StartError, match=r"its metadata cannot be read: .*CRC"):
        headrace.Broker(tmp_path)


def test_a_clean_stop_is_told_from_a_crash(tmp_path: Path) -> None:
    headrace.Broker(tmp_path).close()
    assert ".kafka_cleanshutdown" in os.listdir(tmp_path)
    with headrace.Broker(tmp_path) as broker:
        broker.kill()
    assert ".kafka_cleanshutdown" not in os.listdir(tmp_path)


def test_a_crash_leaves_no_thread_and_no_descriptor() -> None:
    with headrace.Broker() as broker:
        broker.create_topic("orders")
        broker.kill()
        broker.restart()
        threads, descriptors = threading.active_count(), len(os.listdir("/proc/self/fd"))
        for _ in range(5):
            with client_of(broker.address) as client:
                assert produce(client, "orders", b"1") == 0
            broker.kill()
            broker.restart()
        assert threading.active_count() == threads
        assert len(os.listdir("/proc/self/fd")) <= descriptors + 1  # the log has its file open once it was used


def test_the_port_of_a_broker_that_is_down_goes_to_nobody_else() -> None:
    with headrace.Broker() as broker:
        host, _, port = broker.address.rpartition(":")
        broker.kill()
        with socket.socket() as somebody, pytest.raises(OSError, match="in use"):
            somebody.bind((host, int(port)))
        broker.restart()


def test_a_closed_broker_says_that_it_is() -> None:
    broker = headrace.Broker()
    broker.close()
    with pytest.raises(RuntimeError, match="this broker is closed; make another"):
        broker.create_topic("orders")
    with pytest.raises(RuntimeError, match="closed"):
        broker.restart()
    with pytest.raises(RuntimeError, match="closed"):
        broker.kill()


def test_a_broker_that_was_killed_can_be_closed() -> None:
    with headrace.Broker() as broker:
        path = broker._path
        broker.kill()
    assert not os.path.exists(path)


def test_stopping_does_not_wait_for_requests_that_wait() -> None:
    with headrace.Broker(clock=MovableClock()) as broker:
        broker.create_topic("orders")
        arrival = broker.faults.delay("Fetch", seconds=0)
        client = client_of(broker.address)
        client.send("Fetch", FETCH_VERSION, fetch_request("orders", max_wait_ms=1_000_000))
        arrival.wait()
    with client, pytest.raises(Closed):
        client.receive_frame()


def test_who_waits_for_an_answer_is_let_go_when_another_thread_closes_the_broker() -> None:
    broker = headrace.Broker()
    run = broker._running()
    has_asked = threading.Event()

    def never(_: Broker) -> Later[None]:
        has_asked.set()
        return Later()

    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(run.call, never)
        assert has_asked.wait(120)
        broker.close()
        with pytest.raises(StoppedError, match="was stopped meanwhile"):
            answer.result(120)


def test_who_asks_a_broker_that_another_thread_has_just_closed_is_told_so() -> None:
    broker = headrace.Broker()
    run = broker._running()  # as a thread has it that is about to ask
    broker.close()
    with pytest.raises(StoppedError, match="was stopped meanwhile"):
        run.call(lambda _: Later())
    run._on_loop(lambda: pytest.fail("there is no loop any more"))


# Under asyncio


def test_a_broker_starts_and_stops_beside_an_event_loop() -> None:
    async def use() -> str:
        async with headrace.Broker() as broker:
            host, _, port = broker.address.rpartition(":")
            _, writer = await asyncio.open_connection(host, int(port))
            writer.close()
            await writer.wait_closed()
            return broker._path

    assert not os.path.exists(asyncio.run(use()))


def test_inside_an_event_loop_whoever_asks_for_something_waits_for_the_start() -> None:
    async def use() -> None:
        broker = headrace.Broker()
        broker.create_topic("orders")
        with client_of(broker.address) as client:
            assert values(client, "orders") == []
        broker.close()

    asyncio.run(use())


def test_a_start_that_fails_beside_an_event_loop_is_told_where_it_is_awaited(tmp_path: Path) -> None:
    async def use() -> None:
        failing = headrace.Broker(tmp_path)
        async with failing:
            raise AssertionError

    threads = threading.active_count()
    with headrace.Broker(tmp_path), pytest.raises(LockedError):
        asyncio.run(use())
    assert threading.active_count() == threads


# The clock


def test_compaction_rests_as_long_as_was_set_while_the_broker_runs() -> None:
    clock = MovableClock()
    with headrace.Broker(clock=clock) as broker, client_of(broker.address) as client:
        broker.create_topic("t", cleanup_policy="compact", internal_segment_bytes=1000)
        config = AlterableConfig("log.cleaner.backoff.ms", 0, "1000")
        changed = client.ask(
            "IncrementalAlterConfigs", 1, IncrementalAlterConfigsRequest([AlterConfigsResource(4, "", [config])])
        )
        assert changed.responses[0].error_code == 0
        clock.advance(15)  # the rest that had begun
        for _ in range(10):
            assert produce(client, "t", bytes(400), key=b"k", timestamp_ms=clock.now_ms()) == 0
        clock.advance(2)
        assert len(values(client, "t")) < 5


FORKING = """
import os, sys
import headrace

with headrace.Broker() as broker:
    child = os.fork()
    if child == 0:
        try:
            broker.create_topic("t")
        except RuntimeError as error:
            print(error, flush=True)
        sys.exit(7)  # through the end of the block, and through what Python does when it ends
    _, status = os.waitpid(child, 0)
    broker.create_topic("t")
    print(os.waitstatus_to_exitcode(status), os.path.isdir(broker._path))
print(os.path.exists(broker._path))
"""


def test_a_process_that_was_forked_leaves_the_broker_to_its_parent() -> None:
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORKING], capture_output=True, text=True, check=True, timeout=120
    )
    refused, *others = ran.stdout.splitlines()
    assert "this broker is in process" in refused
    assert others == ["7 True", "False"]


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # so Python speaks of every fork beside threads
def test_a_process_that_was_forked_keeps_nothing_that_the_broker_gives_up() -> None:
    with headrace.Broker() as broker, client_of(broker.address) as client:
        client.ask("Metadata", 12, MetadataRequest())
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(writer)
            os.read(reader, 1)  # until the parent is through
            os._exit(0)
        try:
            broker.kill()
            with pytest.raises(Closed):
                client.receive_frame()
            broker.restart()
            with client_of(broker.address) as another:
                another.ask("Metadata", 12, MetadataRequest())
        finally:
            os.close(reader)
            os.close(writer)
            os.waitpid(child, 0)


def test_a_broker_without_a_movable_clock_says_how_to_get_one() -> None:
    with headrace.Broker() as broker, pytest.raises(RuntimeError, match=r"clock=headrace\.testing\.MovableClock\(\)"):
        _ = broker.clock
