"""What `headrace log dump` prints: the rows of headrace.log.inspect, as tables or as JSON lines."""

import errno
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, Protocol

from headrace.cli import NO_ROOM
from headrace.cli.output import (
    Column,
    Complaint,
    Finding,
    TableWriter,
    jsonable,
    print_json,
    show_bytes,
    show_fields,
    show_number,
    show_size,
    show_time,
)
from headrace.log.errors import CorruptFileError
from headrace.log.fs import RealFileSystem
from headrace.log.inspect import is_known_file, read_file
from headrace.log.inspect.decode import decoder_for
from headrace.log.inspect.directories import (
    files_of_partition,
    is_partition_directory,
    partition_directories,
    read_partitions,
)
from headrace.log.inspect.rows import (
    AbortedRow,
    BatchRow,
    DamagedFileError,
    EpochRow,
    OffsetEntryRow,
    OffsetRow,
    PartitionRow,
    PreallocatedRow,
    ProducerRow,
    PropertyRow,
    RecordRow,
    Row,
    TimeEntryRow,
    kind_of,
)
from headrace.log.meta_properties import FILE_NAME as META_PROPERTIES

KNOWN_FILES: Final = (
    ".log, .index, .timeindex, .txnindex, .snapshot, .checkpoint, and the checkpoint and property files"
)


class Printer(Protocol):
    """Two of them: tables for people, JSON lines for programs."""

    def file(self, path: str) -> None: ...

    def row(self, row: Row) -> None: ...

    def limited(self, limit: int) -> None: ...

    def fault(self, error: CorruptFileError) -> None: ...

    def end(self) -> None: ...


def dump(path: str, *, as_json: bool, with_records: bool, decode: str, limit: int | None) -> None:
    """Print everything, then raise Finding if a file was damaged, or Complaint if there is nothing to print."""
    printer: Printer = JsonPrinter() if as_json else TablePrinter(with_records=with_records)
    faults = 0
    for name, rows in _sources(path, with_records=with_records, decode=decode):
        try:
            printer.file(name)
            _print_rows(printer, rows, with_records=with_records, limit=limit)
        except CorruptFileError as error:
            printer.fault(error)
            faults += 1
        except OSError as error:
            if error.errno in (errno.EPIPE, *NO_ROOM):
                raise  # it is about what is printed, not about the file
            if isinstance(error, FileNotFoundError) and name != path:
                continue  # a broker at work has removed or renamed it since its directory was listed
            raise Complaint(f"{error.filename or name} cannot be read: {error.strerror}.") from error
    printer.end()
    if faults:
        raise Finding(
            f"{faults} {'file is' if faults == 1 else 'files are'} damaged; what is shown ends at the fault.",
            hint="Opening the log cuts a torn tail and builds indexes and snapshots anew. A batch with a "
            "wrong CRC that others follow is lost.",
        )


def _print_rows(printer: Printer, rows: Iterator[Row], *, with_records: bool, limit: int | None) -> None:
    shown = 0
    for row in rows:
        # With records shown, it is they that count: a batch is their heading.
        counts = not (with_records and isinstance(row, BatchRow))
        if limit is not None and shown >= limit:
            printer.limited(limit)
            return
        printer.row(row)
        shown += counts


def _sources(path: str, *, with_records: bool, decode: str) -> Iterator[tuple[str, Iterator[Row]]]:
    """What there is to print for `path`: names and their rows."""
    fs = RealFileSystem()

    def rows_of(file: str) -> tuple[str, Iterator[Row]]:
        return file, read_file(fs, file, decoder=decoder_for(decode, file), with_records=with_records)

    if not os.path.exists(path):
        raise Complaint(
            f"{path} does not exist.", hint="Give a file of a log, a partition directory or a log directory."
        )
    if not os.path.isdir(path):
        if not is_known_file(path):
            raise Complaint(f"{path} is no file of a log, by its name.", hint=f"Known are {KNOWN_FILES}.")
        yield rows_of(path)
    elif is_partition_directory(fs, path):
        for name in files_of_partition(fs, path):
            file = os.path.join(path, name)
            if is_known_file(file):
                yield rows_of(file)
    elif partition_directories(fs, path) or fs.exists(os.path.join(path, META_PROPERTIES)):
        properties = os.path.join(path, META_PROPERTIES)
        if fs.exists(properties):
            yield rows_of(properties)
        yield path, read_partitions(fs, path)
    else:
        raise Complaint(
            f"{path} holds no log: neither segments nor partition directories.",
            hint="A partition directory is called <topic>-<number>, a log directory holds several of them.",
        )


class JsonPrinter:
    """One object per row; `file` and `kind` say what it is."""

    def __init__(self) -> None:
        self._file = ""

    def file(self, path: str) -> None:
        self._file = path

    def row(self, row: Row) -> None:
        fields = jsonable(row)
        if isinstance(row, RecordRow):
            fields |= _decoded_fields(fields.pop("decoded"))
        print_json({"kind": kind_of(row), "file": self._file, **fields})

    def limited(self, limit: int) -> None:
        pass

    def fault(self, error: CorruptFileError) -> None:
        position = error.position if isinstance(error, DamagedFileError) else None
        reason = error.reason if isinstance(error, DamagedFileError) else str(error)
        print_json({"kind": "fault", "file": self._file, "position": position, "reason": reason})

    def end(self) -> None:
        pass


def _decoded_fields(decoded: dict[str, Any] | None) -> dict[str, Any]:
    """What takes the place of a record's raw key and value, once they have been decoded."""
    if decoded is None:
        return {}
    error = decoded.pop("error")
    return decoded if error is None else {"decode_error": error}


class TablePrinter:
    """A heading for each file, then one table for each kind of row in it. Batches are headings of their records."""

    def __init__(self, *, with_records: bool) -> None:
        self._writer = TableWriter()
        self._with_records = with_records
        self._kind: type | None = None
        self._files = 0

    def file(self, path: str) -> None:
        if self._files:
            self._writer.line("")
        heading = path if os.path.isdir(path) else f"{path}  {show_size(os.path.getsize(path))}"
        self._writer.line(heading, style="bold cyan")
        self._files += 1
        self._kind = None

    def row(self, row: Row) -> None:
        if isinstance(row, BatchRow) and self._with_records:
            self._start(RecordRow)
            self._writer.line(_batch_line(row), style="red" if row.crc_ok is False else "dim")
        elif isinstance(row, PreallocatedRow):
            self._writer.line(f"{show_size(row.size_bytes)} of zero bytes from byte {row.position} on: pre-allocated")
        else:
            self._start(type(row))
            self._writer.row(_CELLS[type(row)](row))

    def limited(self, limit: int) -> None:
        self._writer.line(f"… more rows follow: --limit {limit}", style="dim")

    def fault(self, error: CorruptFileError) -> None:
        self._writer.line(str(error), style="bold red")

    def end(self) -> None:
        self._writer.flush()

    def _start(self, kind: type) -> None:
        if self._kind is not kind:
            self._kind = kind
            self._writer.start(_COLUMNS[kind])


def _batch_line(batch: BatchRow) -> str:
    count = f"{batch.record_count} record{'' if batch.record_count == 1 else 's'}"
    parts = [f"batch {_range(batch.base_offset, batch.last_offset)}", count]
    parts.append(f"{show_size(batch.size_bytes)} at byte {batch.position}")
    parts.append(f"leader epoch {batch.leader_epoch}")
    if batch.producer_id != -1:
        parts.append(f"producer {_producer(batch.producer_id, batch.producer_epoch)}")
    if batch.base_sequence != -1:
        parts.append(f"sequence {_range(batch.base_sequence, batch.last_sequence)}")
    parts += _flags(batch)
    parts.append(f"CRC {_crc(batch)}")
    return ", ".join(parts)


def _flags(batch: BatchRow) -> list[str]:
    flags = [] if batch.codec == "none" else [batch.codec]
    if batch.transactional:
        flags.append("transactional")
    if batch.control:
        flags.append("control")
    if batch.timestamp_type != "CreateTime":
        flags.append(batch.timestamp_type)
    if batch.delete_horizon_ms is not None:
        flags.append(f"delete horizon {show_time(batch.delete_horizon_ms)}")
    return flags


def _crc(batch: BatchRow) -> str:
    if batch.crc_ok is None:
        return "unchecked: too large to look into"
    return "ok" if batch.crc_ok else "WRONG"


def _range(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}-{last}"


def _producer(producer_id: int, producer_epoch: int) -> str:
    return f"{producer_id} epoch {producer_epoch}" if producer_id != -1 else "-"


def _batch_cells(batch: BatchRow) -> list[str]:
    return [
        _range(batch.base_offset, batch.last_offset),
        str(batch.record_count),
        str(batch.position),
        str(batch.size_bytes),
        show_number(batch.leader_epoch),
        _producer(batch.producer_id, batch.producer_epoch),
        _range(batch.base_sequence, batch.last_sequence) if batch.base_sequence != -1 else "-",
        show_time(batch.max_timestamp),
        " ".join(_flags(batch)),
        _crc(batch),
    ]


def _record_cells(record: RecordRow) -> list[str]:
    key, value = show_bytes(record.key), show_bytes(record.value)
    decoded = record.decoded
    if decoded is not None and decoded.error is None:
        version = "" if decoded.version is None else f" v{decoded.version}"
        key = f"{decoded.type}{version}"
        if decoded.key is not None:
            key = f"{key} {show_fields(decoded.key)}"
        value = "<null>" if decoded.value is None else show_fields(decoded.value)
    elif decoded is not None:
        key = f"{decoded.type}: {decoded.error}; {key}"
    headers = " ".join(f"{name}={show_bytes(content)}" for name, content in record.headers)
    return [str(record.offset), show_time(record.timestamp), key, value, headers]


def _partition_cells(row: PartitionRow) -> list[str]:
    return [
        row.directory,
        str(row.segments),
        show_size(row.size_bytes),
        str(row.log_start_offset),
        "damaged" if row.log_end_offset is None else str(row.log_end_offset),
        show_number(row.high_watermark),
        show_number(row.recovery_point),
        show_number(row.leader_epoch),
        row.topic_id or "-",
    ]


def _numbers(row: Sequence[Any]) -> list[str]:
    return [str(field) for field in row]


_COLUMNS: Final[dict[type, Sequence[Column]]] = {
    BatchRow: [
        Column("offsets", right=True),
        Column("records", right=True),
        Column("position", right=True),
        Column("bytes", right=True),
        Column("epoch", right=True),
        Column("producer"),
        Column("sequence"),
        Column("time"),
        Column("flags"),
        Column("CRC"),
    ],
    RecordRow: [Column("offset", right=True), Column("time"), Column("key"), Column("value"), Column("headers")],
    OffsetEntryRow: [Column("offset", right=True), Column("position", right=True)],
    TimeEntryRow: [Column("time"), Column("offset", right=True)],
    AbortedRow: [
        Column("producer", right=True),
        Column("first offset", right=True),
        Column("last offset", right=True),
        Column("last stable offset", right=True),
    ],
    ProducerRow: [
        Column("producer"),
        Column("last sequence", right=True),
        Column("last offset", right=True),
        Column("offset delta", right=True),
        Column("time"),
        Column("coordinator epoch", right=True),
        Column("transaction from", right=True),
    ],
    EpochRow: [Column("epoch", right=True), Column("start offset", right=True)],
    OffsetRow: [Column("topic"), Column("partition", right=True), Column("offset", right=True)],
    PropertyRow: [Column("name"), Column("value")],
    PartitionRow: [
        Column("partition"),
        Column("segments", right=True),
        Column("size", right=True),
        Column("log start", right=True),
        Column("log end", right=True),
        Column("high watermark", right=True),
        Column("recovery point", right=True),
        Column("epoch", right=True),
        Column("topic id"),
    ],
}

_CELLS: Final[dict[type, Callable[[Any], list[str]]]] = {
    BatchRow: _batch_cells,
    RecordRow: _record_cells,
    OffsetEntryRow: _numbers,
    TimeEntryRow: lambda row: [show_time(row.timestamp), str(row.offset)],
    AbortedRow: _numbers,
    ProducerRow: lambda row: [
        _producer(row.producer_id, row.producer_epoch),
        show_number(row.last_sequence),
        show_number(row.last_offset),
        str(row.offset_delta),
        show_time(row.timestamp),
        show_number(row.coordinator_epoch),
        show_number(row.transaction_first_offset),
    ],
    EpochRow: _numbers,
    OffsetRow: _numbers,
    PropertyRow: lambda row: [row.name, show_fields(row.value)],
    PartitionRow: _partition_cells,
}
