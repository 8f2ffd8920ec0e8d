"""From host:port to a connection that is ready: look the name up, connect, learn what the broker speaks.

Every address of a name is tried in turn. ApiVersions comes first on each connection: it is sent in the highest version
known here, and a broker that does not know that one answers in version 0 with the range it knows (KIP-511), so the
second try always fits.
"""

import asyncio
import errno
import os
import socket
import sys
import time
from collections.abc import Callable, Iterable
from struct import Struct
from typing import Any, Final

from headrace.client.config import Address
from headrace.client.connection import Connection
from headrace.client.errors import (
    BrokerRefusedError,
    ConnectionLostError,
    KafkaError,
    PeerProtocolError,
    RequestTimedOutError,
    error_for,
)
from headrace.client.versions import BrokerVersions
from headrace.protocol.apis import APIS
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.frame import ReceiveBuffer
from headrace.protocol.header import API_VERSIONS_KEY
from headrace.protocol.messages import api_versions
from headrace.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from headrace.protocol.types import Buffer

SOFTWARE_NAME: Final = "headrace"  # what the broker's metrics call this client (KIP-511)
SOFTWARE_VERSION: Final[str] = sys.modules["headrace"].__version__  # the package is loaded, and stands above this layer

_REFUSED: Final = (errno.ECONNREFUSED, errno.ENOENT)
_read_code: Final = Struct(">h").unpack_from


async def open_connection(
    address: Address,
    *,
    client_id: str,
    setup_timeout: float,
    request_timeout: float,
    send_buffer_bytes: int = -1,
    receive_buffer_bytes: int = -1,
    receive_buffer: ReceiveBuffer | None = None,
    on_close: Callable[[Connection], None] | None = None,
) -> Connection:
    """Raises ConnectionLostError, BrokerRefusedError if nobody listens, PeerProtocolError, RequestTimedOutError.

    `setup_timeout` is for each address of the host, `request_timeout` the default of each later request; in seconds.
    """
    sock = await _connect(
        address,
        setup_timeout=setup_timeout,
        send_buffer_bytes=send_buffer_bytes,
        receive_buffer_bytes=receive_buffer_bytes,
    )
    connection = Connection(
        asyncio.get_running_loop(),
        sock,
        address,
        client_id=client_id,
        request_timeout=request_timeout,
        receive_buffer=receive_buffer,
        on_close=on_close,
    )
    try:
        connection.versions = await _ask_versions(connection)
    except BaseException as error:
        connection.close(error if isinstance(error, KafkaError) else None)
        raise
    return connection


# The socket


async def _connect(
    address: Address, *, setup_timeout: float, send_buffer_bytes: int, receive_buffer_bytes: int
) -> socket.socket:
    loop = asyncio.get_running_loop()
    started = time.monotonic()
    failures: list[str] = []
    is_refused = True
    for family, kind, protocol, _, place in await resolve(address):
        sock = socket.socket(family, kind, protocol)
        try:
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            if send_buffer_bytes >= 0:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer_bytes)
            if receive_buffer_bytes >= 0:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
            async with asyncio.timeout(setup_timeout):
                await loop.sock_connect(sock, place)
            if sock.getsockname() == sock.getpeername():
                # A free local port in the kernel's range can be given to this very socket: it talks to itself then.
                raise ConnectionRefusedError(errno.ECONNREFUSED, "nobody listens there")
        except TimeoutError:
            sock.close()
            is_refused = False
            failures.append(f"{place[0]}: no answer within {setup_timeout:g} s")
        except OSError as error:
            sock.close()
            is_refused = is_refused and error.errno in _REFUSED
            failures.append(f"{place[0]}: {os.strerror(error.errno) if error.errno else error}")
        except BaseException:
            sock.close()
            raise
        else:
            return sock
    tried = f"{', '.join(failures)} ({time.monotonic() - started:.1f} s)"
    if is_refused:
        raise BrokerRefusedError(f"Nobody listens at {address}: is a broker running there?", tried=tried)
    raise ConnectionLostError(f"{address} cannot be reached.", tried=tried)


async def resolve(address: Address) -> list[Any]:
    """What getaddrinfo says; a name is looked up on another thread, since that may take seconds."""
    host, port = address
    try:
        return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
    except socket.gaierror:
        pass  # a name, not a number
    try:
        return await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (socket.gaierror, UnicodeError) as error:
        reason = error.strerror if isinstance(error, socket.gaierror) else error
        raise ConnectionLostError(
            f"The host {host!r} of {address} is not known ({reason}); check its spelling, or the name service."
        ) from None


async def canonical_addresses(addresses: Iterable[Address]) -> list[Address]:
    """For client.dns.lookup=resolve_canonical_bootstrap_servers_only: the full names behind each address."""
    loop = asyncio.get_running_loop()
    found: dict[Address, None] = {}
    for address in addresses:
        for *_, place in await resolve(address):
            name, _ = await loop.getnameinfo(place[:2])
            found[Address(name, address.port)] = None
    return list(found)


# The versions


async def _ask_versions(connection: Connection) -> BrokerVersions:
    version = APIS[API_VERSIONS_KEY].max_stable_version
    response = await _ask(connection, version)
    if response.error_code == ErrorCode.UNSUPPORTED_VERSION:
        served = BrokerVersions(response).range_of(API_VERSIONS_KEY) or (0, 0)
        response = await _ask(connection, min(served[1], version - 1))
    if response.error_code:
        raise error_for(response.error_code, tried=f"ApiVersions at {connection.address}")
    return BrokerVersions(response)


async def _ask(connection: Connection, version: int) -> ApiVersionsResponse:
    request = ApiVersionsRequest(SOFTWARE_NAME, SOFTWARE_VERSION) if version >= 3 else ApiVersionsRequest()
    parts = api_versions.encode_request[version](request)
    try:
        response: ApiVersionsResponse = await connection.send_encoded(
            API_VERSIONS_KEY, version, parts, decode=_decoder(version)
        )
    except RequestTimedOutError as error:
        raise RequestTimedOutError(
            f"{connection.address} took the connection and says nothing: is it a Kafka listener, and a plain-text one?",
            tried=error.message,
        ) from None
    except PeerProtocolError:
        raise
    except ConnectionLostError as error:
        raise ConnectionLostError(
            f"{error.message} That was before the first answer: is it a plain-text Kafka listener?", tried=error.tried
        ) from None
    return response


def _decoder(version: int) -> Callable[[Buffer, memoryview, int, int], ApiVersionsResponse]:
    """Of a response that may be of version 0 instead, as its first field tells."""

    def decode(buffer: Buffer, view: memoryview, position: int, end: int) -> ApiVersionsResponse:
        is_refusal = end - position >= 2 and _read_code(buffer, position)[0] == ErrorCode.UNSUPPORTED_VERSION
        return api_versions.decode_response[0 if is_refusal else version](buffer, view, position, end)

    return decode
