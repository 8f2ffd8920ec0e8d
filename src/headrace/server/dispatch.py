"""From a frame to a handler and back: header, table, decode, handle, encode.

A request that cannot be decoded, or of a version that was not advertised, breaks the protocol: the connection is
closed. The one exception is ApiVersions, by which a client finds out what may be spoken: a version that is too new is
answered in version 0 with what this broker speaks, so that the client can step down (KIP-511).
"""

from collections.abc import Callable
from functools import partial
from importlib import import_module
from struct import Struct
from typing import Any, Final, NamedTuple, TypeAlias

from headrace.log.errors import LogError, RecordListTooLargeError, StorageError
from headrace.protocol.apis import API_BY_NAME, APIS, load
from headrace.protocol.errors import ProtocolError, TrailingBytesError
from headrace.protocol.header import API_VERSIONS_KEY, read_request_header, response_header_version
from headrace.protocol.types import Part
from headrace.server.connection import Connection, Reply
from headrace.server.context import Context, RequestContext
from headrace.server.handlers import SERVED
from headrace.server.large_requests import LARGE_FROM_BYTES, check_large_request
from headrace.server.later import Later
from headrace.server.log_errors import code_of
from headrace.server.repeated_commits import OFFSET_COMMIT_KEY, RepeatedCommits
from headrace.server.repeated_fetch import FETCH_KEY, RepeatedFetch
from headrace.server.repeated_produce import PRODUCE_KEY, RepeatedProduce

# By header version: its bytes, and what packs the frame's size, the correlation id, and no tags.
_HEADS: Final = ((4, Struct(">ii").pack), (5, Struct(">iix").pack))
# Their replies hold slices of log files, which are not read before they are sent. All others leave as one piece.
_WITH_RECORDS: Final = frozenset(API_BY_NAME[name].key for name in ("Fetch", "FetchSnapshot", "ShareFetch"))


Handle: TypeAlias = Callable[[Any, RequestContext], Any]  # what a module of handlers/ has
Around: TypeAlias = Callable[[int, Handle], Handle]  # what becomes of the handler of an API


class _Route(NamedTuple):
    """One API at one version."""

    decode: Any
    encode: Any
    handle: Handle
    frame: Callable[[int, int, list[Part]], Reply]
    header_version: int


class Dispatcher:
    """Serves the frames of every connection of a broker."""

    __slots__ = ("_around", "_context", "_routes")

    def __init__(self, context: Context) -> None:
        self._context = context
        self._routes: dict[tuple[int, int], _Route] = {}
        self._around: Around | None = None

    def go_around(self, around: Around | None) -> None:
        """From now on call what `around` makes of a handler. Faults come in here; without them it costs nothing."""
        self._around = around
        self._routes.clear()

    def _may_pass_handlers(self) -> bool:
        """Neither quotas nor faults have to see each request."""
        return self._around is None and not self._context.quotas.is_active

    def serve(
        self, connection: Connection, buffer: bytearray, view: memoryview, start: int, end: int
    ) -> Reply | Later[Reply] | None:
        """Serve the request in buffer[start:end]. Raises ProtocolError."""
        if self._may_pass_handlers():
            reply = _serve_repeated(connection, buffer, view, start, end)
            if reply is not None:
                return reply
        return self._serve_decoded(connection, buffer, view, start, end)

    def _serve_decoded(
        self, connection: Connection, buffer: bytearray, view: memoryview, start: int, end: int
    ) -> Reply | Later[Reply] | None:
        quotas = self._context.quotas
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
        if end - start >= LARGE_FROM_BYTES:
            check_large_request(buffer, position, end, key=key, version=version)
        meter = quotas.meter(connection, header[3]) if quotas.is_active else None
        request_end = end
        try:
            request = route.decode(buffer, view, position, end)
        except TrailingBytesError as error:
            # Apache Kafka ignores what follows a request, and librdkafka lives on it: a null array of topics takes four
            # bytes where one is meant (#5049), so three remain; AlterUserScramCredentials ends with two tag sections.
            request_end = error.position
            request = route.decode(buffer, view, position, request_end)
        try:
            response = route.handle(request, RequestContext(self._context, connection, header, meter))
        except (StorageError, RecordListTooLargeError) as error:
            response = _refused_by_the_log(key, version, request, error)
        if meter is not None:
            response = meter.settle(response, produced_bytes=end - start if key == PRODUCE_KEY else 0)
        elif key == FETCH_KEY:
            fetches = connection.repeated_fetch
            if fetches is None:
                fetches = connection.repeated_fetch = RepeatedFetch(self._context, self._again)
            fetches.learn(version, view[start:request_end], position - start, request)
        if response is None:
            return None
        if isinstance(response, Later):
            return response.map(partial(_reply, route, correlation_id))
        reply = _reply(route, correlation_id, response)
        if meter is not None:
            meter.end()
        elif key == PRODUCE_KEY:
            repeated = connection.repeated_produce
            if repeated is None:
                repeated = connection.repeated_produce = RepeatedProduce(self._context, self._may_pass_handlers)
            repeated.learn(version, view[start:request_end], request, response, reply[0])
        elif key == OFFSET_COMMIT_KEY:
            commits = connection.repeated_commits
            if commits is None:
                commits = connection.repeated_commits = RepeatedCommits(self._context, self._may_pass_handlers)
            commits.learn(version, view[start:request_end], position - start, request, response, reply[0])
        return reply

    def _again(self, connection: Connection, request: bytes) -> Reply | Later[Reply] | None:
        """A request that was not decoded the first time."""
        buffer = bytearray(request)
        return self._serve_decoded(connection, buffer, memoryview(buffer), 0, len(buffer))


def _serve_repeated(
    connection: Connection, buffer: bytearray, view: memoryview, start: int, end: int
) -> Reply | Later[Reply] | None:
    """The answer to a request like one before, of which enough is remembered; None to all others."""
    if connection.repeated_produce is not None:
        produced = connection.repeated_produce.serve(buffer, view, start, end)
        if produced is not None:
            return produced
    if connection.repeated_fetch is not None:
        fetched = connection.repeated_fetch.serve(connection, buffer, start, end)
        if fetched is not None:
            return fetched
    if connection.repeated_commits is not None:
        count, answer = connection.repeated_commits.serve(buffer, ((start, end),))
        if count:
            return [answer]
    return None


def _reply(route: _Route, correlation_id: int, response: Any) -> Reply:
    return route.frame(correlation_id, route.header_version, route.encode(response))


def _refused_by_the_log(key: int, version: int, request: Any, error: LogError) -> Any:
    """The answer to a request that should have changed the cluster, and has changed nothing. Raises ProtocolError."""
    from headrace.server.error_answers import Depth, error_answer

    answer = error_answer(APIS[key], version, request, code_of(error), message=str(error), depth=Depth.INNERMOST)
    if answer is None:
        raise ProtocolError(str(error))
    return answer


def _step_down(correlation_id: int) -> Reply:
    from headrace.server.handlers.api_versions import unsupported_version

    return _in_one_piece(correlation_id, 0, load(API_VERSIONS_KEY).encode_response[0](unsupported_version()))


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
    frame = _in_parts if key in _WITH_RECORDS else _in_one_piece
    return _Route(
        messages.decode_request[version], messages.encode_response[version], handler.handle, frame, header_version
    )


def _in_parts(correlation_id: int, header_version: int, parts: list[Part]) -> Reply:
    header_bytes, pack = _HEADS[header_version]
    parts.insert(0, pack(header_bytes + sum(map(len, parts)), correlation_id))
    return parts


def _in_one_piece(correlation_id: int, header_version: int, parts: list[Part]) -> Reply:
    header_bytes, pack = _HEADS[header_version]
    body = b"".join(parts)
    return [pack(header_bytes + len(body), correlation_id) + body]
