"""What buckets keep in Spark's state, and what a worker remembers of it from one micro-batch to the next.

A bucket has chunks, numbered by versions: each micro-batch adds one with what it has changed, and now and then all of
them are replaced by one. The head says which versions there are. A worker keeps the tables that it has read, so that
mostly nothing is read at all; if another worker had the bucket meanwhile, it reads the chunks that it has missed.

A remembered table must never be taken for what it is not: a task may have failed after it changed the table, or the
query may have gone back to an older checkpoint and on from there in another way. So each version has a random token,
and each chunk says which token it follows. A table is used if its token is that of the head, or the one that the next
chunk follows; else it is forgotten. While a task uses it, nobody remembers it.
"""

import os
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle

from headrace.streams.keyed.packing import packed, unpacked
from headrace.streams.keyed.state_table import StateTable

_HEAD: Final = "version long, first long, token binary, timer long"
_CHUNK: Final = "follows binary, rows binary"
_REMEMBERED_BYTES: Final = 1 << 30  # of all tables in one worker; those not used for longest are forgotten first
_TOKEN_BYTES: Final = 16
_NEVER: Final = -1  # as a timer


@dataclass
class Loaded:
    """A table that is as the head says: chunks `first` to `version`, the last of which made `token`."""

    table: StateTable
    version: int = 0
    first: int = 1
    token: bytes = b""
    timer: int = _NEVER


class Remembered:
    """Tables by bucket, in the memory of this process."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._loaded: OrderedDict[Any, tuple[Loaded, int]] = OrderedDict()
        self._bytes = 0

    def take(self, key: Any) -> Loaded | None:
        found = self._loaded.pop(key, None)
        if found is None:
            return None
        self._bytes -= found[1]
        return found[0]

    def put(self, key: Any, loaded: Loaded) -> None:
        self.take(key)
        size = loaded.table.bytes_here
        self._loaded[key] = loaded, size
        self._bytes += size
        while self._bytes > self._most_bytes and len(self._loaded) > 1:
            _, (_, freed) = self._loaded.popitem(last=False)
            self._bytes -= freed


_REMEMBERED: Final = Remembered(_REMEMBERED_BYTES)


class BucketStates:
    """Of the operator whose handle it is. Spark knows which bucket is meant by the one whose rows are at work."""

    def __init__(
        self, handle: StatefulProcessorHandle, schema: pa.Schema, run: str, remembered: Remembered = _REMEMBERED
    ) -> None:
        self._handle = handle
        self._schema = schema
        self._run = run
        self._remembered = remembered
        self._head = handle.getValueState("head", _HEAD)
        self._chunks = handle.getMapState("chunks", "version long", _CHUNK)

    def load(self, bucket: int) -> Loaded:
        remembered = self._remembered.take((self._run, bucket))
        head = self._head.get()
        if head is None:
            return Loaded(StateTable(self._schema))
        version, first, token, timer = head
        token = bytes(token)
        if remembered is not None and not self._follow(remembered, version, first, token):
            remembered = None
        if remembered is None:
            chunks = (unpacked(self._chunk(number)[1]) for number in range(first, version + 1))
            remembered = Loaded(StateTable.of(self._schema, chunks))
        remembered.version, remembered.first, remembered.token, remembered.timer = version, first, token, timer
        return remembered

    def save(self, bucket: int, loaded: Loaded, *, wakes_at: int | None) -> None:
        """What the table has changed, and when the bucket wants to be woken."""
        timer = _NEVER if wakes_at is None else wakes_at
        self._set_timer(loaded.timer, timer)
        is_changed = self._write(loaded)
        if is_changed or timer != loaded.timer:
            self._head.update((loaded.version, loaded.first, loaded.token, timer))
        loaded.timer = timer
        self._remembered.put((self._run, bucket), loaded)

    def _follow(self, loaded: Loaded, version: int, first: int, token: bytes) -> bool:
        """Whether the table could be brought to this version."""
        if loaded.token == token:
            return True
        # Chunk `first` is the whole state in the place of all before it: who has not seen it cannot go on from there.
        if not first <= loaded.version < version:
            return False
        for number in range(loaded.version + 1, version + 1):
            follows, rows = self._chunk(number)
            if number == loaded.version + 1 and follows != loaded.token:
                return False
            loaded.table.replay(unpacked(rows))
        return True

    def _write(self, loaded: Loaded) -> bool:
        token = os.urandom(_TOKEN_BYTES)
        if loaded.table.is_worth_rewriting:
            self._chunks.clear()
            whole = loaded.table.rewritten()
            loaded.first = loaded.version + 1
            self._append(loaded, whole, token)
            return True
        changes = loaded.table.changes()
        if changes is None:
            return False
        self._append(loaded, changes, token)
        return True

    def _append(self, loaded: Loaded, chunk: pa.Table, token: bytes) -> None:
        loaded.version += 1
        self._chunks.updateValue((loaded.version,), (loaded.token, packed(chunk)))
        loaded.token = token

    def _chunk(self, version: int) -> tuple[bytes, bytes]:
        found = self._chunks.getValue((version,))
        assert found is not None, f"there is no chunk {version}"
        follows, rows = found
        return bytes(follows), bytes(rows)

    def _set_timer(self, before: int, now: int) -> None:
        if before == now:
            return
        if before != _NEVER:
            self._handle.deleteTimer(before)
        if now != _NEVER:
            self._handle.registerTimer(now)
