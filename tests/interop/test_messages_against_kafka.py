"""All messages at all versions against Apache Kafka's own classes, which also know the records that `kio` lacks.

Kafka reads what the generated encoders write, shows it field by field, and writes it again to the same bytes.
"""

import json
import random
from base64 import b64decode
from pathlib import Path
from typing import Any, Final

import pytest
from wiregen.model import Field, Struct

from headrace.protocol.types import uuid_from_text
from tests.support.kafka_tools import KafkaTools
from tests.support.message_values import DECISIONS, values_from
from tests.support.messages import Definition, all_messages
from tests.support.reference_codec import complete, default_of

pytestmark = pytest.mark.kafka

MESSAGES_PER_VERSION: Final = 30
PACKAGES: Final = {
    "group_records": "org.apache.kafka.coordinator.group.generated",
    "metadata_records": "org.apache.kafka.common.metadata",
    "quorum_state": "org.apache.kafka.raft.generated",
    "share_records": "org.apache.kafka.coordinator.share.generated",
    "transaction_records": "org.apache.kafka.coordinator.transaction.generated",
}


def kafka_class(definition: Definition) -> str:
    is_between_processes = definition.api_key is not None or definition.module_name == "headers"
    suffix = "Data" if is_between_processes else ""
    return f"{PACKAGES.get(definition.module_name, 'org.apache.kafka.common.message')}.{definition}{suffix}"


def as_kafka_shows_it(row: Struct, values: dict[str, Any], version: int) -> dict[str, Any]:
    """The fields that Kafka's JSON has: those of the version, but no tagged ones that are at their default."""
    shown = {}
    for field in row.fields:
        value = values[field.name]
        if version in field.versions and (field.tag is None or value != completed_default(field)):
            shown[field.name.replace("_", "")] = shown_field(field, value, version)
    return shown


def completed_default(field: Field) -> Any:
    default = default_of(field)
    return complete(field.struct, default) if field.struct is not None and isinstance(default, dict) else default


def shown_field(field: Field, value: Any, version: int) -> Any:
    if field.type == "records" and value is not None:
        return b""  # Kafka does not show what is in them
    if field.struct is None or value is None:
        return value
    if field.is_array:
        return [as_kafka_shows_it(field.struct, item, version) for item in value]
    return as_kafka_shows_it(field.struct, value, version)


def from_json(row: Struct, shown: dict[str, Any], version: int) -> dict[str, Any]:
    """Kafka's JSON with our types, by names without case and underscores."""
    fields = {field.name.replace("_", ""): field for field in row.fields}
    return {name.lower(): from_json_field(fields[name.lower()], value, version) for name, value in shown.items()}


def from_json_field(field: Field, value: Any, version: int) -> Any:
    if value is None:
        return None
    return (
        [from_json_item(field, item, version) for item in value]
        if field.is_array
        else from_json_item(field, value, version)
    )


def from_json_item(field: Field, value: Any, version: int) -> Any:
    if field.struct is not None:
        return from_json(field.struct, value, version)
    match field.type:
        case "uuid":
            return uuid_from_text(value)
        case "bytes" | "records":
            return b64decode(value)
        case _:
            return value


def test_kafka_reads_what_we_write_and_writes_the_same(kafka_tools: KafkaTools, tmp_path: Path) -> None:
    source = random.Random("kafka")
    cases = [
        (definition, version, values_from(source.randbytes(DECISIONS), definition, version))
        for definition in all_messages()
        for version in definition.versions
        for _ in range(MESSAGES_PER_VERSION)
    ]
    written = [definition.encode(version, definition.build(values)).hex() for definition, version, values in cases]
    lines = [
        f"{kafka_class(definition)} {version} {data}"
        for (definition, version, _), data in zip(cases, written, strict=True)
    ]
    (tmp_path / "messages").write_text("\n".join(lines) + "\n")
    answers = kafka_tools.run("Recode.java", str(tmp_path / "messages")).splitlines()
    for (definition, version, values), data, answer in zip(cases, written, answers, strict=True):
        again, _, shown = answer.partition(" ")
        body = definition.message.body
        assert again == data, f"{definition} v{version}"
        found = from_json(body, json.loads(shown), version)
        assert found == as_kafka_shows_it(body, complete(body, values), version), f"{definition} v{version}"
