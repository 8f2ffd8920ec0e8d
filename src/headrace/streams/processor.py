"""A processor of the user's: a function that is called for each row of a key, with what it keeps for that key.

    def track(row: dict[str, Any], context: Context) -> Iterator[dict[str, Any]]:
        seen = context.value("seen")
        n = (seen.get() or {"n": 0})["n"] + 1
        seen.set(n=n)
        context.timers.after("1h")
        yield {"n": n}

    def gone(context: Context) -> Iterator[dict[str, Any]]:
        context.value("seen").clear()
        yield {"n": 0}

    clicks.process(track, "user string, n long", state={"seen": value_state("n long")}, timers="event", on_timer=gone)

Rows of a key come in the order of their time; of the same time, in that of their topic, partition and offset. A row for
which the function raises has changed nothing. Pure: what runs it, on Spark or in a test, hands in the stores.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple, TypeVar

from headrace.streams.failing import error_text
from headrace.streams.functions import Function
from headrace.streams.processor_states import Fit, Held, ListState, MapState, Row, Timers, ValueState
from headrace.streams.schema import names
from headrace.streams.states import State

S = TypeVar("S", ValueState, ListState, MapState)
_BEFORE: Final = datetime(1, 1, 1, tzinfo=UTC)


class Context:
    """What a processor's functions get beside the row. It is theirs for the length of the call."""

    def __init__(self, states: Mapping[str, ValueState | ListState | MapState], timers: Timers | None) -> None:
        self._states = states
        self._timers = timers
        self.key: Row = {}  # the key's columns
        self.time: datetime = _BEFORE  # of the row, or of the timer; that of what is yielded
        # By what timers go: the watermark, or the clock when the micro-batch began. Without timers, as `time`.
        self.now: datetime = _BEFORE
        self.deleted = False  # whether the record has no value, so that the row is NULL but for its key

    def value(self, name: str) -> ValueState:
        return self._state(name, ValueState)

    def list(self, name: str) -> ListState:
        return self._state(name, ListState)

    def map(self, name: str) -> MapState:
        return self._state(name, MapState)

    @property
    def timers(self) -> Timers:
        if self._timers is None:
            raise RuntimeError('this processor has no timers: give process timers="event" or timers="processing"')
        return self._timers

    def _state(self, name: str, kind: type[S]) -> S:
        state = self._states.get(name)
        if not isinstance(state, kind):
            known = ", ".join(f"{each} ({type(of).__name__})" for each, of in self._states.items()) or "none"
            raise KeyError(f"there is no {kind.__name__} {name!r}; the states are: {known}")
        return state


class Input(NamedTuple):
    """A row as it comes. `order` is what decides between rows of the same time; `original` is for whoever runs this."""

    row: Row
    time: datetime
    deleted: bool = False
    order: tuple[Any, ...] = ()
    original: Any = None


class Output(NamedTuple):
    """A row that was yielded at a time; or, with an error, what failed: the input, or None for a timer."""

    time: datetime
    row: Row
    error: str | None = None
    function: str | None = None
    failed: Input | None = None


@dataclass(frozen=True)
class Processor:
    """`columns` are those of what is yielded; the key's may be left out by the functions. With `stops`, what a function
    raises goes on to the caller. So does what `fit` raises, if a value is not of its column's type."""

    operator: str
    function: Function
    on_timer: Function | None
    key: tuple[str, ...]
    columns: tuple[str, ...]
    stops: bool
    fit: Fit = tuple

    def rows(self, run: "Run", inputs: Iterable[Input]) -> Iterator[Output]:
        """All rows of one key in one micro-batch."""
        for given in sorted(inputs, key=lambda each: (each.time, each.order)):
            run.context.deleted = given.deleted
            yield from self._call(run, self.function, given.time, given)
        run.flush()

    def timer(self, run: "Run", at: datetime) -> Iterator[Output]:
        """A timer of one key that is due."""
        assert self.on_timer is not None, self.operator
        run.context.deleted = False
        yield from self._call(run, self.on_timer, at, None)
        run.flush()

    def _call(self, run: "Run", function: Function, time: datetime, given: Input | None) -> Iterator[Output]:
        assert function.call is not None, function
        run.begin(time, is_timer=given is None)
        try:
            arguments = (run.context,) if given is None else (given.row, run.context)
            made = [self._checked(row, run.context.key) for row in _listed(function.call(*arguments))]
        except Exception as error:
            run.undo()
            if self.stops:
                raise RuntimeError(f"{self.operator}: {function} raised for {_what(run, given)}: {error!r}") from error
            yield Output(time, {}, error_text(error), function.name, given)
        else:
            yield from (Output(time, row) for row in made)

    def _checked(self, row: object, key: Row) -> Row:
        if not isinstance(row, Mapping):
            raise TypeError(f"it must give dicts of {', '.join(self.columns)}, and gave {row!r}")
        unknown = row.keys() - set(self.columns)
        if unknown:
            raise KeyError(f"it gave a column {min(unknown)!r}, and the schema has {', '.join(self.columns)}")
        whole = {**key, **row}
        values = self.fit(tuple(whole.get(name) for name in self.columns))
        return dict(zip(self.columns, values, strict=True))


class Run:
    """A processor at work on a task: its context, and all that it holds back for the key it is at."""

    def __init__(self, context: Context, held: Sequence[Held], *, in_stream_time: bool) -> None:
        self.context: Final = context
        self._held = held
        self._in_stream_time = in_stream_time
        self._now: datetime | None = None

    def at(self, key: Row, now: datetime | None) -> None:
        """Another key. `now` is None if there is no clock."""
        self.context.key, self._now = key, now

    def begin(self, time: datetime, *, is_timer: bool) -> None:
        self.context.time = time
        self.context.now = time if self._now is None else self._now
        for each in self._held:
            each.mark()
            if isinstance(each, Timers):
                each.base = time if self._in_stream_time else self.context.now
                each.due = time if is_timer else None

    def undo(self) -> None:
        for each in self._held:
            each.undo()

    def flush(self) -> None:
        for each in self._held:
            each.flush()


def new_run(states: Sequence[tuple[str, State]], stores: Mapping[str, Any], timers: Any, time: str | None) -> Run:
    """`stores` are those of the states, by name; `timers` is the store of timers, in `time` "event" or "processing"."""
    made: dict[str, ValueState | ListState | MapState] = {}
    for name, state in states:
        columns, store = names(state.columns), stores[name]
        match state.kind:
            case "value":
                made[name] = ValueState(name, columns, store)
            case "list":
                made[name] = ListState(name, columns, store)
            case _:
                made[name] = MapState(name, names(state.keys), columns, store)
    clock = None if time is None else Timers(timers)
    held: list[Held] = [*made.values(), *(() if clock is None else (clock,))]
    return Run(Context(made, clock), held, in_stream_time=time == "event")


def _listed(result: Any) -> list[Any]:
    """What a function gave: nothing, one dict, or any number of them."""
    if result is None:
        return []
    return [result] if isinstance(result, Mapping) else list(result)


def _what(run: Run, given: Input | None) -> str:
    if given is None:
        return f"the timer at {run.context.time} of the key {run.context.key}"
    if len(given.order) != 3:
        return f"a row of the key {run.context.key}"
    topic, partition, offset = given.order
    return f"the record at offset {offset} of {topic}-{partition}"
