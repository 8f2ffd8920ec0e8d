"""Every field of every message on its own: at the edges of its size, null, cut off, and with a length that is a lie.

What chance would find late is asked for here: an array whose count takes two bytes, a null where none may be, a count
that is one too high in the last array of a message.
"""

from collections.abc import Iterator
from typing import Any, Final

import pytest
from wiregen.model import Field

from headrace.protocol.errors import EncodeError
from tests.support import reference_codec
from tests.support.codec_checks import (
    BEHIND,
    check_costs,
    check_outcome,
    check_round_trip,
    codecs,
    for_each_message,
    outcome,
)
from tests.support.message_values import DECISIONS, other_than_default, values_from
from tests.support.messages import (
    UNKNOWN_TAGS,
    Definition,
    Values,
    bare_of,
    fields_of,
    least_of,
    value_at,
)

# A compact length is one above the size, and takes a second byte from 128 on.
EDGE_SIZES: Final = (126, 127)
HUGE: Final = {"string": 0x7FFF, "bytes": 0x7FFFFFFF, "records": 0x7FFFFFFF}
ONE_OF_EACH: Final = b"\x01" * DECISIONS  # values with one row in every array, all tags, and nothing null
TWO_OF_EACH: Final = b"\x02" * DECISIONS  # values with two rows in every array, no tags, and nothing null


def sized_fields(definition: Definition, version: int) -> Iterator[tuple[Field, ...]]:
    for path in fields_of(definition.message.body, version):
        if path[-1].is_array or path[-1].type in HUGE:
            yield path


def content_of(field: Field, size: int, version: int) -> Any:
    """A value of that size for an array, a string or bytes."""
    if not field.is_array:
        return "x" * size if field.type == "string" else b"x" * size
    if field.struct is not None:
        return [least_of(field.struct, version)] * size
    return [{"string": "", "uuid": bytes(16)}.get(field.type, 0)] * size


@for_each_message
def test_every_field_is_carried_at_small_sizes_and_as_null(definition: Definition) -> None:
    for version in codecs(definition):
        for path in fields_of(definition.message.body, version):
            field = path[-1]
            if version in field.nullable:
                check_round_trip(definition, version, value_at(path, None, version))
                check_beginnings(definition, version, value_at(path, None, version, rows=2))
            for size in (0, 2, 3) if field.is_array else ():
                check_round_trip(definition, version, value_at(path, content_of(field, size, version), version))
            if field.struct is not None and not field.is_array:
                check_round_trip(definition, version, value_at(path, {}, version))


@for_each_message
def test_a_length_of_one_byte_and_a_length_of_two_are_carried(definition: Definition) -> None:
    check_edge_sizes(definition, definition.versions[-1])


@pytest.mark.slow
@for_each_message
def test_a_length_of_one_byte_and_a_length_of_two_are_carried_in_every_version(definition: Definition) -> None:
    for version in codecs(definition):
        check_edge_sizes(definition, version)


def check_edge_sizes(definition: Definition, version: int) -> None:
    for path in sized_fields(definition, version):
        for size in EDGE_SIZES:
            check_round_trip(definition, version, value_at(path, content_of(path[-1], size, version), version))


@for_each_message
def test_unknown_tags_are_carried_by_every_struct_of_a_flexible_version_and_refused_by_the_others(
    definition: Definition,
) -> None:
    for version in codecs(definition):
        for values in with_tags(definition, version):
            if definition.is_flexible(version):
                check_round_trip(definition, version, values)
            elif definition.is_flexible(definition.versions[-1]):
                with pytest.raises(EncodeError, match="unknown_tags"):
                    definition.encode(version, definition.build(values))


def with_tags(definition: Definition, version: int) -> Iterator[dict[str, Any]]:
    """A message with unknown tags, and for each of its structs two with tags in that: one is bare except for them."""
    tags = {UNKNOWN_TAGS: ((77, b"unknown"),)}
    yield tags
    for path in fields_of(definition.message.body, version):
        field = path[-1]
        if field.struct is not None:
            for row in (least_of(field.struct, version), bare_of(field.struct, version, rows=1)):
                yield value_at(path, [row | tags] if field.is_array else row | tags, version)


@for_each_message
def test_every_tagged_field_is_carried_when_it_is_the_only_thing_to_say(definition: Definition) -> None:
    for version in codecs(definition):
        for *above, field in fields_of(definition.message.body, version):
            if field.tag is None:
                continue
            value = other_than_default(field)
            check_round_trip(definition, version, value_at((*above, field), value, version))
            if above and above[-1].struct is not None:
                row = bare_of(above[-1].struct, version, rows=1) | {field.name: value}
                check_round_trip(
                    definition, version, value_at(tuple(above), [row] if above[-1].is_array else row, version)
                )


@for_each_message
def test_every_proper_beginning_of_a_message_is_refused(definition: Definition) -> None:
    for version in codecs(definition):
        room = bytes(100) if definition.is_flexible(version) else b""
        check_beginnings(definition, version, bare_of(definition.message.body, version, rows=2, room=room))
        for decisions in (ONE_OF_EACH, TWO_OF_EACH):
            check_beginnings(definition, version, values_from(decisions, definition, version))


def check_beginnings(definition: Definition, version: int, values: Values) -> None:
    data = reference_codec.encode(definition.message, version, values)
    decode = definition.decoder(version)
    for end in range(len(data)):
        assert outcome(decode, data[:end], BEHIND[0])[0] == "refused", f"v{version}: {end} bytes of {data.hex()}"


@for_each_message
def test_one_byte_too_many_is_refused(definition: Definition) -> None:
    for version in codecs(definition):
        values = values_from(ONE_OF_EACH, definition, version)
        data = reference_codec.encode(definition.message, version, values)
        assert outcome(definition.decoder(version), data + b"\x00", BEHIND[0])[0] == "refused"


@for_each_message
def test_a_length_that_is_a_lie_is_seen_through_and_costs_nothing(definition: Definition) -> None:
    for version in codecs(definition):
        greedy = []
        for path in sized_fields(definition, version):
            field = path[-1]
            values = value_at(path, content_of(field, 2, version), version)
            huge = 0x7FFFFFFF if field.is_array else HUGE[field.type]
            for lie in (1, 3, huge):
                data = reference_codec.encode_with_claim(definition.message, version, values, field, lie)
                check_outcome(definition, version, data)
            greedy.append(data)
            nothing = value_at(path, content_of(field, 0, version), version)
            for lie in (
                (-1,) if definition.is_flexible(version) else (-1, -2)
            ):  # below null there is nothing in a varint
                data = reference_codec.encode_with_claim(definition.message, version, nothing, field, lie)
                check_outcome(definition, version, data)
        check_costs(definition.decoder(version), greedy)
