"""Values of the user's become Arrow, and whole numbers are not cut on the way.

Arrow makes 5 of 5.5 in a column of whole numbers, without a word, and so 1998 of 19.99 * 100. Here that does not fit.
A float that is whole does: there is nothing to lose. Columns without whole numbers are not looked at, and of others as
a rule only the Python types of their values, many at a time.

Times are whole numbers for Arrow, too, of microseconds: it would make a moment of 1970 of `time.time()`. A number is
no time here. Spark casts it as seconds, and many mean milliseconds; who gives a datetime means what he says.
"""

from collections.abc import Callable, Iterable
from datetime import date, datetime, timedelta
from functools import lru_cache
from itertools import chain
from numbers import Number
from operator import itemgetter
from typing import Any, Final

import numpy as np
import pyarrow as pa

_WHOLE: Final = frozenset({int, type(None)})
_TIMES: Final = frozenset({datetime, date, timedelta, type(None)})
_DICTS: Final = frozenset({dict})
_PLAIN: Final = frozenset({dict, list})
_ANYTHING: Final = np.dtype(object)


def array_of(values: Any, type_: pa.DataType) -> pa.Array:
    """Raises what Arrow raises, and ValueError for the first number that would be cut, or taken for a time."""
    made = pa.array(values, type_)
    # Arrow looks for itself at what numpy and pandas know to be numbers.
    if has_whole_numbers(type_) and getattr(values, "dtype", _ANYTHING) == _ANYTHING:
        refuse_cut(values, type_)
    return made


@lru_cache(maxsize=1024)
def has_whole_numbers(type_: pa.DataType) -> bool:
    if pa.types.is_nested(type_):
        return any(has_whole_numbers(type_.field(number).type) for number in range(type_.num_fields))
    return bool(pa.types.is_integer(type_) or pa.types.is_temporal(type_))


def refuse_cut(values: Iterable[Any], type_: pa.DataType) -> None:
    """Of values, to be read more than once, of which Arrow can make this type. Raises ValueError."""
    _refuse(lambda: values, type_)


def _refuse(values: Callable[[], Iterable[Any]], type_: pa.DataType) -> None:
    if not has_whole_numbers(type_):
        return
    if pa.types.is_integer(type_):
        if not _WHOLE.issuperset(map(type, values())):
            _refuse_fractions(values(), type_)
    elif pa.types.is_temporal(type_):
        if not _TIMES.issuperset(map(type, values())):
            _refuse_numbers(values(), type_)
    elif pa.types.is_struct(type_):
        rows = _rows(values(), [field.name for field in type_])
        for field in type_:
            _refuse_field(rows, field)
    elif pa.types.is_map(type_):
        maps = [value.items() if isinstance(value, dict) else value for value in _there(values())]
        _refuse(lambda: (key for pairs in maps for key, _ in pairs), type_.key_type)
        _refuse(lambda: (item for pairs in maps for _, item in pairs), type_.item_type)
    else:
        lists = _there(values())
        _refuse(lambda: chain.from_iterable(lists), type_.value_type)


def _refuse_field(rows: Iterable[dict[str, Any]], field: pa.Field) -> None:
    try:
        _refuse(lambda: map(itemgetter(field.name), rows), field.type)
    except KeyError:  # what is not there is NULL
        _refuse(lambda: [row.get(field.name) for row in rows], field.type)


def _refuse_fractions(values: Iterable[Any], type_: pa.DataType) -> None:
    for value in _numbers(values):
        if value % 1 != 0:
            raise ValueError(f"{value!r} is not a whole number, which {type_} needs")


def _refuse_numbers(values: Iterable[Any], type_: pa.DataType) -> None:
    for value in _numbers(values):
        raise ValueError(f"{value!r} is a number, and {type_} needs a datetime, a date or a timedelta")


def _numbers(values: Iterable[Any]) -> Iterable[Any]:
    numbers: Iterable[Any] = (value for value in values if type(value) is float or isinstance(value, Number))
    return (value for value in numbers if value == value)  # NaN that Arrow lets pass is NULL in a column of pandas


def _rows(values: Iterable[Any], names: list[str]) -> list[dict[str, Any]]:
    """Structs in the forms that Arrow takes: dicts, tuples in the order of fields, lists of pairs."""
    there = _there(values)
    if _DICTS.issuperset(map(type, there)):
        return there
    return [dict(zip(names, row, strict=False)) if isinstance(row, tuple) else dict(row) for row in there]


def _there(values: Iterable[Any]) -> list[Any]:
    """Without NULLs, of which pandas has several."""
    there = [value for value in values if value is not None]
    return there if _PLAIN.issuperset(map(type, there)) else [value for value in there if hasattr(value, "__iter__")]
