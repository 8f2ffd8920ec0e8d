"""What an encoder refuses, field by field: a version without the field, a value that does not fit, a null."""

from collections.abc import Iterator
from typing import Any

import pytest
from wiregen.model import Field, Struct

from headrace.protocol.errors import EncodeError
from tests.support import reference_codec
from tests.support.codec_checks import codecs, for_each_message
from tests.support.message_values import other_than_default
from tests.support.messages import Definition, fields_of, least_of, value_at


def fields_without_place(row: Struct, version: int) -> Iterator[tuple[Field, ...]]:
    """The way to every field that a version lacks, inside of structs that it has."""
    for field in row.fields:
        if version not in field.versions:
            yield (field,)
        elif field.struct is not None:
            yield from ((field, *rest) for rest in fields_without_place(field.struct, version))


@for_each_message
def test_a_field_that_a_version_lacks_is_refused_by_name_unless_it_may_be_ignored(definition: Definition) -> None:
    body = definition.message.body
    for version in codecs(definition):
        for path in fields_without_place(body, version):
            field = path[-1]
            values = least_of(body, version) | value_at(path, other_than_default(field), version)
            if field.is_ignorable:
                ignored = value_at(path, reference_codec.default_of(field), version)
                expected = reference_codec.encode(definition.message, version, least_of(body, version) | ignored)
                assert definition.encode(version, definition.build(values)).hex() == expected.hex(), f"v{version}"
            else:
                name = ".".join(each.name for each in path)
                assert refusal_of(definition, version, values) == name, f"v{version}"


MISFITS: dict[str, list[Any]] = {
    **{f"int{bits}": [1 << bits - 1, -(1 << bits - 1) - 1, None, "1"] for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": [1 << bits, -1, None, "1"] for bits in (16, 32)},
    "float64": [None, "1.0"],
    "uuid": [bytes(15), bytes(17), b"", None],
    "string": ["x" * 32768, "é" * 16384, "\ud800", b"bytes", 7],
    "bytes": [7],
}


@for_each_message
def test_a_value_that_its_field_cannot_hold_is_refused_by_name(definition: Definition) -> None:
    check_misfits(definition, definition.versions[-1])


@pytest.mark.slow
@for_each_message
def test_a_value_that_its_field_cannot_hold_is_refused_by_name_in_every_version(definition: Definition) -> None:
    for version in codecs(definition):
        check_misfits(definition, version)


def check_misfits(definition: Definition, version: int) -> None:
    for path in fields_of(definition.message.body, version):
        field = path[-1]
        for misfit in MISFITS.get(field.type, []):
            if misfit is None and version in field.nullable and not field.is_array:
                continue
            found = refusal_of(definition, version, value_at(path, [misfit] if field.is_array else misfit, version))
            assert found == ".".join(each.name for each in path), repr(misfit)


@for_each_message
def test_null_is_refused_where_the_version_has_no_null(definition: Definition) -> None:
    for version in definition.versions:
        for path in fields_of(definition.message.body, version):
            field = path[-1]
            if version in field.nullable or field.type == "bool":  # to `struct`, anything is true or false
                continue
            assert refusal_of(definition, version, value_at(path, None, version)), f"{field.name} v{version}"


def refusal_of(definition: Definition, version: int, values: dict[str, Any]) -> str | None:
    """The field that an encoder refuses, None if it takes them all."""
    try:
        definition.encode(version, definition.build(values))
    except EncodeError as error:
        return error.field
    return None
