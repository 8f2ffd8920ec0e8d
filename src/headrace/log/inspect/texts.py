"""The small text files: checkpoints, properties, and the JSON files of the quorum and of a clean stop."""

import json
from collections.abc import Iterator
from typing import Final

from headrace.log.checkpoints import (
    CLEAN_SHUTDOWN,
    CLEANER_OFFSETS,
    HIGH_WATERMARKS,
    LOG_STARTS,
    PARTITION_METADATA,
    RECOVERY_POINTS,
    parse_number,
    parse_offsets,
    parse_partition_metadata,
    parse_table,
)
from headrace.log.epochs import FILE_NAME as LEADER_EPOCHS
from headrace.log.errors import CorruptCheckpointError
from headrace.log.fs import FileSystem
from headrace.log.inspect.rows import DamagedFileError, EpochRow, OffsetRow, PropertyRow
from headrace.log.meta_properties import FILE_NAME as META_PROPERTIES
from headrace.protocol.properties import PropertiesError, parse_properties
from headrace.protocol.types import uuid_to_text

QUORUM_STATE: Final = "quorum-state"
OFFSET_CHECKPOINTS: Final = frozenset({RECOVERY_POINTS, LOG_STARTS, HIGH_WATERMARKS, CLEANER_OFFSETS})
TEXT_FILES: Final = OFFSET_CHECKPOINTS | {
    LEADER_EPOCHS,
    PARTITION_METADATA,
    META_PROPERTIES,
    QUORUM_STATE,
    CLEAN_SHUTDOWN,
}


def read_text_file(fs: FileSystem, path: str, *, name: str) -> Iterator[EpochRow | OffsetRow | PropertyRow]:
    """The lines of one of TEXT_FILES, which `name` says. Raises CorruptCheckpointError or DamagedFileError."""
    data = fs.read_bytes(path)
    if name == META_PROPERTIES:  # not necessarily UTF-8
        try:
            properties = parse_properties(data.decode("latin-1"))
        except PropertiesError as error:
            raise CorruptCheckpointError(f"{path}, {error}") from None
        yield from (PropertyRow(key, value) for key, value in properties.items())
        return
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise DamagedFileError(path, "not UTF-8", position=error.start) from None
    if name in OFFSET_CHECKPOINTS:
        for (topic, partition), offset in parse_offsets(text, path=path).items():
            yield OffsetRow(topic, partition, offset)
    elif name == LEADER_EPOCHS:
        # Line by line: EpochHistory would settle entries that contradict one another, and here they must be seen.
        for line, fields in parse_table(text, path=path):
            if len(fields) != 2:
                raise CorruptCheckpointError(f"{path}, line {line}: expected epoch and start offset")
            yield EpochRow(*(parse_number(field, path=path, line=line) for field in fields))
    elif name == PARTITION_METADATA:
        yield PropertyRow("topic_id", uuid_to_text(parse_partition_metadata(text, path=path)))
    else:
        yield from _read_json(text, path)


def _read_json(text: str, path: str) -> Iterator[PropertyRow]:
    if not text:
        return  # an old Kafka left the file of a clean stop empty
    try:
        content = json.loads(text)
    except json.JSONDecodeError as error:
        raise DamagedFileError(path, f"not JSON: {error.msg}", position=error.pos) from None
    if not isinstance(content, dict):
        raise DamagedFileError(path, "not a JSON object", position=0)
    for key, value in content.items():
        yield PropertyRow(key, value)
