"""Faults on demand: the broker answers some requests with an error, late, or not at all.

    fault = broker.faults.answer("Produce", error="NOT_LEADER_OR_FOLLOWER", times=3)
    ...
    assert fault.hits == 3

A fault takes the requests of one API that come from now on, as often as it says, or until it is removed. Of several
that would take a request, the first does. They come in by the dispatcher, which calls a handler with faults around it
only while there are some: without them, requests do not pass by here.

While Fetch has faults it goes without sessions: requests of a session do not say what they read, so nobody could tell
which of them to hit. A consumer is told that its session is gone, as happens when a broker has too many of them.

All methods may be called from every thread; a fault holds when the call returns.
"""

import threading
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any, Final, Literal, NamedTuple, Self

from headrace.cluster.configs import nearest
from headrace.protocol.apis import API_BY_NAME, APIS, Api
from headrace.protocol.error_codes import ErrorCode
from headrace.server.context import RequestContext
from headrace.server.dispatch import Around, Dispatcher, Handle
from headrace.server.error_answers import IN_ROWS, Depth
from headrace.server.fault_effects import MESSAGE, AnswerError, DropAfter, DropBefore, Effect, HoldBack, Verdict
from headrace.server.fetch_sessions import FIRST_EPOCH, NO_EPOCH
from headrace.server.handlers import SERVED

_FETCH: Final = API_BY_NAME["Fetch"].key
_WAIT_SECONDS: Final = 10.0

Matching = Callable[[Any], bool]  # of the request, as a message of headrace.protocol.messages
OnLoop = Callable[[Callable[[], None]], None]  # runs a function on the broker's loop, and waits for its end


class Which(NamedTuple):
    """The requests that a fault takes; None: all of them."""

    topic: str | None = None
    client_id: str | None = None
    matching: Matching | None = None

    def takes(self, request: Any, ctx: RequestContext) -> bool:
        if self.client_id is not None and ctx.client_id != self.client_id:
            return False
        if self.topic is not None and not _names_topic(request, self.topic, ctx.image.topic_ids.get(self.topic)):
            return False
        return self.matching is None or self.matching(request)


class Fault:
    """One fault; it can be asked how often it was hit. As a context manager it goes at the end of the block."""

    def __init__(self, owner: "Faults", api: Api, which: Which, effect: Effect, times: int | None, what: str) -> None:
        if times is not None and times < 1:
            raise ValueError(f"times={times}: a fault happens once or more; leave times out for one that stays")
        self._owner = owner
        self._effect = effect
        self._what = what
        self._changed = threading.Condition()
        self._hits = 0
        self._failure: Exception | None = None
        self.api = api
        self.which = which
        self.times = times

    @property
    def hits(self) -> int:
        """How many requests it took. Raises what `matching` raised."""
        with self._changed:
            if self._failure is not None:
                raise self._failure
            return self._hits

    @property
    def is_spent(self) -> bool:
        return self._hits == self.times

    def wait(self, hits: int = 1, *, timeout: float = _WAIT_SECONDS) -> None:
        """Until it was hit that often. Raises TimeoutError."""
        with self._changed:
            self._changed.wait_for(lambda: self._hits >= hits or self._failure is not None, timeout)
        if self.hits < hits:
            raise TimeoutError(
                f"{self!r}: no more requests came within {timeout:g} seconds, and {hits} were waited for"
            )

    def remove(self) -> None:
        """It takes no more requests. Nothing happens if it is gone already."""
        self._owner._remove(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.remove()

    def __repr__(self) -> str:
        times = "" if self.times is None else f" of {self.times}"
        return f"<fault: {self.api.name} {self._what}, hit {self._hits}{times} times>"

    # On the loop

    def take(self, handle: Handle, request: Any, ctx: RequestContext) -> Any:
        """What becomes of the request; PASSED if it is none for this fault."""
        if self.is_spent:
            return Verdict.PASSED
        try:
            if not self.which.takes(request, ctx):
                return Verdict.PASSED
        except Exception as error:  # the test's own; it is told where the test looks
            self._note(0, error)
            return Verdict.PASSED
        outcome = self._effect.on(handle, request, ctx)
        if outcome is Verdict.PASSED:
            return outcome
        self._note(1, None)  # before the client can know
        if outcome is Verdict.HANG_UP:
            ctx.connection.hang_up(MESSAGE)
            return None
        return outcome

    def _note(self, hits: int, failure: Exception | None) -> None:
        with self._changed:
            self._hits += hits
            self._failure = self._failure or failure
            self._changed.notify_all()


class Faults:
    """The faults of one broker; they outlive its restarts."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._faults: tuple[Fault, ...] = ()  # replaced, never changed
        self._dispatcher: Dispatcher | None = None
        self._on_loop: OnLoop = lambda work: work()

    def answer(
        self,
        api: str,
        *,
        error: str | ErrorCode,
        times: int | None = None,
        topic: str | None = None,
        client_id: str | None = None,
        matching: Matching | None = None,
        at: Literal["request", "rows"] | None = None,
    ) -> Fault:
        """Answer with an error, without doing what was asked.

        `topic` takes requests that name this topic, and refuses them as a whole. Where an API can tell an error of the
        whole request or of each topic and partition, the error decides which; `at` overrules it.
        """
        found, code = _find_api(api), _find_code(error)
        depth = Depth(at) if at is not None else Depth.INNERMOST if code in IN_ROWS else Depth.OUTERMOST
        effect = AnswerError(found, code, depth)
        return self._add(found, Which(topic, client_id, matching), effect, times, f"answers {code.name}")

    def delay(
        self,
        api: str,
        *,
        seconds: float,
        times: int | None = None,
        topic: str | None = None,
        client_id: str | None = None,
        matching: Matching | None = None,
    ) -> Fault:
        """Do what was asked, and answer later, by the broker's clock: one that is moved must be moved on."""
        if seconds < 0:
            raise ValueError(f"seconds={seconds}: a delay is not negative")
        which = Which(topic, client_id, matching)
        return self._add(_find_api(api), which, HoldBack(seconds * 1000), times, f"waits {seconds:g} s")

    def drop(
        self,
        api: str,
        *,
        when: Literal["before", "after"],
        times: int | None = None,
        topic: str | None = None,
        client_id: str | None = None,
        matching: Matching | None = None,
    ) -> Fault:
        """Close the connection before the request has its effect, or after it and instead of an answer."""
        effects: dict[str, Effect] = {"before": DropBefore(), "after": DropAfter()}
        if when not in effects:
            raise ValueError(f'when={when!r}: "before" or "after" the request has its effect')
        which = Which(topic, client_id, matching)
        return self._add(_find_api(api), which, effects[when], times, f"drops the connection {when} its effect")

    def clear(self) -> None:
        """Everything works again. What is held back still comes in its time."""
        with self._lock:
            self._faults = ()
        self._reload()

    def __iter__(self) -> Iterator[Fault]:
        """Those that still take requests."""
        return iter(self._faults)

    def _add(self, api: Api, which: Which, effect: Effect, times: int | None, what: str) -> Fault:
        fault = Fault(self, api, which, effect, times, what)
        with self._lock:
            self._faults = (*self._faults, fault)
        self._reload()
        return fault

    def _remove(self, fault: Fault) -> None:
        with self._lock:
            if fault not in self._faults:
                return
            self._faults = tuple(each for each in self._faults if each is not fault)
        self._reload()

    # The broker

    def attach(self, dispatcher: Dispatcher, on_loop: OnLoop) -> None:
        """A broker starts, on the thread of its loop."""
        self._dispatcher, self._on_loop = dispatcher, on_loop
        dispatcher.go_around(self._around)

    def detach(self) -> None:
        """The broker has stopped, and its loop with it."""
        self._dispatcher, self._on_loop = None, lambda work: work()

    def _reload(self) -> None:
        dispatcher = self._dispatcher
        if dispatcher is not None:
            self._on_loop(lambda: dispatcher.go_around(self._around))

    @property
    def _around(self) -> Around | None:
        """None while there are none: then the dispatcher may take its short cuts."""
        return self.around if self._faults else None

    def around(self, key: int, handle: Handle) -> Handle:
        """The handler, with what may happen to its requests; itself if nothing may. On the loop."""
        faults = [fault for fault in self._faults if fault.api.key == key]
        if not faults:
            return handle

        def handle_or_fail(request: Any, ctx: RequestContext) -> Any:
            if key == _FETCH and request.session_epoch > FIRST_EPOCH:
                ctx.broker.fetch_sessions.remove(request.session_id)
                return handle(request, ctx)
            if key == _FETCH:
                request = request._replace(session_epoch=NO_EPOCH)
            for fault in faults:
                outcome = fault.take(handle, request, ctx)
                if outcome is not Verdict.PASSED:
                    if fault.is_spent:
                        fault.remove()
                    return outcome
            return handle(request, ctx)

        return handle_or_fail


def _find_api(name: str) -> Api:
    """Raises ValueError."""
    served = {APIS[key].name for key in SERVED}
    if name in served:
        return API_BY_NAME[name]
    if name in API_BY_NAME:
        raise ValueError(f"{name} is not served by this broker, so no request of it can be hit")
    raise ValueError(f"{name!r} is not an API of Kafka{_hint(nearest(name, served))}")


def _find_code(error: str | ErrorCode) -> ErrorCode:
    """Raises ValueError."""
    if isinstance(error, ErrorCode):
        code = error
    elif error in ErrorCode.__members__:
        code = ErrorCode[error]
    else:
        raise ValueError(f"{error!r} is not an error of Kafka{_hint(nearest(error, ErrorCode.__members__))}")
    if code is ErrorCode.NONE:
        raise ValueError("NONE is not an error; for a request that works there is nothing to inject")
    return code


def _hint(guess: str | None) -> str:
    return "" if guess is None else f"; did you mean {guess}?"


def _names_topic(value: Any, name: str, topic_id: bytes | None, *, field: str = "") -> bool:
    """Does a request name the topic? `field` is where the value stands in it."""
    if isinstance(value, str):
        return value == name and "topic" in field
    if isinstance(value, bytes):
        return value == topic_id and field == "topic_id"
    if hasattr(value, "_fields"):
        # A plain `name` is that of what the rows are about.
        inner = ((field if each == "name" else each, getattr(value, each)) for each in value._fields)
        return any(_names_topic(found, name, topic_id, field=each) for each, found in inner)
    if isinstance(value, list) and not field.startswith("forgotten"):
        return any(_names_topic(row, name, topic_id, field=field) for row in value)
    return False
