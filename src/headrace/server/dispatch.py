"""From a frame to a handler and back: header, table, decode, handle, encode.

A request that cannot be decoded, or of a version that was not advertised, breaks the protocol: the connection is
closed. The one exception is ApiVersions, by which a client finds out what may be spoken: a version that is too new is
answered in version 0 with what this broker speaks, so that the client can step down (KIP-511).
"""

from collections.abc import Callable
from importlib import import_module
from struct import Struct
from typing import Any, Final, NamedTuple, TypeAlias

from headrace.protocol.apis import load
from headrace.protocol.errors import ProtocolError, TrailingBytesError
from headrace.protocol.header import API_VERSIONS_KEY, read_request_header, response_header_version
from headrace.protocol.types import Part
from headrace.server.connection import Connection, Reply
from headrace.server.context import Context, RequestContext
from headrace.server.handlers import SERVED
from headrace.server.later import Later

_FRAME_HEAD: Final = (Struct(">ii"), Struct(">iix"))  # size, correlation id, and no tags, by header version
_HEADER_BYTES: Final = (4, 5)
_PRODUCE_KEY: Final = 0


Handle: TypeAlias = Callable[[Any, RequestContext], Any]  # what a module of handlers/ has
Around: TypeAlias = Callable[[int, Handle], Handle]  # what becomes of the handler of an API


class _Route(NamedTuple):
    """One API at one version."""

    decode: Any
    encode: Any
    handle: Handle
    header_version: int


class Dispatcher:
    """Serves the frames of every connection of a broker."""

    __slots__ = ("_around", "_context", "_routes")

    def __init__(self, context: Context) -> None:
        self._context = context
        self._routes: dict[tuple[int, int], _Route] = {}
        self._around: Around | None = None

    def go_around(self, around: Around) -> None:
        """From now on call what `around` makes of a handler. Faults come in here; without them it costs nothing."""
        self._around = around
        self._routes.clear()

    def serve(
        self, connection: Connection, buffer: bytearray, view: memoryview, start: int, end: int
    ) -> Reply | Later[Reply] | None:
        """Serve the request in buffer[start:end]. Raises ProtocolError."""
        header, position = read_request_header(buffer, view, start, end)
        key, version, correlation_id, _, _ = header
        route = self._routes.get((key, version))
        if route is None:
            if key == API_VERSIONS_KEY and version > SERVED[key].max_version:
                return _step_down(correlation_id)
            route = _load_route(key, version)
            if self._around is not None:
                route = route._replace(handle=self._around(key, route.handle))
            self._routes[key, version] = route
        quotas = self._context.quotas
        meter = quotas.meter(connection, header[3]) if quotas.is_active else None
        try:
            request = route.decode(buffer, view, position, end)
        except TrailingBytesError as error:
            # Apache Kafka ignores what follows a request, and librdkafka lives on it: a null array of topics takes four
            # bytes where one is meant (#5049), so three remain; AlterUserScramCredentials ends with two tag sections.
            request = route.decode(buffer, view, position, error.position)
        response = route.handle(request, RequestContext(self._context, connection, header, meter))
        if meter is not None:
            response = meter.settle(response, produced_bytes=end - start if key == _PRODUCE_KEY else 0)
        if response is None:
            return None
        if isinstance(response, Later):
            return response.map(lambda value: _frame(correlation_id, route.header_version, route.encode(value)))
        reply = _frame(correlation_id, route.header_version, route.encode(response))
        if meter is not None:
            meter.end()
        return reply


def _step_down(correlation_id: int) -> Reply:
    from headrace.server.handlers.api_versions import unsupported_version

    return _frame(correlation_id, 0, load(API_VERSIONS_KEY).encode_response[0](unsupported_version()))


def _load_route(key: int, version: int) -> _Route:
    served = SERVED.get(key)
    if served is None:
        raise ProtocolError(f"API {key} is not served here")
    if not served.min_version <= version <= served.max_version:
        raise ProtocolError(
            f"version {version} of {served.module}; {served.min_version} to {served.max_version} are served"
        )
    messages = load(key)
    handler = import_module(f"headrace.server.handlers.{served.module}")
    header_version = response_header_version(key, version)
    return _Route(messages.decode_request[version], messages.encode_response[version], handler.handle, header_version)


def _frame(correlation_id: int, header_version: int, parts: list[Part]) -> Reply:
    size = _HEADER_BYTES[header_version] + sum(map(len, parts))
    parts.insert(0, _FRAME_HEAD[header_version].pack(size, correlation_id))
    return parts
