"""In which order the rows of one micro-batch count, when they say nothing about it but their time and their place.

A place is a partition of a topic; rows of one place have offsets. As in Kafka Streams, changes of a table count in the
order of their offsets, whatever their times are: the last one written is the state. Among places time decides, and a
change counts from the latest time of its key's changes up to it in its place, so that it never overtakes them.
"""

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.streams.keyed.operator import GROUP, TIME

PLACE: Final = "_place"  # int64: where the row comes from
OFFSET: Final = "_offset"  # int64: its number there; of rows that are no records, their time

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
NONE: Final = -1  # as the number of a row: there is none
LONG_AGO: Final = np.iinfo(np.int64).min  # as a time: unknown


class Groups(NamedTuple):
    """The keys of a batch, each once, and by its number in that list the key of each row. None is a key, too."""

    keys: list[bytes | None]
    codes: Ints


class Changes(NamedTuple):
    """Numbers of rows, those of one key together and in the order in which they count, and from when each counts."""

    rows: Ints
    since: Ints


def groups_of(batch: pa.Table) -> Groups:
    encoded = column(batch, GROUP).dictionary_encode(null_encoding="encode")
    return Groups(encoded.dictionary.to_pylist(), encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64))


def changes_in_order(batch: pa.Table, codes: Ints, which: Bools) -> Changes:
    """The changes of a table: those rows of the batch that `which` says."""
    rows = np.flatnonzero(which)
    places, offsets, times = numbers(batch, PLACE), numbers(batch, OFFSET), times_of(batch, TIME)
    order = rows[np.lexsort((offsets[rows], places[rows], codes[rows]))]
    since = _never_earlier(times[order], _starts(codes[order], places[order]))
    by_time = np.lexsort((places[order], since, codes[order]))
    return Changes(order[by_time], since[by_time])


def last_changes(changes: Changes, groups: Groups) -> Ints:
    """The row of each key's last change, NONE if it has no change."""
    last = np.full(len(groups.keys), NONE, np.int64)
    last[groups.codes[changes.rows]] = changes.rows  # of several assignments to one place numpy keeps the last
    return last


def before_or_at(codes: Ints, times: Ints, wanted_codes: Ints, wanted_times: Ints) -> Ints:
    """For each wanted one the position of the last with the same code that is not later, NONE if there is none.

    `codes` and `times` are sorted, by both.
    """
    if not len(codes):
        return np.full(len(wanted_codes), NONE, np.int64)
    ranks = np.unique(times)
    # Rank 0 is before all of them; codes and ranks are numbers of rows, so that their product fits.
    ours = codes * (len(ranks) + 1) + np.searchsorted(ranks, times, side="right")
    theirs = wanted_codes * (len(ranks) + 1) + np.searchsorted(ranks, wanted_times, side="right")
    found = np.searchsorted(ours, theirs, side="right") - 1
    return np.where((found >= 0) & (codes[found] == wanted_codes), found, NONE)


def column(table: pa.Table, name: str) -> pa.Array:
    """In one piece."""
    whole = table[name]
    return whole.chunk(0) if whole.num_chunks == 1 else whole.combine_chunks()


def numbers(table: pa.Table, name: str) -> npt.NDArray[Any]:
    """Of a column without NULL."""
    made: npt.NDArray[Any] = column(table, name).to_numpy(zero_copy_only=False)
    return made


def times_of(table: pa.Table, name: str) -> Ints:
    """Microseconds; LONG_AGO for NULL."""
    made: Ints = column(table, name).cast(pa.int64()).fill_null(int(LONG_AGO)).to_numpy()
    return made


def taken(table: pa.Table, rows: Ints) -> pa.Table:
    """A row of NULLs for NONE."""
    missing = rows < 0
    return table.take(pa.array(rows, mask=missing) if missing.any() else pa.array(rows))


def stacked(*tables: pa.Table) -> pa.Table:
    """One above the other, whatever each says about which columns may be NULL."""
    return pa.concat_tables(tables, promote_options="default")


def known(keys: Iterable[bytes | None]) -> list[bytes]:
    """Keys of a state, where there is none that is NULL."""
    return [key for key in keys if key is not None]


def _starts(*sorted_by: Ints) -> Bools:
    """Where a row differs from the one before it in one of these."""
    starts = np.ones(len(sorted_by[0]), np.bool_)
    if len(starts):
        starts[1:] = np.logical_or.reduce([each[1:] != each[:-1] for each in sorted_by])
    return starts


def _never_earlier(times: Ints, starts: Bools) -> Ints:
    """The highest time so far, from each start on."""
    if not ((times[1:] < times[:-1]) & ~starts[1:]).any():
        return times
    ranked, ranks = np.unique(times, return_inverse=True)
    base = np.cumsum(starts) * len(ranked)
    made: Ints = ranked[np.maximum.accumulate(base + ranks) - base]
    return made
