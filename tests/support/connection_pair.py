"""A connection of the server over a real socket pair, and the client's end of it."""

import asyncio
import socket
import struct
from collections.abc import Awaitable, Callable

from headrace.protocol.frame import ReceiveBuffer
from headrace.server.connection import Connection, Reply, Serve
from headrace.server.read_ahead import DiskReaders, ReadAhead
from headrace.server.sending import Outbox


def framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


class Pair:
    """A connection of the server and the client's end of it."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        serve: Serve,
        *,
        max_in_flight: int = 100,
        max_frame_bytes: int = 1000,
        kind: socket.SocketKind = socket.SOCK_STREAM,
    ) -> None:
        server, self.client = socket.socketpair(type=kind)
        server.setblocking(False)
        self.client.setblocking(False)
        self.closed: list[Connection] = []
        self.outbox = Outbox(loop)
        self.disk_readers = DiskReaders(loop)
        self.loop = loop
        self.connection = Connection(
            loop,
            server,
            ReceiveBuffer(),
            self.outbox,
            serve,
            read_ahead=ReadAhead(self.disk_readers),
            listener="PLAINTEXT",
            max_frame_bytes=max_frame_bytes,
            max_in_flight=max_in_flight,
            on_close=self.closed.append,
        )

    async def send(self, data: bytes) -> None:
        await self.loop.sock_sendall(self.client, data)

    async def receive(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            piece = await asyncio.wait_for(self.loop.sock_recv(self.client, size - len(data)), 120)
            if not piece:
                break
            data += piece
        return data

    async def until(self, condition: Callable[[], bool]) -> None:
        async def poll() -> None:
            while not condition():
                await asyncio.sleep(0)

        await asyncio.wait_for(poll(), 120)

    def end(self) -> None:
        self.connection.close("the test is over")
        self.disk_readers.close()
        self.client.close()


def run(story: Callable[[asyncio.AbstractEventLoop], Awaitable[None]]) -> None:
    async def main() -> None:
        await story(asyncio.get_running_loop())

    asyncio.run(main())


def echo(_: Connection, buffer: bytearray, __: memoryview, start: int, end: int) -> Reply:
    return [bytes(buffer[start:end])]
