"""Every client message at every version, against `kio`: an independent codec, generated from Kafka's own definitions.

`kio` knows what travels between clients and brokers. It lacks what is only stored: the records of the metadata log and
of the coordinators' logs, and the quorum's state file. STORED names the files that define them; they are checked in
test_messages_against_reference.py, with a codec that in turn is checked here.
"""

from collections.abc import Iterable
from dataclasses import MISSING
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from wiregen.model import Struct

from tests.support import kio_oracle, reference_codec
from tests.support.codec_checks import for_each_message
from tests.support.message_values import examples, values_of
from tests.support.messages import Definition, all_messages, plain

# The files whose messages never leave a broker's disk, or leave it only inside of record batches.
STORED = {"group_records", "metadata_records", "quorum_state", "share_records", "transaction_records"}

CLIENT_MESSAGES = [definition for definition in all_messages() if definition.module_name not in STORED]
for_each_client_message = partial(for_each_message, among=CLIENT_MESSAGES)
FEW = examples(3)
MANY = examples(10)


def check(definition: Definition, version: int, values: dict[str, Any]) -> None:
    """One message through three codecs: the same bytes from all, and the same values from those bytes."""
    body = definition.message.body
    kio_class = kio_oracle.kio_type(definition, version)
    values = kio_oracle.representable(body, kio_class, version, values)
    expected = reference_codec.complete(body, values)
    data = kio_oracle.encode(kio_oracle.to_kio(body, kio_class, version, values))

    assert definition.encode(version, definition.build(values)).hex(" ") == data.hex(" ")
    assert reference_codec.encode(definition.message, version, values).hex(" ") == data.hex(" ")
    assert reference_codec.complete(body, plain(definition.decode(version, data))) == expected
    assert reference_codec.decode(definition.message, version, data) == expected
    read_by_kio = kio_oracle.from_kio(body, kio_oracle.decode(kio_class, data), version)
    assert reference_codec.complete(body, read_by_kio) == expected


def check_versions(definition: Definition, versions: Iterable[int], effort: settings) -> None:
    @effort
    @given(st.fixed_dictionaries({version: values_of(definition, version, unknown_tags=False) for version in versions}))
    def round_trip(values: dict[int, dict[str, Any]]) -> None:
        for version, values_of_version in values.items():
            check(definition, version, values_of_version)

    round_trip()


@for_each_client_message
def test_every_version_has_the_bytes_and_the_values_of_kio(definition: Definition) -> None:
    check_versions(definition, definition.versions, FEW)


@pytest.mark.slow
@for_each_client_message
def test_every_version_has_the_bytes_and_the_values_of_kio_at_length(definition: Definition) -> None:
    for version in definition.versions:
        check_versions(definition, [version], MANY)


@for_each_client_message
def test_fields_tags_defaults_and_nulls_are_those_of_kio(definition: Definition) -> None:
    for version in definition.versions:
        kio_class = kio_oracle.kio_type(definition, version)
        assert kio_class is not None, f"kio has no {definition} v{version}"
        assert kio_class.__flexible__ == definition.is_flexible(version)
        compare_structs(definition.message.body, kio_class, version)


def compare_structs(row: Struct, kio_class: Any, version: int) -> None:
    for ours, theirs in kio_oracle.pairs(row, kio_class, version):
        place = f"{row.name}.{ours.name} v{version}"
        assert ours.tag == kio_oracle.tag_of(theirs), place
        assert (version in ours.nullable) == kio_oracle.is_nullable(ours, theirs), place
        default = kio_oracle.default_value(ours, theirs, version)
        assert default is MISSING or completed(ours, default) == completed(ours, reference_codec.default_of(ours)), (
            place
        )
        if ours.struct is not None:
            compare_structs(ours.struct, kio_oracle.row_class(theirs), version)


def completed(field: Any, value: Any) -> Any:
    return reference_codec.complete(field.struct, value) if isinstance(value, dict) else value


def test_kio_lacks_exactly_the_messages_that_are_only_stored() -> None:
    missing = {
        definition.module_name
        for definition in all_messages()
        if any(kio_oracle.kio_type(definition, version) is None for version in definition.versions)
    }
    assert missing == STORED
    assert len(CLIENT_MESSAGES) == 190
