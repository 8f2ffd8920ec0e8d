"""Processors of the user's on Spark: `transformWithState` per key, whose state and timers a micro-batch commits.

What a processor does is in `headrace.streams.processor`; here are Spark's rows and stores, and what comes out of them.
With dead letters, a row for which a function raised comes out, too, with ERROR and all that its dead letter needs. A
timer has no record: its dead letter has the key, and as its value a JSON object of the key and of the timer's time.
"""

import json
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.stateful_processor import (
    ExpiredTimerInfo,
    StatefulProcessor,
    StatefulProcessorHandle,
    TimerValues,
)
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from headrace.streams.compiler.fitting import fitting
from headrace.streams.compiler.rows import (
    DELETED,
    ERROR,
    FUNCTION,
    JSON_KEY,
    JSON_VALUE,
    STAMP,
    TIME,
    VALUE,
    key_columns,
)
from headrace.streams.compiler.stateful import with_watermark
from headrace.streams.plan import Process
from headrace.streams.processor import Input, Output, Processor, Run, new_run
from headrace.streams.processor_states import from_ms
from headrace.streams.queries import Mode
from headrace.streams.schema import Schema, names, schema_text
from headrace.streams.states import State

_MODES: Final = {"event": "EventTime", "processing": "ProcessingTime"}
_PLACE: Final = ("_topic", "_partition", "_offset")
_RECORD: Final = ("_key", *_PLACE, "_headers", VALUE, STAMP)
_JSON: Final = (JSON_KEY, JSON_VALUE)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def processed(df: DataFrame, node: Process, *, mode: Mode, stops: bool) -> DataFrame:
    """What the processor yields; unless a failure `stops` it, with rows that failed, and ERROR and FUNCTION."""
    originals = () if stops else _RECORD if VALUE in df.columns else _JSON
    schema = StructType(
        [
            *_struct(node.shape.columns).fields,
            StructField(TIME, TimestampType()),
            StructField(DELETED, BooleanType()),
            *(StructField(name, df.schema[name].dataType) for name in originals),
            *(() if stops else (StructField(ERROR, StringType()), StructField(FUNCTION, StringType()))),
        ]
    )
    rows = _watched(df, node) if node.timers == "event" else df
    grouped = rows.groupBy(*key_columns(node.input.shape))
    return grouped.transformWithState(_SparkProcessor(node, originals, schema, stops), schema, mode, time_mode(node))


def _watched(df: DataFrame, node: Process) -> DataFrame:
    """With a watermark, for timers; but TIME is not marked as its column, by which Spark would drop late rows. Kafka
    Streams gives a processor all of them, and only that can say what late means to it."""
    watched = with_watermark(df, node.shape.grace_ms)
    return watched.withColumn(TIME, F.col(TIME).alias(TIME, metadata={}))


def time_mode(node: Process) -> str:
    """Spark's. A state that is forgotten after a time needs a clock, also without timers."""
    if node.timers is not None:
        return _MODES[node.timers]
    return "None" if all(state.ttl_ms is None for _, state in node.states) else "ProcessingTime"


class _SparkProcessor(StatefulProcessor):  # type: ignore[misc]  # PySpark has no types for it
    """Made on the driver, and once for each task by pickling. Spark calls by keyword, so parameters have its names."""

    def __init__(self, node: Process, originals: tuple[str, ...], schema: StructType, stops: bool) -> None:
        key = node.input.shape.key
        fit = fitting(_struct(node.shape.columns), "what it gave does not fit the schema")
        self._processor = Processor(
            node.name, node.function, node.on_timer, key, names(node.shape.columns), stops=stops, fit=fit
        )
        self._key = key
        self._given = names(node.input.shape.columns)
        self._states = node.states
        # Parsed here, since that takes a session, and tasks have none.
        self._schemas = {name: (_struct(state.keys), _struct(state.columns)) for name, state in node.states}
        self._timers = node.timers
        self._time_mode = time_mode(node)
        self._originals = originals
        self._row = Row(*schema.names)
        self._stops = stops
        self._run: Run | None = None

    def init(self, handle: StatefulProcessorHandle) -> None:
        stores = {name: _store(handle, name, state, *self._schemas[name]) for name, state in self._states}
        self._run = new_run(self._states, stores, handle, self._timers)

    def handleInputRows(  # noqa: N802
        self,
        key: Any,
        rows: Iterator[Any],
        timerValues: TimerValues,  # noqa: N803
    ) -> Iterator[Row]:
        inputs = [self._input(row.asDict(recursive=True)) for row in rows]
        for output in self._processor.rows(self._at(key, timerValues), inputs):
            yield self._made(output, None if output.failed is None else output.failed.original)

    def handleExpiredTimer(  # noqa: N802
        self,
        key: Any,
        timerValues: TimerValues,  # noqa: N803
        expiredTimerInfo: ExpiredTimerInfo,  # noqa: N803
    ) -> Iterator[Row]:
        at = from_ms(expiredTimerInfo.getExpiryTimeInMs())
        for output in self._processor.timer(self._at(key, timerValues), at):
            yield self._made(output, None if output.error is None else self._of_timer(key, at))

    def close(self) -> None:
        pass

    def _input(self, row: dict[str, Any]) -> Input:
        columns = {name: row[name] for name in self._given}
        place = tuple(row[name] for name in _PLACE if name in row)
        return Input(columns, row[TIME], row[DELETED], place, tuple(row[name] for name in self._originals))

    def _at(self, key: Any, values: TimerValues) -> Run:
        assert self._run is not None
        now = {
            "EventTime": values.getCurrentWatermarkInMs,
            "ProcessingTime": values.getCurrentProcessingTimeInMs,
        }.get(self._time_mode)
        self._run.at(dict(zip(self._key, key, strict=True)), None if now is None else from_ms(now()))
        return self._run

    def _made(self, output: Output, original: tuple[Any, ...] | None) -> Row:
        columns = [output.row.get(name) for name in self._processor.columns]
        if self._stops:
            return self._row(*columns, output.time, False)
        hidden = original if original is not None else (None,) * len(self._originals)
        return self._row(*columns, output.time, False, *hidden, output.error, output.function)

    def _of_timer(self, key: Any, at: datetime) -> tuple[Any, ...]:
        columns = dict(zip(self._key, key, strict=True))
        text = str(key[0]) if len(self._key) == 1 else _json(columns)
        known = {
            "_key": text.encode(),
            JSON_KEY: text.encode(),
            VALUE: _json(columns | {"timer": at.isoformat()}).encode(),
            JSON_VALUE: _json(columns | {"timer": at.isoformat()}).encode(),
            STAMP: at,
        }
        return tuple(known.get(name) for name in self._originals)


def _json(value: dict[str, Any]) -> str:
    return json.dumps(value, default=str, ensure_ascii=False)


def _store(handle: StatefulProcessorHandle, name: str, state: State, keys: StructType, columns: StructType) -> Any:
    match state.kind:
        case "value":
            return _ValueStore(name, handle.getValueState(name, columns, state.ttl_ms), columns)
        case "list":
            return _ListStore(name, handle.getListState(name, columns, state.ttl_ms), columns)
    return _MapStore(name, handle.getMapState(name, keys, columns, state.ttl_ms), keys, columns)


def _struct(columns: Schema) -> StructType:
    return StructType.fromDDL(schema_text(columns)) if columns else StructType()


class _ValueStore:
    """Spark gives back its own form of dates, times and structs; users get what they have put in."""

    def __init__(self, name: str, state: Any, columns: StructType) -> None:
        self._state = state
        self.fit = fitting(columns, f"state {name!r}")
        self._columns = columns
        self.update = state.update
        self.clear = state.clear

    def get(self) -> tuple[Any, ...] | None:
        return _tuple(self._state.get(), self._columns)


class _ListStore:
    def __init__(self, name: str, state: Any, columns: StructType) -> None:
        self._state = state
        self.fit = fitting(columns, f"state {name!r}")
        self._columns = columns
        self.put = state.put
        self.appendList = state.appendList
        self.clear = state.clear

    def get(self) -> Iterator[tuple[Any, ...] | None]:
        return (_tuple(values, self._columns) for values in self._state.get())


class _MapStore:
    def __init__(self, name: str, state: Any, keys: StructType, columns: StructType) -> None:
        self._state = state
        self.fit = fitting(columns, f"state {name!r}")
        self.fit_key = fitting(keys, f"the key of state {name!r}")
        self._keys = keys
        self._columns = columns
        self.updateValue = state.updateValue
        self.removeKey = state.removeKey
        self.clear = state.clear

    def getValue(self, key: tuple[Any, ...]) -> tuple[Any, ...] | None:  # noqa: N802 as Spark has it
        return _tuple(self._state.getValue(key), self._columns)

    def iterator(self) -> Iterator[tuple[Any, Any]]:
        for key, values in self._state.iterator():
            yield _tuple(key, self._keys), _tuple(values, self._columns)


def _tuple(values: Any, columns: StructType) -> tuple[Any, ...] | None:
    if values is None:
        return None
    return tuple(_readable(value, field.dataType) for value, field in zip(values, columns.fields, strict=True))


def _readable(value: Any, type_: DataType) -> Any:
    if value is None:
        return None
    match type_:
        case TimestampType():
            return _EPOCH + timedelta(microseconds=value) if isinstance(value, int) else value.astimezone(UTC)
        case DateType():
            return date.fromordinal(_EPOCH.toordinal() + value) if isinstance(value, int) else value
        case BinaryType():
            return bytes(value)
        case StructType():
            made = _tuple(value, type_)
            assert made is not None
            return dict(zip(type_.names, made, strict=True))
        case ArrayType():
            return [_readable(each, type_.elementType) for each in value]
        case MapType():
            return {
                _readable(key, type_.keyType): _readable(each, type_.valueType) for key, each in dict(value).items()
            }
    return value
