"""Files for `headrace.log.inspect`, and their rows."""

from pathlib import Path

from headrace.log.errors import CorruptFileError
from headrace.log.fs import RealFileSystem
from headrace.log.inspect import read_file
from headrace.log.inspect.rows import Row
from headrace.protocol.compression import Codec
from headrace.protocol.records import NewRecord, build_batch

FS = RealFileSystem()
SEGMENT = "00000000000000000000.log"
TOPIC_ID = bytes(range(1, 17))


def batch(base_offset: int, *values: bytes | None, codec: int = Codec.NONE) -> bytes:
    records = [NewRecord(1_000 + base_offset, b"k", value) for value in values]
    return bytes(build_batch(records, base_offset=base_offset, codec=codec, leader_epoch=3))


def write(directory: Path, name: str, data: bytes | str) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / name
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


def rows_of(path: Path, *, with_records: bool = True) -> list[Row]:
    return list(read_file(FS, str(path), with_records=with_records))


def rows_until_fault(path: Path) -> tuple[list[Row], CorruptFileError]:
    rows = []
    try:
        for row in read_file(FS, str(path)):
            rows.append(row)  # noqa: PERF402 - a comprehension would lose what came before the fault
    except CorruptFileError as error:
        return rows, error
    raise AssertionError("no fault was found")
