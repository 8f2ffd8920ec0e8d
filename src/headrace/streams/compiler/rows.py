"""How rows look between two operators inside Spark: a user's columns by name, and hidden ones beside them.

`_deleted` is true for the deletion of a key from a table, and for a record without a value in a stream: it becomes a
tombstone again when it is written. `_value` and `_stamp` are the bytes and the timestamp of the record, for as long as
each row still is one; `_time` may be another, since the user says what the time of a row is.

Where rows may fail, `_error` says why one has, and `_function` in which function of the user's; `_json_key` and
`_json_value` are there, too, if rows are not records any more: see `dead_letters.py`.
"""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from headrace.streams.compiler.columns import column
from headrace.streams.schema import names
from headrace.streams.shapes import RECORD_COLUMNS, TIME_COLUMN, Shape

DELETED: Final = "_deleted"
VALUE: Final = "_value"
STAMP: Final = "_stamp"
ERROR: Final = "_error"
FUNCTION: Final = "_function"
OPERATOR: Final = "_operator"
JSON_KEY: Final = "_json_key"
JSON_VALUE: Final = "_json_value"
HIDDEN: Final = (*names(RECORD_COLUMNS), VALUE, STAMP, JSON_KEY, JSON_VALUE, DELETED)
TIME: Final = TIME_COLUMN


def hidden_of(df: DataFrame) -> list[Column]:
    return [F.col(name) for name in df.columns if name in HIDDEN]


def user_columns(shape: Shape) -> list[Column]:
    return [column(name) for name in names(shape.columns)]


def key_columns(shape: Shape) -> list[Column]:
    return [column(name) for name in shape.key]
