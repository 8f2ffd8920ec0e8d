"""Limits on the connections of hosts that are named, where connections have addresses."""

import asyncio
import socket
import threading

import pytest

import headrace
from headrace.protocol.messages import incremental_alter_configs as alter_configs
from headrace.protocol.messages.api_versions import ApiVersionsRequest
from headrace.server.override_hosts import OverrideHosts
from headrace.server.start_error import StartError
from tests.support.waiting import wait_until
from tests.support.wire_client import Closed, WireClient

OVERRIDES = "max.connections.per.ip.overrides"


class Names:
    """A name service, and who asked it."""

    def __init__(self, **known: set[str]) -> None:
        self.known = known
        self.threads: list[threading.Thread] = []

    def look_up(self, host: str) -> set[str]:
        self.threads.append(threading.current_thread())
        if host not in self.known:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return self.known[host]


def test_a_name_stands_for_all_its_addresses_and_an_address_for_itself() -> None:
    async def story() -> None:
        names = Names(gate={"10.0.0.7", "fd00::7"})
        hosts = OverrideHosts(asyncio.get_running_loop(), ["gate", "10.0.0.8"], look_up=names.look_up)
        assert hosts.by_address({"gate": 5, "10.0.0.8": 6}) == {"10.0.0.7": 5, "fd00::7": 5, "10.0.0.8": 6}
        assert len(names.threads) == 1, "nobody is asked for an address"

    asyncio.run(story())


def test_a_name_that_nobody_knows_refuses_the_start() -> None:
    async def story() -> None:
        with pytest.raises(StartError, match=r"names 'gate', which has no address .*\n  Name a host"):
            OverrideHosts(asyncio.get_running_loop(), ["gate"], look_up=Names().look_up)

    asyncio.run(story())


def test_names_that_are_configured_later_are_looked_up_beside_the_loop(caplog: pytest.LogCaptureFixture) -> None:
    async def change(hosts: OverrideHosts, *names: str) -> None:
        found = asyncio.Event()
        hosts.follow(names, found.set)
        await asyncio.wait_for(found.wait(), 120)

    async def story() -> None:
        names = Names(gate={"10.0.0.7"}, door={"10.0.0.9"})
        hosts = OverrideHosts(asyncio.get_running_loop(), ["gate"], look_up=names.look_up)
        counts = {"gate": 5, "door": 6, "hall": 7}
        hosts.follow(["gate", "10.0.0.8"], _never)
        names.known["gate"] = {"10.0.0.17"}
        await change(hosts, "gate", "door", "hall")
        assert hosts.by_address(counts) == {"10.0.0.17": 5, "10.0.0.9": 6, "hall": 7}
        assert threading.current_thread() not in names.threads[1:]
        assert "'hall' has no address" in caplog.text
        del names.known["gate"]
        await change(hosts, "gate")
        assert hosts.by_address({"gate": 5}) == {"10.0.0.17": 5}, "what was found last"

    asyncio.run(story())


def _never() -> None:
    raise AssertionError("no name has changed")


def is_welcome(address: str) -> bool:
    host, _, port = address.partition(":")
    with WireClient((host, int(port))) as client:
        try:
            return client.ask("ApiVersions", 0, ApiVersionsRequest()) is not None
        except (Closed, ConnectionError):
            return False


def test_a_broker_counts_the_connections_of_a_host_by_its_name() -> None:
    with headrace.Broker(max_connections_per_ip_overrides="localhost:1") as broker:
        host, _, port = broker.address.partition(":")
        with WireClient((host, int(port))) as client:
            client.ask("ApiVersions", 0, ApiVersionsRequest())
            assert not is_welcome(broker.address)


def test_a_broker_looks_up_a_name_that_is_set_while_it_runs() -> None:
    with headrace.Broker() as broker:
        host, _, port = broker.address.partition(":")
        with WireClient((host, int(port))) as client:
            assert is_welcome(broker.address)
            config = alter_configs.AlterableConfig(OVERRIDES, 0, "localhost:1")
            resource = alter_configs.AlterConfigsResource(4, "", [config])
            request = alter_configs.IncrementalAlterConfigsRequest([resource])
            assert client.ask("IncrementalAlterConfigs", 1, request).responses[0].error_code == 0
            wait_until(lambda: not is_welcome(broker.address))
