"""A peer that answers as a test tells it to, over a real socket: an old broker, a slow one, a broken one.

What a good broker does is tested against good brokers. This one is for what they never do.
"""

import asyncio
from collections.abc import Awaitable, Callable
from struct import Struct
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

from headrace.client.config import Address
from headrace.protocol.apis import APIS, load
from headrace.protocol.header import read_request_header, response_header_version, write_response_header
from headrace.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse

_SIZE: Final = Struct(">i")
ALL_VERSIONS: Final = {key: (api.min_version, api.max_stable_version) for key, api in APIS.items() if api.module}


class Asked(NamedTuple):
    """A request as it came; `request` is None where it cannot be decoded."""

    api_key: int
    version: int
    correlation_id: int
    client_id: str | None
    request: Any


Answer = Callable[[Asked, asyncio.StreamWriter], Awaitable[None]]


def versions_response(ranges: dict[int, tuple[int, int]] | None = None, *, error_code: int = 0) -> ApiVersionsResponse:
    rows = [ApiVersion(key, *served) for key, served in sorted((ranges or ALL_VERSIONS).items())]
    return ApiVersionsResponse(error_code=error_code, api_keys=rows)


def reply(asked: Asked, response: Any, *, correlation_id: int | None = None, version: int | None = None) -> bytes:
    """The whole frame that answers `asked`."""
    used = asked.version if version is None else version
    head = write_response_header(
        asked.correlation_id if correlation_id is None else correlation_id, response_header_version(asked.api_key, used)
    )
    content = b"".join([head, *load(asked.api_key).encode_response[used](response)])
    return _SIZE.pack(len(content)) + content


class ScriptedPeer:
    """`answer` gets each request that is not ApiVersions, which is answered with `ranges` unless it is None."""

    def __init__(self, answer: Answer, *, ranges: dict[int, tuple[int, int]] | None = ALL_VERSIONS) -> None:
        self._answer = answer
        self._ranges = ranges
        self.asked: list[Asked] = []
        self.connections = 0
        self.writers: list[asyncio.StreamWriter] = []

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=1 << 20)
        host, port = self._server.sockets[0].getsockname()
        self.address = Address(host, port)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        for writer in self.writers:
            writer.close()
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.writers.append(writer)
        try:
            while True:
                (size,) = _SIZE.unpack(await reader.readexactly(4))
                asked = _read(await reader.readexactly(size))
                self.asked.append(asked)
                if asked.api_key == 18 and self._ranges is not None:
                    writer.write(reply(asked, versions_response(self._ranges)))
                else:
                    await self._answer(asked, writer)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


def _read(data: bytes) -> Asked:
    view = memoryview(data)
    header, position = read_request_header(data, view, 0, len(data))
    decode = load(header.request_api_key).decode_request.get(header.request_api_version)
    request = None if decode is None else decode(data, view, position, len(data))
    return Asked(header.request_api_key, header.request_api_version, header.correlation_id, header.client_id, request)
