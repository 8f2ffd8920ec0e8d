"""What a processor keeps for a key, as its function sees it: a value, a list, a map, and timers.

Writes are held back until the key's rows are done: a row that fails is undone, as if it had not come, and what is
written many times goes to the store once. So between two keys nothing is held here, and within a key each row sees
what those before it did. Stores are Spark's, which know tuples; users have dicts of columns. What is held is nobody
else's: a list that a function was given, or has set, it may change, and that changes nothing here.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import deepcopy
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, Final, Protocol

from headrace.streams.durations import Duration, duration_ms

Row = dict[str, Any]
Fit = Callable[[tuple[Any, ...]], tuple[Any, ...]]  # values as the types of their columns; raises if one cannot be
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)


class _Unread:
    """What is in the store, and was not asked for."""


_UNREAD: Final = _Unread()


class Held(Protocol):
    """How a runner of processors treats each of them."""

    def mark(self) -> None:
        """A row begins."""

    def undo(self) -> None:
        """The row has failed: back to the mark."""

    def flush(self) -> None:
        """The key is done: write, and forget."""


class _Columns:
    """Dicts of a state's columns to tuples and back, which share nothing that can be changed."""

    def __init__(self, state: str, columns: tuple[str, ...], fit: Fit) -> None:
        self._state = state
        self._columns = columns
        self._fit = fit

    def to_tuple(self, row: Mapping[str, Any] | None, named: Mapping[str, Any]) -> tuple[Any, ...]:
        given = {**(row or {}), **named}
        unknown = given.keys() - set(self._columns)
        if unknown:
            raise KeyError(f"state {self._state!r} has no column {min(unknown)!r}; it has {', '.join(self._columns)}")
        return self._fit(tuple(_own(given.get(name)) for name in self._columns))

    def to_row(self, values: Iterable[Any]) -> Row:
        return dict(zip(self._columns, map(_own, values), strict=True))


def _own(value: Any) -> Any:
    """A copy, of those values that can be changed."""
    return deepcopy(value) if isinstance(value, list | dict | bytearray) else value


class ValueState:
    """One row of the state's columns, or none."""

    def __init__(self, name: str, columns: tuple[str, ...], store: Any) -> None:
        self._columns = _Columns(name, columns, store.fit)
        self._store = store
        self._value: tuple[Any, ...] | _Unread | None = _UNREAD
        self._changed = False
        self._mark: tuple[tuple[Any, ...] | _Unread | None, bool] = (self._value, self._changed)

    def get(self) -> Row | None:
        found: tuple[Any, ...] | None = self._store.get() if isinstance(self._value, _Unread) else self._value
        self._value = found
        return None if found is None else self._columns.to_row(found)

    def set(self, row: Mapping[str, Any] | None = None, **columns: Any) -> None:
        """`set(n=1)`, or `set({"n": 1})`. A column that is not named is NULL."""
        self._value, self._changed = self._columns.to_tuple(row, columns), True

    def clear(self) -> None:
        self._value, self._changed = None, True

    def mark(self) -> None:
        self._mark = (self._value, self._changed)

    def undo(self) -> None:
        self._value, self._changed = self._mark

    def flush(self) -> None:
        if self._changed:
            assert not isinstance(self._value, _Unread), self._value
            if self._value is None:
                self._store.clear()
            else:
                self._store.update(self._value)
        self._value, self._changed = _UNREAD, False


class ListState:
    """Rows of the state's columns, in the order in which they were appended."""

    def __init__(self, name: str, columns: tuple[str, ...], store: Any) -> None:
        self._columns = _Columns(name, columns, store.fit)
        self._store = store
        self._stored: list[tuple[Any, ...]] | None = None  # None: not read
        self._replaced = False
        self._appended: list[tuple[Any, ...]] = []
        self._mark: tuple[list[tuple[Any, ...]] | None, bool, list[tuple[Any, ...]], int]
        self.mark()

    def __iter__(self) -> Iterator[Row]:
        return iter([self._columns.to_row(values) for values in (*self._read(), *self._appended)])

    def __len__(self) -> int:
        return len(self._read()) + len(self._appended)

    def append(self, row: Mapping[str, Any] | None = None, **columns: Any) -> None:
        self._appended.append(self._columns.to_tuple(row, columns))

    def set(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """These instead of those which are there."""
        made = [self._columns.to_tuple(row, {}) for row in rows]
        self._stored, self._replaced, self._appended = [], True, made

    def clear(self) -> None:
        self.set(())

    def mark(self) -> None:
        self._mark = (self._stored, self._replaced, self._appended, len(self._appended))

    def undo(self) -> None:
        self._stored, self._replaced, self._appended, length = self._mark
        del self._appended[length:]

    def flush(self) -> None:
        if self._replaced and self._appended:
            self._store.put(self._appended)
        elif self._replaced:
            self._store.clear()
        elif self._appended:
            self._store.appendList(self._appended)
        self._stored, self._replaced, self._appended = None, False, []

    def _read(self) -> list[tuple[Any, ...]]:
        if self._stored is None:
            self._stored = list(self._store.get())
        return self._stored


class MapState:
    """Rows of the state's columns by keys: a value, or a tuple if the map's key has several columns."""

    def __init__(self, name: str, keys: tuple[str, ...], columns: tuple[str, ...], store: Any) -> None:
        self._name = name
        self._keys = keys
        self._columns = _Columns(name, columns, store.fit)
        self._store = store
        self._changes: dict[tuple[Any, ...], tuple[Any, ...] | None] = {}  # None: deleted
        self._cleared = False
        self._undo: list[Callable[[], object]] = []

    def get(self, key: Any) -> Row | None:
        found = self._found(self._key(key))
        return None if found is None else self._columns.to_row(found)

    def __contains__(self, key: Any) -> bool:
        return self._found(self._key(key)) is not None

    def set(self, key: Any, row: Mapping[str, Any] | None = None, **columns: Any) -> None:
        self._change(self._key(key), self._columns.to_tuple(row, columns))

    def delete(self, key: Any) -> None:
        """Nothing happens if it is not there."""
        self._change(self._key(key), None)

    def clear(self) -> None:
        changes, cleared = self._changes, self._cleared
        self._undo.append(lambda: self._restore(changes, cleared))
        self._changes, self._cleared = {}, True

    def items(self) -> Iterator[tuple[Any, Row]]:
        for key, values in self._all().items():
            yield (key[0] if len(self._keys) == 1 else key), self._columns.to_row(values)

    def keys(self) -> Iterator[Any]:
        return (key for key, _ in self.items())

    def __iter__(self) -> Iterator[Any]:
        return self.keys()

    def __len__(self) -> int:
        return len(self._all())

    def mark(self) -> None:
        self._undo.clear()

    def undo(self) -> None:
        while self._undo:
            self._undo.pop()()

    def flush(self) -> None:
        if self._cleared:
            self._store.clear()
        for key, values in self._changes.items():
            if values is not None:
                self._store.updateValue(key, values)
            elif not self._cleared:
                self._store.removeKey(key)
        self._changes, self._cleared = {}, False
        self._undo.clear()

    def _found(self, key: tuple[Any, ...]) -> tuple[Any, ...] | None:
        if key in self._changes or self._cleared:
            return self._changes.get(key)
        found: tuple[Any, ...] | None = self._store.getValue(key)
        return found

    def _all(self) -> dict[tuple[Any, ...], tuple[Any, ...]]:
        stored = {} if self._cleared else {tuple(key): tuple(values) for key, values in self._store.iterator()}
        return {key: values for key, values in (stored | self._changes).items() if values is not None}

    def _change(self, key: tuple[Any, ...], values: tuple[Any, ...] | None) -> None:
        changes = self._changes
        if key in changes:
            before = changes[key]
            self._undo.append(lambda: changes.__setitem__(key, before))
        else:
            self._undo.append(lambda: changes.pop(key))
        changes[key] = values

    def _restore(self, changes: dict[tuple[Any, ...], tuple[Any, ...] | None], cleared: bool) -> None:
        self._changes, self._cleared = changes, cleared

    def _key(self, key: Any) -> tuple[Any, ...]:
        made = key if isinstance(key, tuple) else (key,)
        if len(made) != len(self._keys):
            raise KeyError(f"state {self._name!r} has keys of ({', '.join(self._keys)}), and {key!r} is none")
        fitting: tuple[Any, ...] = self._store.fit_key(made)
        return fitting


class Timers:
    """At which times the processor's `on_timer` is called for this key. One is called once, and then is gone.

    Times are cut to milliseconds. A timer whose time has come already is called at the end of the micro-batch or in the
    next one.
    """

    def __init__(self, store: Any) -> None:
        self._store = store
        self._wanted: dict[int, bool] = {}  # by milliseconds, whether it is to be; in the order of the wishes
        self._mark: dict[int, bool] = {}
        self.base = _EPOCH  # what `after` counts from
        self.due: datetime | None = None  # the one that is being called

    def set(self, at: datetime) -> None:
        self._wanted = {**self._wanted, to_ms(at): True}

    def after(self, duration: Duration) -> datetime:
        """So long after the time of the row or timer; in processing time, so long after now. Gives that time."""
        at = self.base + timedelta(milliseconds=_duration_ms(duration))
        self.set(at)
        return at

    def cancel(self, at: datetime) -> None:
        """Nothing happens if there is none."""
        self._wanted = {**self._wanted, to_ms(at): False}

    def all(self) -> list[datetime]:
        """All that are set, in order; not the one that is being called, which the store still has."""
        known = dict.fromkeys(self._store.listTimers(), True)
        if self.due is not None:
            known.pop(to_ms(self.due), None)
        known |= self._wanted
        return [from_ms(at) for at in sorted(known) if known[at]]

    def mark(self) -> None:
        self._mark = self._wanted

    def undo(self) -> None:
        self._wanted = self._mark

    def flush(self) -> None:
        for at, wanted in self._wanted.items():
            if wanted:
                self._store.registerTimer(at)
            else:
                self._store.deleteTimer(at)
        self._wanted = {}


def to_ms(time: datetime) -> int:
    if time.tzinfo is None:
        raise ValueError(f"{time!r} has no time zone")
    return (time - _EPOCH) // _MILLISECOND


def from_ms(milliseconds: int) -> datetime:
    return _EPOCH + milliseconds * _MILLISECOND


@lru_cache(maxsize=64)
def _duration_ms(duration: Duration) -> int:
    return duration_ms(duration, what="the time of a timer")
