"""A whole broker on this loop, with real sockets and files, and a client that speaks to it request by request."""

import asyncio
import socket
import struct
from pathlib import Path
from typing import Any

from headrace.protocol.apis import API_BY_NAME, load
from headrace.protocol.header import read_response_header, response_header_version, write_request_header
from headrace.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from headrace.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from headrace.protocol.messages.headers import RequestHeader
from headrace.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from headrace.protocol.records import NewRecord, build_batch, iter_batches, read_records
from headrace.server.broker import Broker
from headrace.server.clock import Clock
from headrace.server.later import Later
from headrace.server.settings import load_settings

NAMES = {
    "AlterClientQuotas": 1,
    "ApiVersions": 4,
    "CreateTopics": 7,
    "DescribeQuorum": 2,
    "Fetch": 12,
    "IncrementalAlterConfigs": 1,
    "Metadata": 12,
    "Produce": 9,
    "UnregisterBroker": 0,
}


async def settled(later: Later[Any]) -> Any:
    future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    later.then(future.set_result)
    return await asyncio.wait_for(future, 120)


class Running:
    def __init__(self, data: Path, clock: Clock | None = None, **configs: str) -> None:
        self.failures: list[Exception] = []
        settings = load_settings(
            {"listeners": "PLAINTEXT://127.0.0.1:0"} | {name.replace("_", "."): text for name, text in configs.items()}
        )
        loop = asyncio.get_running_loop()
        self.broker = Broker(settings, str(data), loop=loop, clock=clock, on_failure=self.failures.append)

    async def start_unreached(self) -> "Running":
        await settled(self.broker.start())
        return self

    async def start(self) -> "Running":
        await self.start_unreached()
        listener = self.broker.listeners[0]
        self.client = socket.create_connection((listener.host, listener.port), timeout=120)
        self.client.setblocking(False)
        return self

    async def stop(self) -> None:
        self.client.close()
        await settled(self.broker.stop())
        self.broker.close()
        assert not self.failures

    async def ask(self, name: str, request: Any) -> Any:
        await self.send(name, request)
        return await self.answer(name)

    async def send(self, name: str, request: Any) -> None:
        api, version = API_BY_NAME[name], NAMES[name]
        body = b"".join(load(api.key).encode_request[version](request))
        frame = write_request_header(RequestHeader(api.key, version, 1, "test")) + body
        loop = asyncio.get_running_loop()
        await loop.sock_sendall(self.client, struct.pack(">i", len(frame)) + frame)

    async def answer(self, name: str) -> Any:
        api, version = API_BY_NAME[name], NAMES[name]
        (size,) = struct.unpack(">i", await self.receive(4))
        reply = await self.receive(size)
        _, position = read_response_header(reply, 0, size, response_header_version(api.key, version))
        return load(api.key).decode_response[version](reply, memoryview(reply), position, size)

    async def receive(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            piece = await asyncio.wait_for(
                asyncio.get_running_loop().sock_recv(self.client, size - len(data)), timeout=120
            )
            assert piece, "the broker closed the connection"
            data += piece
        return data

    async def create(self, topic: str) -> None:
        created = await self.ask("CreateTopics", CreateTopicsRequest(topics=[CreatableTopic(topic, 1, 1)]))
        assert [row.error_code for row in created.topics] == [0]

    async def produce(self, topic: str, *values: bytes) -> int:
        response = await self.ask("Produce", produce_request(topic, *values))
        row = response.responses[0].partition_responses[0]
        assert row.error_code == 0
        return int(row.base_offset)

    async def consume(self, topic: str) -> list[bytes | None]:
        wanted = [FetchTopic(topic, partitions=[FetchPartition(0, -1, 0, -1, -1, 1 << 20)])]
        response = await self.ask("Fetch", FetchRequest(max_wait_ms=0, min_bytes=0, topics=wanted))
        records = bytes(response.responses[0].partitions[0].records)
        return [row.value for position, _ in iter_batches(records) for row in read_records(records, position)]


def produce_request(topic: str, *values: bytes) -> ProduceRequest:
    batch = build_batch([NewRecord(1_700_000_000_000, None, value) for value in values])
    rows = [TopicProduceData(name=topic, partition_data=[PartitionProduceData(0, bytes(batch))])]
    return ProduceRequest(acks=-1, timeout_ms=5000, topic_data=rows)
