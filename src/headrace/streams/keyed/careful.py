"""Functions of the user's that fail for single rows, and rows that are late: which these are, and a state as if they
had never come.

Theory. As a rule nothing fails, and functions are called without further ado: they may change what they are given, and
what they give is put into Arrow all at once. If something has failed for a key, its rows of the batch are folded again,
from the state as it was, by a `Careful` folding: each call gets copies, and what it gives must fit. So a row that fails
there has changed nothing, and only the keys with such rows pay for it. Functions must answer the same both times.
"""

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

import numpy as np
import pyarrow as pa

from headrace.streams.keyed.fold_rows import US, Batch, Dead, Entry, Results
from headrace.streams.keyed.folding import At, Folding, FunctionFailedError, Value, misfit, values_array
from headrace.streams.lateness import IS_AT, TAKEN_UNTIL

K = TypeVar("K")


@dataclass(frozen=True)
class Careful:
    """Raises FunctionFailedError before anything is changed."""

    folding: Folding
    operator: str
    may_keep_rows: ClassVar[bool] = False

    @property
    def value_type(self) -> pa.StructType:
        return self.folding.value_type

    @property
    def results(self) -> pa.Schema:
        return self.folding.results

    def add(self, value: Value | None, side: int, row: dict[str, Any], at: At) -> Value | None:
        return self._fitting(self.folding.add(deepcopy(value), side, deepcopy(row), at))

    def merge(self, one: Value, other: Value) -> Value | None:
        return self._fitting(self.folding.merge(deepcopy(one), deepcopy(other)))

    def result(self, value: Value) -> dict[str, Any]:
        return self.folding.result(value)

    def _fitting(self, made: Value | None) -> Value | None:
        values_array([made], self.value_type, self.operator)
        return made


def add_rows(
    batch: Batch,
    results: Results,
    load: Callable[[], list[K]],
    add: Callable[[K, Entry, Folding], int | None],
    values: Callable[[K], Sequence[Value | None]],
) -> tuple[list[K], list[Dead], dict[int, int]]:
    """The keys of a batch with its rows; rows that failed; and the deadlines of rows that are late, by their numbers.

    `load` gives all keys as they are in the state. `add` adds a row to its key, or gives its deadline if it is late, in
    which case nothing has changed; nor has it if it raises, and the folding is a careful one. `values` are what a key
    will keep.
    """
    keys, codes = load(), batch.codes.tolist()
    late: dict[int, int] = {}
    failed: set[int] = set()  # keys
    for number, (code, entry) in enumerate(zip(codes, batch.entries, strict=True)):
        try:
            if (deadline := add(keys[code], entry, results.folding)) is not None:
                late[number] = deadline
        except FunctionFailedError:
            if not results.forgives:
                raise
            failed.add(code)
    if results.forgives:
        kept = [(code, value) for code, key in enumerate(keys) if code not in failed for value in values(key)]
        failed.update(kept[which][0] for which in misfits([value for _, value in kept], results.folding.value_type))
    dead: list[Dead] = []
    if failed:
        careful, again = Careful(results.folding, results.operator), load()
        for number, (code, entry) in enumerate(zip(codes, batch.anew(), strict=True)):
            if code in failed:
                late.pop(number, None)
                try:
                    if (deadline := add(again[code], entry, careful)) is not None:
                        late[number] = deadline
                except FunctionFailedError as error:
                    dead.append(Dead(number, error.error, error.function))
        keys = [again[code] if code in failed else key for code, key in enumerate(keys)]
    return keys, dead, late


def misfits(values: Sequence[Value | None], value_type: pa.StructType) -> list[int]:
    """The numbers of those which cannot be kept. As a rule there is none, and that is quickly seen."""
    if misfit(values, value_type) is None:
        return []
    return [number for number, value in enumerate(values) if misfit([value], value_type) is not None]


def late_rows(results: Results, deadlines: Mapping[int, int], watermark_ms: int) -> list[Dead]:
    """Of the deadlines of rows in microseconds, by their numbers. Only letters are told why."""
    if not deadlines or not results.late_letters:
        return [Dead(number, "", is_late=True) for number in deadlines]
    told = _iso(watermark_ms * US)
    return [
        Dead(number, f"{TAKEN_UNTIL}{_iso(deadline)}{IS_AT}{told}", is_late=True)
        for number, deadline in deadlines.items()
    ]


def _iso(time_us: int) -> str:
    """Of any time: one wrong record may set the watermark to a year that Python's datetime does not know."""
    return f"{np.datetime64(time_us, 'us')}Z"
