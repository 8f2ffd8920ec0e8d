"""The state of one bucket: a log of Arrow chunks, and an index that says which rows of it count.

Theory. `put` appends rows and lets the index point to them; rows that were there under the same keys are dead from then
on, and stay in the log until it is rewritten. So a step costs what its batch costs, however large the state is. A
position is a row's number in the log. It holds until the next `rewritten`, which alone moves rows.

What is kept outside is the same log: `changes` after each step, and everything anew, by `rewritten`, when more of the
log is dead than alive or it has too many chunks to be read back quickly. `of` makes a table of such chunks again.
"""

import heapq
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import repeat
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

GROUP: Final = "_group"  # binary: the key, in bytes; equal keys have equal bytes
SUB: Final = "_sub"  # binary: tells the rows of a group apart, if a state has several
UNTIL: Final = "_until"  # int64, milliseconds: when `pop_due` gives the row; NULL: never
GONE: Final = "_gone"  # bool, only in the chunks that are kept outside: the row that was there is no more

# Each further chunk makes it slower to find rows by position, and merging them costs too: a few are cheap.
_MOST_CHUNKS_HERE: Final = 16
# A chunk that is kept outside takes about a tenth of a millisecond to read back.
_MOST_CHUNKS_OUTSIDE: Final = 256
_INDEX_BYTES: Final = 150  # for each row: a key of Python's, its place in a dict, a position
_FEW_ROWS: Final = 1024  # not worth the trouble

Positions = npt.NDArray[np.int64]
_NOTHING: Final[Mapping[bytes, int]] = {}


class StateTable:
    """`schema` is that of the rows without GROUP. With a column SUB in it, a group has many rows, else one at most."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema if GROUP in schema.names else schema.insert(0, pa.field(GROUP, pa.binary()))
        self._saved = 0  # up to which position the log is kept outside
        self._chunks_outside = 0
        self._rows_outside = 0
        self._forget()

    @classmethod
    def of(cls, schema: pa.Schema, chunks: Iterable[pa.Table]) -> "StateTable":
        """From what `changes` and `rewritten` gave, in that order."""
        table = cls(schema)
        for chunk in chunks:
            table.replay(chunk)
        return table

    def replay(self, chunk: pa.Table) -> None:
        """Follow another table with the same state, which has made this change. There must be none of our own."""
        assert self._saved == len(self._alive), (self._saved, len(self._alive))
        gone = chunk[GONE].combine_chunks()
        self.put(chunk.filter(pc.invert(gone)).drop_columns(GONE))
        away = chunk.filter(gone)
        self.delete(away[GROUP].to_pylist(), None if self._one is not None else away[SUB].to_pylist())
        self._saved = len(self._alive)
        self._gone.clear()
        self._chunks_outside += 1
        self._rows_outside += len(chunk)

    def __len__(self) -> int:
        return self._live

    @property
    def bytes_here(self) -> int:
        """About how much memory it takes."""
        arrow: int = sum(chunk.nbytes for chunk in self._chunks)
        return arrow + _INDEX_BYTES * len(self._alive)

    def positions(self, groups: Sequence[bytes | None]) -> Positions:
        """Where the row of each group is, -1 where there is none. Only for states with one row per group."""
        assert self._one is not None, "a state with several rows per group has members"
        index: Mapping[bytes | None, int] = self._one  # type: ignore[assignment]  # None is just not in it
        return np.fromiter(map(index.get, groups, repeat(-1)), np.int64, len(groups))

    def members(self, group: bytes) -> Mapping[bytes, int]:
        """The positions of a group's rows by their SUB. Look, before the next change."""
        assert self._one is None, "a state with one row per group has positions"
        return self._many.get(group, _NOTHING)

    def rows_of(self, groups: Sequence[bytes]) -> tuple[pa.Table, list[int]]:
        """The rows of all of these groups, one group after the other, and how many each has."""
        members = [self.members(group) for group in groups]
        positions = np.array([position for each in members for position in each.values()], np.int64)
        return self.rows(positions), [len(each) for each in members]

    def groups(self) -> Iterator[bytes]:
        """All that have rows."""
        return iter(self._many if self._one is None else self._one)

    def rows(self, positions: Positions) -> pa.Table:
        """In the order of the positions; a row of NULLs for -1."""
        if not self._chunks:
            return _taken(self._schema.empty_table(), positions)
        if len(self._chunks) == 1:
            return _taken(self._chunks[0], positions)
        # By chunk, since Arrow would make one array of all chunks first.
        which = np.searchsorted(self._starts, positions, side="right") - 1
        which[positions < 0] = 0
        order = np.argsort(which, kind="stable")
        parts, ends = [], np.searchsorted(which[order], np.arange(len(self._chunks) + 1))
        for number, chunk in enumerate(self._chunks):
            wanted = positions[order[ends[number] : ends[number + 1]]]
            if len(wanted):
                parts.append(_taken(chunk, np.where(wanted < 0, -1, wanted - self._starts[number])))
        if not parts:
            return self._schema.empty_table()
        back = np.empty_like(order)
        back[order] = np.arange(len(order))
        return pa.concat_tables(parts).combine_chunks().take(back)

    def live(self) -> pa.Table:
        """All rows, the oldest change first. This alone, and `rewritten`, cost what the whole state costs."""
        return self.rows(np.flatnonzero(np.frombuffer(self._alive, np.uint8)))

    def put(self, rows: pa.Table) -> None:
        """Insert or replace; of several rows with one key the last counts."""
        if not len(rows):
            return
        chunk = rows.select(self._schema.names)
        if not chunk.schema.equals(self._schema):
            chunk = chunk.cast(self._schema)
        start = len(self._alive)
        self._starts.append(start)
        self._chunks.append(chunk.combine_chunks())
        self._alive.extend(b"\x01" * len(chunk))
        if self._one is not None:
            self._index_one(chunk[GROUP].to_pylist(), start)
        else:
            self._index_many(chunk[GROUP].to_pylist(), chunk[SUB].to_pylist(), start)
        if self._due is not None:
            self._due.add(chunk[UNTIL].to_pylist(), start)
        self._keep_few_chunks()

    def delete(self, groups: Sequence[bytes], subs: Sequence[bytes] | None = None) -> None:
        """Rows that are not there are no error. Without `subs`, all rows of each group."""
        if self._one is not None:
            assert subs is None, "a state with one row per group has no subs"
            for group in groups:
                self._kill(group, None, self._one.pop(group, None))
        elif subs is None:
            for group in groups:
                for sub, position in self._many.pop(group, {}).items():
                    self._kill(group, sub, position)
        else:
            for group, sub in zip(groups, subs, strict=True):
                members = self._many.get(group, {})
                self._kill(group, sub, members.pop(sub, None))
                if not members:
                    self._many.pop(group, None)

    def pop_due(self, at_ms: int) -> pa.Table:
        """The rows whose UNTIL is not after it, in the order of UNTIL, and away with them."""
        assert self._due is not None, "only a state with a column UNTIL has rows that are due"
        positions = np.array(self._due.pop(at_ms, self._alive), np.int64)
        rows = self.rows(positions)
        self.delete(rows[GROUP].to_pylist(), None if self._one is not None else rows[SUB].to_pylist())
        return rows

    def next_due(self) -> int | None:
        """The UNTIL of the row that is due next."""
        assert self._due is not None, "only a state with a column UNTIL has rows that are due"
        return self._due.next(self._alive)

    def changes(self) -> pa.Table | None:
        """What was put and deleted since the last call, as one chunk to keep; None if nothing was."""
        fresh = np.frombuffer(self._alive, np.uint8)[self._saved :]
        put = self.rows(np.flatnonzero(fresh) + self._saved)
        gone = [key for key in self._gone if not self._has(*key)]
        self._saved = len(self._alive)
        self._gone.clear()
        if not len(put) and not gone:
            return None
        self._chunks_outside += 1
        self._rows_outside += len(put) + len(gone)
        return pa.concat_tables([_marked(put, gone=False), _marked(self._deletions(gone), gone=True)]).combine_chunks()

    @property
    def is_worth_rewriting(self) -> bool:
        """Whether what is kept outside has become more than twice as much as there is, or too many pieces."""
        outside = self._rows_outside + len(self._alive) - self._saved + len(self._gone)
        dead = max(outside, len(self._alive)) - self._live
        # Buckets get their chunks in step; by the number of their rows they are not all rewritten in one micro-batch.
        most_chunks = _MOST_CHUNKS_OUTSIDE + self._live % _MOST_CHUNKS_OUTSIDE
        return self._chunks_outside >= most_chunks or dead > max(self._live, _FEW_ROWS)

    def rewritten(self) -> pa.Table:
        """Everything as one chunk, in the place of all that were kept. Positions are new after it."""
        whole = self.live()
        self._forget()
        self.put(whole)
        self._saved = len(whole)
        self._chunks_outside, self._rows_outside = 1, len(whole)
        return _marked(whole, gone=False)

    def _forget(self) -> None:
        self._chunks: list[pa.Table] = []
        self._starts: list[int] = []  # the position at which each chunk begins
        self._alive = bytearray()  # of every row of the log
        self._live = 0
        self._one: dict[bytes, int] | None = None if SUB in self._schema.names else {}
        self._many: dict[bytes, dict[bytes, int]] = {}
        self._due = _Due() if UNTIL in self._schema.names else None
        self._saved = 0
        self._gone: dict[tuple[bytes, bytes | None], None] = {}  # what was deleted since then
        self._chunks_outside = 0
        self._rows_outside = 0

    def _index_one(self, groups: list[bytes], start: int) -> None:
        assert self._one is not None
        put = dict(zip(groups, range(start, start + len(groups)), strict=True))
        before = np.fromiter(map(self._one.get, put, repeat(-1)), np.int64, len(put))
        alive = np.frombuffer(self._alive, np.uint8)
        alive[before[before >= 0]] = 0
        if len(put) < len(groups):
            alive[start:] = 0
            alive[np.fromiter(put.values(), np.int64, len(put))] = 1
        self._one.update(put)
        self._live = len(self._one)

    def _index_many(self, groups: list[bytes], subs: list[bytes], start: int) -> None:
        for position, (group, sub) in enumerate(zip(groups, subs, strict=True), start):
            members = self._many.get(group)
            if members is None:
                members = self._many[group] = {}
            before = members.get(sub)
            members[sub] = position
            if before is None:
                self._live += 1
            else:
                self._alive[before] = 0

    def _kill(self, group: bytes, sub: bytes | None, position: int | None) -> None:
        if position is None:
            return
        self._alive[position] = 0
        self._gone[group, sub] = None
        self._live -= 1

    def _has(self, group: bytes, sub: bytes | None) -> bool:
        if self._one is not None:
            return group in self._one
        return sub in self._many.get(group, _NOTHING)

    def _deletions(self, keys: list[tuple[bytes, bytes | None]]) -> pa.Table:
        columns: dict[str, pa.Array] = {
            name: pa.nulls(len(keys), self._schema.field(name).type) for name in self._schema.names
        }
        columns[GROUP] = pa.array([group for group, _ in keys], self._schema.field(GROUP).type)
        if self._one is None:
            columns[SUB] = pa.array([sub for _, sub in keys], self._schema.field(SUB).type)
        return pa.table(columns, schema=self._schema)

    def _keep_few_chunks(self) -> None:
        """Merge from the end while the chunks before are not much larger, so that a row is moved only now and then."""
        if len(self._chunks) <= _MOST_CHUNKS_HERE:
            return
        first = len(self._chunks) - 1
        rows = len(self._chunks[first])
        while first > 0 and (len(self._chunks[first - 1]) <= 2 * rows or first >= _MOST_CHUNKS_HERE):
            first -= 1
            rows += len(self._chunks[first])
        self._chunks[first:] = [pa.concat_tables(self._chunks[first:]).combine_chunks()]
        del self._starts[first + 1 :]


class _Due:
    """Positions by the time at which they are due. Dead ones are thrown out when they are next, or their time comes."""

    def __init__(self) -> None:
        self._at: dict[int, deque[int]] = {}
        self._times: list[int] = []  # a heap of the keys of `_at`

    def add(self, times: list[int | None], start: int) -> None:
        for position, time in enumerate(times, start):
            if time is None:
                continue
            found = self._at.get(time)
            if found is None:
                self._at[time] = deque((position,))
                heapq.heappush(self._times, time)
            else:
                found.append(position)

    def pop(self, at_ms: int, alive: bytearray) -> list[int]:
        found: list[int] = []
        while self._times and self._times[0] <= at_ms:
            found.extend(position for position in self._at.pop(heapq.heappop(self._times)) if alive[position])
        return found

    def next(self, alive: bytearray) -> int | None:
        while self._times:
            found = self._at[self._times[0]]
            while found and not alive[found[0]]:
                found.popleft()  # else each question would pass all that have died since the window began
            if found:
                return self._times[0]
            del self._at[heapq.heappop(self._times)]
        return None


def _taken(table: pa.Table, positions: Positions) -> pa.Table:
    missing = positions < 0
    if not missing.any():
        return table.take(pa.array(positions))
    return table.take(pa.array(positions, mask=missing))


def _marked(rows: pa.Table, *, gone: bool) -> pa.Table:
    return rows.append_column(GONE, pa.array(np.full(len(rows), gone)))
